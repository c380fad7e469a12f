"""Loops of PyTorch that compute gradients and step no optimizer of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from tests.support.programs.frameworks import interpreter

import stepscope as ss

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.framework

LOOPS = """
import sys, torch
from torch.profiler import ProfilerActivity, profile
kind, count, stored = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
torch.manual_seed(0)
torch.set_num_threads(1)
layers = [torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU())]
layers += [torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU())] * 11
model = torch.nn.Sequential(*layers, torch.nn.Linear(64, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
rows, labels = torch.randn(32, 64), torch.zeros(32, dtype=torch.long)
def loss_of(rows):
    return torch.nn.functional.cross_entropy(model(rows), labels)
def take(number):
    if kind == "inference":
        with torch.no_grad():
            model(rows)
    elif kind == "adversarial":
        fooled = rows.clone().requires_grad_(True)
        slope, = torch.autograd.grad(loss_of(fooled), fooled)
        fooled = (fooled + 0.1 * slope.sign()).detach()
    else:
        loss_of(rows).backward()
        if kind == "by_hand":
            for weight in model.parameters():
                weight.data -= 0.01 * weight.grad
                weight.grad = None
        elif kind == "optimizer" and number % 4 == 3:
            optimizer.step()
            optimizer.zero_grad()
        elif kind == "fails" and number == 45:
            loss = loss_of(rows)
            loss.backward()
            loss.backward()
def loop():
    for number in range(count):
        take(number)
if stored:
    take(0)
    with profile(activities=[ProfilerActivity.CPU]) as profiled:
        loop()
    profiled.export_chrome_trace(stored[0])
else:
    loop()
print(f"{float(loss_of(rows)):.9e}")
"""
WITHOUT = ("accumulated", "by_hand", "adversarial")
#: Runs the loops one after the other, as each would run by itself; what each prints.
ALONE = """
import contextlib, io, json, runpy, sys
said = {}
for command in json.loads(sys.argv[1]):
    sys.argv = ["loops.py", *command]
    with contextlib.redirect_stdout(io.StringIO()) as out:
        runpy.run_path("loops.py", run_name="__main__")
    said[" ".join(command[:2])] = out.getvalue()
print(json.dumps(said))
"""


class Alone(NamedTuple):
    """Loops that ran without us: where their traces are, and what each printed."""

    folder: Path
    said: dict[str, str]

    def page(self, kind: str, count: int) -> Any:
        """The overview of PyTorch's own trace."""
        return ss.open(self.folder / f"{kind}{count}.pt.trace.json").tool("overview")


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Alone:
    """Each loop by itself; PyTorch is imported once."""
    folder = tmp_path_factory.mktemp("alone")
    (folder / "loops.py").write_text(LOOPS)
    traced = [*((kind, 20) for kind in WITHOUT), ("accumulated", 1)]
    commands = [
        [kind, str(count), f"{kind}{count}.pt.trace.json"] for kind, count in traced
    ]
    commands += [[kind, "120"] for kind in WITHOUT]
    done = subprocess.run(
        [interpreter("torch"), "-c", ALONE, json.dumps(commands)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": "-1"},
    )
    return Alone(folder, json.loads(done.stdout.splitlines()[-1]))


def run(folder: Path, *command: object) -> subprocess.CompletedProcess[str]:
    (folder / "loops.py").write_text(LOOPS)
    return subprocess.run(
        [interpreter("torch"), "loops.py", *map(str, command)]
        if command[0] != "run"
        else [sys.executable, "-m", "stepscope", *map(str, command)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": "-1"},
    )


def recorded(folder: Path, kind: str) -> tuple[subprocess.CompletedProcess[str], Any]:
    """Run a loop of 120 turns under the profiler; its end, and the steps' numbers."""
    asked = ("--no-report", "--max-slowdown", 1000, "--steps", 10, "--logdir", "log")
    done = run(folder, "run", *asked, "--", interpreter("torch"), "loops.py", kind, 120)
    return done, [one.step for one in ss.open(folder / "log").tool("overview").steps]


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=[pytest.mark.thorough] * (kind != "by_hand"))
        for kind in WITHOUT
    ],
)
def test_steps_end_with_the_backward_pass_where_no_optimizer_steps(
    kind: str, tmp_path: Path, alone: Alone
) -> None:
    """An optimizer might step after up to 32 passes: steps count from there on."""
    done, steps = recorded(tmp_path, kind)
    assert done.stdout == alone.said[f"{kind} 120"]
    assert "counted: backward passes (PyTorch)" in done.stderr
    assert steps == list(range(11, 21))


@pytest.mark.parametrize(
    ("kind", "steps"),
    [
        ("optimizer", list(range(11, 21))),
        pytest.param("inference", [], marks=pytest.mark.thorough),
    ],
)
def test_passes_are_no_steps_where_an_optimizer_steps_or_none_are_run(
    kind: str, steps: list[int], tmp_path: Path
) -> None:
    """Of 120 passes each fourth is followed by a step; of inference none is one."""
    done, found = recorded(tmp_path, kind)
    assert done.returncode == 0
    assert found == steps
    assert "backward passes" not in done.stderr


@pytest.mark.thorough
def test_an_error_in_a_pass_shows_the_programs_frames_alone(tmp_path: Path) -> None:
    """The 46th turn fails: its pass would end step 13, of 11 to 20."""
    alone = run(tmp_path, "fails", 120).stderr
    done, _ = recorded(tmp_path, "fails")
    assert done.returncode == 1

    def frames(text: str) -> list[str]:
        lines = text[text.index("Traceback") :].splitlines()
        return [line for line in lines if line.startswith("  File ")]

    assert frames(alone)
    assert frames(done.stderr) == frames(alone)


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=[pytest.mark.thorough] * (kind != "by_hand"))
        for kind in WITHOUT
    ],
)
def test_a_trace_of_pytorch_alone_shows_a_step_for_each_pass(
    kind: str, alone: Alone
) -> None:
    page = alone.page(kind, 20)
    assert len(page.steps) == 20
    assert page.step_detection.confidence >= 0.6


def test_the_layers_of_one_pass_are_no_steps(alone: Alone) -> None:
    """Twelve equal layers, run forward and backward once."""
    page = alone.page("accumulated", 1)
    assert page.step_detection.source in (None, "none")
