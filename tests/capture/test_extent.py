"""How far a window reaches: by what a step holds, for whose storing a program waits."""

from __future__ import annotations

import pytest

from stepscope.capture.launching.extent import Extent
from stepscope.capture.launching.plan import RunPlan

STEP_S = 0.1


def plan(*, max_events: int) -> RunPlan:
    return RunPlan(
        logdir="d", run="r", notes="n", least_s=0.4, record_s=5.0, max_events=max_events
    )


def steps_recorded(extent: Extent, *, a_step: int, step_s: float = STEP_S) -> int:
    """Record until the window ends; how many steps it has."""
    extent.limit_steps(a_step)
    extent.open_window(11, 0.0)
    for step in range(12, 2000):
        now_s = (step - 11) * step_s
        extent.step_ended(now_s)
        if extent.is_enough(step, now_s):
            return step - 11
    raise AssertionError


@pytest.mark.parametrize(
    ("a_step", "steps"),
    [
        # Ten hold no more than the limit.
        (100, 10),
        (1000, 10),
        # 10,000 are 6 of 1,600.
        (1600, 6),
        # Two would hold less, but two show no pattern: three hold less than twice.
        (5000, 3),
        (6600, 3),
        # Three would be more than twice, and one step is the least that there is.
        (7000, 1),
        (50_000, 1),
    ],
)
def test_a_window_ends_before_its_steps_hold_more_than_is_stored_at_once(
    a_step: int, steps: int
) -> None:
    extent = Extent(plan(max_events=10_000))
    assert steps_recorded(extent, a_step=a_step) == steps
    assert (extent.shortened is not None) == (steps < 10)
    if extent.shortened is not None:
        assert f"a step has about {a_step:,} events" in extent.shortened
        assert "--steps 10 records 10 steps" in extent.shortened


def test_who_says_how_many_steps_gets_them() -> None:
    extent = Extent(plan(max_events=0))
    extent.open_window(11, 0.0)
    assert extent.last == 20
    assert extent.shortened is None


def test_short_steps_go_on_until_the_least_time_or_the_most_events() -> None:
    # 0.4 s after the first one, which is not timed; or 10,000 events.
    extent = Extent(plan(max_events=10_000))
    assert steps_recorded(extent, a_step=10, step_s=0.01) == 41
    extent = Extent(plan(max_events=10_000))
    assert steps_recorded(extent, a_step=500, step_s=0.01) == 20
    assert extent.shortened is None
