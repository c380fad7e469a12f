"""Jobs of PyTorch that really hang: their dumps name the rank and the line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.programs.frameworks import interpreter

PROGRAM = Path(__file__).parent / "programs" / "hanging_torch.py"
RANKS = 3
_LINES = PROGRAM.read_text("utf-8").splitlines()


def line_of(text: str) -> int:
    (line,) = (at for at, each in enumerate(_LINES, 1) if text in each)
    return line


def hang_of(fault: str, folder: Path) -> dict[str, Any]:
    """Let the ranks run until each has written its dump, and report on these."""
    arguments = [fault, str(RANKS), str(folder)]
    ranks = [
        subprocess.Popen(
            [interpreter("torch"), PROGRAM, *arguments, str(rank)],
            stderr=subprocess.DEVNULL,
        )
        for rank in range(RANKS)
    ]
    for each in ranks:
        each.wait(120)
    done = subprocess.run(
        [sys.executable, "-m", "stepscope", "report", folder, "--format", "json"],
        capture_output=True,
        text=True,
        check=True,
    )
    told: dict[str, Any] = json.loads(done.stdout)
    return told


@pytest.mark.framework(seconds=15)
def test_a_rank_that_evaluates_while_the_others_train(tmp_path: Path) -> None:
    told = hang_of("evaluates", tmp_path)
    assert told["cause"] == "not_called"
    states = {each["rank"]: each["state"] for each in told["ranks"]}
    assert states == {0: "waits", 1: "waits", 2: "not_called"}
    callers = {each["rank"]: each["call"]["caller"] for each in told["ranks"]}
    assert callers[0] == f"train_step ({PROGRAM}:{line_of('dist.all_reduce(loss)')})"
    assert callers[2] == f"evaluate ({PROGRAM}:{line_of('dist.broadcast(loss, 0)')})"


@pytest.mark.framework(seconds=15)
def test_ranks_that_take_different_branches(tmp_path: Path) -> None:
    told = hang_of("branches", tmp_path)
    assert told["cause"] == "mismatch"
    assert "all_reduce" in told["text"]
    assert "broadcast" in told["text"]
