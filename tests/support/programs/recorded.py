"""Programs without a framework, recorded by the command line on one thread each."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import stepscope as ss
from stepscope.reporting.compose import judge_profile
from stepscope.rundir import scan_directory

if TYPE_CHECKING:
    from pathlib import Path

    from stepscope.reporting.compose import Judgement


def judged_program(program: Path, logdir: Path, *options: str) -> Judgement:
    """Record a program with `stepscope run`; return what is said of the recording."""
    own = ("--no-report", "--logdir", str(logdir), *options)
    subprocess.run(
        [sys.executable, "-m", "stepscope", "run", *own, str(program)],
        check=True,
        capture_output=True,
        timeout=120,
        env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
    )
    (recorded,) = scan_directory(logdir).runs
    return judge_profile(ss.open(recorded.directory))
