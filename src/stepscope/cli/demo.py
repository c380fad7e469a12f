"""What `stepscope demo` does."""

from __future__ import annotations

import importlib.util
import sys
import tempfile
from importlib import resources
from pathlib import Path
from typing import Final

from stepscope.cli import report as reporting
from stepscope.cli import run as running
from stepscope.errors import StepscopeError
from stepscope.report.page import Piece, line
from stepscope.rundir import run_directory

__all__ = ["PROGRAMS", "answer"]

#: Package that a program needs → the program; the first one that is there is run.
PROGRAMS: Final = {
    "torch": "torch_loop.py",
    "jax": "jax_loop.py",
    "tensorflow": "tensorflow_loop.py",
    "numpy": "numpy_loop.py",
}
_REPORT: Final = "stepscope run -- python train.py"
_SHOW: Final = "stepscope show ops "


def answer() -> int:
    """Record the loop of this interpreter's framework and report; the exit status.

    Raises:
        StepscopeError: The loop failed, or nothing of it was recorded.
    """
    logdir = Path(tempfile.mkdtemp(prefix="stepscope-demo-"))
    program = _program()
    # Without a framework only Python calls have names.
    level = 1 if program == PROGRAMS["numpy"] else 0
    plan = running.planned(str(logdir), python_tracer_level=level)
    shipped = resources.files("stepscope.cli") / "demo_programs" / program
    # Beside its recording it is a program like any other, and can be looked at.
    script = logdir / program
    script.write_bytes(shipped.read_bytes())
    status = running.recorded([sys.executable, str(script)], plan)
    directory = run_directory(logdir, plan.run)
    if status or not directory.is_dir():
        raise StepscopeError(
            f"the demonstration failed with status {status}. What it needs may not "
            "work here: its own message stands above"
        )
    return reporting.answer(
        [str(directory)],
        form="text",
        output=None,
        force=False,
        after=[
            line(Piece("What next", "heading")),
            line(),
            line("  Explain your own program:  ", Piece(_REPORT, "code")),
            line("  Look at every op of this:  ", Piece(_SHOW + str(logdir), "code")),
        ],
    )


def _program() -> str:
    """The script for the framework that is installed in this interpreter."""
    for package, script in PROGRAMS.items():
        if importlib.util.find_spec(package) is not None:
            return script
    return PROGRAMS["numpy"]
