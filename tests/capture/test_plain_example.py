"""The example without a framework runs as it stands; its recording is what it says."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from tests.support.programs.frameworks import (
    check_every_tool,
    only_file,
    run_program,
    steps_of,
)

import stepscope as ss

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.slow(seconds=0.6)
def test_the_plain_example_records_thirty_steps_with_their_parts(
    repository: Path, tmp_path: Path
) -> None:
    run_program(sys.executable, repository / "examples" / "plain_python.py", tmp_path)
    profile = ss.open(only_file(tmp_path))
    assert steps_of(profile) == [("train", number) for number in range(30)]
    (host,) = profile.hosts
    trace = profile.trace(host)
    names = trace.table("event_types")["name"].gather(trace.table("events")["type"])
    counts = {name: (names == name).sum() for name in names.unique()}
    assert {name: counts[name] for name in ("next_batch", "forward", "backward")} == {
        "next_batch": 30,
        "forward": 30,
        "backward": 30,
    }
    check_every_tool(profile)


@pytest.mark.slow
def test_the_report_reads_it(repository: Path, tmp_path: Path) -> None:
    run_program(sys.executable, repository / "examples" / "plain_python.py", tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "stepscope", "report", "--full", tmp_path],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "30 steps, from the program's step markers" in done.stdout
