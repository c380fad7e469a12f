"""A slow transform in the workers of a loader is named; a healthy twin blames none."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pytest
from click.testing import CliRunner
from tests.support.programs.frameworks import interpreter, run_program

import stepscope as ss
from stepscope.cli.main import main
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.framework

#: The workers begin before the recording, and stay. A batch of the fault takes 48 ms of
#: each worker, by the clock; a step computes for some ms in the one, and for 30 in the
#: other, in which the workers have nothing to do.
PROGRAM: Final = """
import os, sys, time
import torch
from torch.utils.data import DataLoader, Dataset
import stepscope as ss

def busy(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        sum(range(100))

def decode(number):
    return torch.full((64,), float(number % 7))

def augment(row):
    end = time.perf_counter() + 0.006
    while time.perf_counter() < end:
        sum(range(100))
    return row

class Rows(Dataset):
    def __init__(self, fault):
        self.fault = fault

    def __len__(self):
        return 100_000

    def __getitem__(self, number):
        row = decode(number)
        return augment(row) if self.fault else row

def main(folder, how, fault):
    torch.set_num_threads(1)
    model = torch.nn.Linear(64, 1)
    loader = DataLoader(
        Rows(fault == "slow"), batch_size=8, num_workers=2, persistent_workers=True,
        multiprocessing_context=how,
    )
    batches = iter(loader)

    def step():
        batch = next(batches)
        loss = model(batch).square().mean()
        loss.backward()
        busy(0.002 if fault == "slow" else 0.03)

    for _ in range(3):
        step()
    with ss.Profile(folder) as run:
        for number in range(40):
            with ss.StepTrace(number):
                step()
    print(run.path, *run.warnings, sep="\\n")
    # Its workers are not waited for.
    sys.stdout.flush()
    os._exit(0)

if __name__ == "__main__":
    main(*sys.argv[1:])
"""


def recorded(folder: Path, how: str, fault: str) -> tuple[dict[str, Any], str]:
    """The report of a program, as data and as text."""
    program = folder / "program.py"
    program.write_text(PROGRAM)
    done = run_program(interpreter("torch"), program, folder / "log", how, fault)
    path, *warnings = done.stdout.splitlines()
    assert warnings == []

    def report(form: str) -> str:
        done = CliRunner().invoke(main, ["report", "--full", "--format", form, path])
        assert done.exit_code == 0, done.output
        return done.stdout

    said: dict[str, Any] = json.loads(report("json"))
    return said, report("text")


def finding_of(said: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = next(
        one for one in said["findings"] if one["id"] == "input.bound"
    )
    return found


@pytest.mark.parametrize(
    "how", ["fork", pytest.param("spawn", marks=pytest.mark.thorough)]
)
def test_the_transform_that_holds_the_workers_is_said_first(
    tmp_path: Path, how: str
) -> None:
    said, text = recorded(tmp_path, how, "slow")
    line = PROGRAM[: PROGRAM.index("def augment")].count("\n") + 1
    place = f"`augment` (program.py:{line})"
    assert said["headline"]["finding"] == "input.bound"
    assert place in said["headline"]["text"]
    finding = finding_of(said)
    assert finding["status"] == "fail"
    first = finding["workers"][0]
    assert (first["function"], first["line"]) == ("augment", line)
    assert first["share_percent"] > 60
    assert place in finding["actions"][0]["text"] + finding["actions"][1]["text"]
    # Worker time is no step's time.
    assert not any(part["function"] == "augment" for part in finding["parts"])
    assert f"augment (program.py:{line})" in text
    page = ss.open(tmp_path / "log").tool("input_pipeline_analyzer")
    assert not isinstance(page, Unavailable)
    advice = {one.category: one.advice for one in page.next_steps}
    assert f"most of which is in {place}" in advice["waiting_for_workers"]


def test_its_healthy_twin_blames_no_worker(tmp_path: Path) -> None:
    """Where others have the cores, handing a batch over may take long by itself."""
    said, text = recorded(tmp_path, "fork", "healthy")
    finding = finding_of(said)
    assert said["headline"]["finding"] != "input.bound"
    assert finding["workers"] == []
    assert "num_workers" not in json.dumps(finding["actions"])
    assert "worker processes spend" not in text
    facts = {one["name"]: one["value"] for one in finding["facts"]}
    assert facts["worker_share"] is None
    # If steps rarely wait, too few samples show what workers do meanwhile.
    if finding["status"] == "fail" and facts["workers_idle"] is not None:
        assert facts["workers_idle"] > 50
