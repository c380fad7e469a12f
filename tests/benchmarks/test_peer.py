"""The program that is measured against XProf runs, and answers as the commands do."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow(seconds=1)
def test_the_measured_program_writes_every_tool_and_the_timeline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    program = importlib.import_module("peer").STEPSCOPE_PROGRAM
    recording = ROOT / "tests" / "data" / "gpu" / "torch_healthy"
    asked = ("overview_page", "kernel_stats", "trace_viewer")
    done = subprocess.run(
        [sys.executable, "-c", program, recording, *asked],
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    for tool in asked:
        assert f'"tool": "{tool}"'.encode() in done.stdout
    # The tiles come after the last tool's answer.
    assert not done.stdout.rstrip().endswith(b"}")
