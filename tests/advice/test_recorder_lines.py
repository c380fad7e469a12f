"""What the recorder does on the program's thread is no work of the program."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.traces import blueprint
from tests.support.traces.training import WATCHED, findings

from stepscope.derive.step_windows.windows import windows
from stepscope.unavailable import require_available

SAMPLES = "samples of main, 1000 a second"
LINES = "source lines of main, 1000 a second"
MAIN, STEP = "$/app/train.py:60 main", "$/app/train.py:41 train_step"
WRAPPER = "$/v/site-packages/torch/optim/optimizer.py:490 Optimizer.wrapper"


def marked(
    called: str, *, inner: str = MAIN, begins: Any = None, length: float = 2_000.0
) -> list[Any]:
    """Steps of 10 ms, each followed by a time in which `inner` calls a function.

    Args:
        called: What line 77 of `inner` calls then.
        begins: Starts of the steps.
        length: Length of the time after each of them.
    """
    lines: list[Any] = []
    at = 0.0
    for number in range(20):
        marks = {"_r": 1, "step_num": number}
        rest = length if begins is None or number in begins else 0.0
        lines += [
            ("main", "train", at, 10_000.0, marks),
            (LINES, MAIN, at, 10_000.0, at_line(78)),
            (LINES, STEP, at, 10_000.0, at_line(45)),
            (SAMPLES, STEP, at, 10_000.0),
        ]
        at += 10_000.0
        if rest:
            own = at_line(77, called if inner == MAIN else None)
            lines.append((LINES, MAIN, at, rest, own))
        if rest and inner != MAIN:
            lines.append((LINES, inner, at, rest, at_line(77, called)))
            lines.append((SAMPLES, inner, at, rest))
        at += rest
    return [(SAMPLES, MAIN, 0.0, at), *lines, *WATCHED]


def at_line(number: int, called: str | None = None) -> dict[str, Any]:
    return {"source_line": number} | ({} if called is None else {"called": called})


@pytest.mark.parametrize(
    ("called", "is_work"),
    [
        ("log_metrics", True),
        ("ss.StepTrace", False),
        ("jax.profiler.StepTraceAnnotation", False),
        # A hook of the recorder.
        ("stepscope", False),
        ("stepscope.recording", False),
    ],
)
@pytest.mark.parametrize("inner", [MAIN, WRAPPER])
def test_markers_and_hooks_of_recorders_are_no_other_work(
    called: str, inner: str, *, is_work: bool
) -> None:
    """Of each 12 ms the program is in line 77 for 2, between two steps."""
    found = findings(marked(called, inner=inner))["gap.callbacks"]
    assert (found.status == "fail") is is_work


def test_a_step_in_which_the_recording_starts_is_left_out() -> None:
    """After step 9 the start of a framework's profiler takes 300 ms, in a hook."""
    lines = marked("stepscope.recording", inner=WRAPPER, begins={9}, length=300_000.0)
    placed = require_available(
        blueprint.profile(blueprint.trace(lines)).derived("vm", windows)
    )
    assert [n for n, each in enumerate(placed.typical.tolist()) if not each] == [9]
    assert "warm_up" in placed.rows["flags"].to_list()[9]
    found = findings(lines)
    assert found["recording.cost"].status != "fail"
    assert found["host.work"].share_percent == pytest.approx(100, abs=0.1)
    as_work = findings(marked("log", inner=WRAPPER, begins={9}, length=300_000.0))
    assert as_work["gap.callbacks"].share_percent == pytest.approx(60, abs=0.1)
