"""What PyTorch recorded is freed when a recording ends, not when garbage is found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest
from tests.support.programs.frameworks import interpreter, run_program

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.framework

#: Records twice; how many of PyTorch's profilers still hold a trace after each time,
#: and how many warnings say that PyTorch was not recorded.
PROGRAM: Final = """
import gc, sys, torch
import stepscope as ss
from torch.autograd.profiler import profile

gc.disable()
for name in ("first", "second"):
    with ss.Profile(sys.argv[1] + name) as recorded, ss.StepTrace(0):
        torch.ones(8) @ torch.ones(8)
    print(sum(type(it) is profile and it.kineto_results is not None
              for it in gc.get_objects()))
    print(sum("not recorded" in it for it in recorded.run.warnings))
"""


def test_no_trace_waits_for_a_collection_that_another_thread_may_make(
    tmp_path: Path,
) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = run_program(interpreter("torch"), program, f"{tmp_path}/")
    # One without results must not look like a profiler of the program's own.
    assert done.stdout.split() == ["0", "0"] * 2
