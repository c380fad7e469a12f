"""Implementation of `stepscope demo`."""

from __future__ import annotations

import importlib.util
import shlex
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from stepscope.capture.base.program_log import say_line
from stepscope.cli import report as reporting
from stepscope.cli import run as running
from stepscope.cli.output import text_width
from stepscope.errors import StepscopeError
from stepscope.reporting.outline import as_text
from stepscope.reporting.outline.report import SHORT_SECTIONS, report_outline
from stepscope.reporting.page import Piece, line, wrap_text
from stepscope.rundir import run_directory

if TYPE_CHECKING:
    from stepscope.cli.requests import DemoRequest
    from stepscope.reporting.page import Line

#: Python package → program that needs it; the first installed package is used.
PROGRAMS: Final = {
    "torch": "torch_loop.py",
    "jax": "jax_loop.py",
    "tensorflow": "tensorflow_loop.py",
    "numpy": "numpy_loop.py",
}
_HERE: Final = Path(__file__).parent
#: Log directory with a profile from a GPU (`tests/gpu/torch_scenes.py`).
RECORDED: Final = _HERE / "demo_profiles" / "torch_input_bound"
_ABOUT_RECORDED: Final = (
    "This recording ships with stepscope: a PyTorch loop on an H100, with a planted "
    "fault. The thread that trains also produces each batch, which takes 15 ms."
)


def answer_request(request: DemoRequest) -> int:
    """Record a loop here; report on it and on a stored recording from an H100.

    Raises:
        StepscopeError: The loop failed, or nothing was recorded.
    """
    del request
    logdir = Path(tempfile.mkdtemp(prefix="stepscope-demo-"))
    local, gpu = logdir / "here", logdir / "h100"
    _record_loop(local)
    shutil.copytree(RECORDED, gpu)
    stepscope = _stepscope_command()
    commands = {
        "Both recordings in a browser": f"{stepscope} serve {logdir}",
        "Full report of this loop": f"{stepscope} report --full {local}",
        "Full report of the H100": f"{stepscope} report --full {gpu}",
        "Record your own program": f"{stepscope} run -- python train.py",
    }
    reporting.show_lines(
        [
            *_short_report(local),
            line(Piece("On a GPU", "heading")),
            *wrap_text(_ABOUT_RECORDED, text_width(), indent=2),
            line(),
            *_short_report(gpu),
            line(Piece("What next", "heading")),
            *(
                line(f"  {purpose:<28}  ", Piece(command, "code"))
                for purpose, command in commands.items()
            ),
        ]
    )
    return 0


def _record_loop(logdir: Path) -> None:
    installed = (
        script
        for package, script in PROGRAMS.items()
        if importlib.util.find_spec(package) is not None
    )
    program = next(installed, PROGRAMS["numpy"])
    plan = running.plan_run(str(logdir))
    logdir.mkdir()
    # The copy stays next to the recording, so that the user can read it.
    script = logdir / program
    shutil.copyfile(_HERE / "demo_programs" / program, script)
    say_line("recording a small training loop on this machine")
    status = running.record_program([sys.executable, str(script)], plan)
    if status or not run_directory(logdir, plan.run).is_dir():
        raise StepscopeError(
            f"the demonstration failed with status {status}. The error message of its "
            "program is above"
        )


def _short_report(logdir: Path) -> list[Line]:
    document = reporting.compose_with_progress([str(logdir)])
    outline = report_outline(document, sections=SHORT_SECTIONS)
    return as_text.render(outline, width=text_width())


def _stepscope_command() -> str:
    called = Path(sys.argv[0])
    if called.name == "__main__.py":
        return f"{shlex.quote(sys.executable)} -m stepscope"
    path = shutil.which("stepscope")
    if path is not None and called.exists() and Path(path).samefile(called):
        return "stepscope"
    return shlex.quote(str(called))
