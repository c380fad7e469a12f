"""When no step runs, worked out by hand on tables of a few rows."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
from tests.support.traces.literal_tables import (
    activity_of,
    correlation_of,
    kinds_of,
    steps_of,
    tables_of,
)

from stepscope.derive.account.places import between_steps, marker_names
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.names.event_kinds import EventFlag
from stepscope.unavailable import Unavailable

WHY = Unavailable(code="NOT_RECORDED", reason="no", remedy="record it")
Line = tuple[int, int, int, int]

CALL, OTHER = 0, 1
CALLS = kinds_of(2, flags={CALL: EventFlag.PJIT})
STEP_STARTS = [0, 100, 200]


def gaps(
    lines: list[Line],
    *,
    steps: Any = None,
    calls: list[Line] = (),
    launch_of: list[int] = (),
    of_step: list[int] = (),
    host: Any = None,
    **change: Any,
) -> Spans:
    """The time between steps in the windows [0, 300)."""
    _, events = tables_of([*lines, (0, OTHER, 0, 0)], ["main", "second"])
    activity = activity_of([(9, 0, "kernel", 0, 0, 1)] * len(launch_of))
    no_device = host is not None
    classes = SimpleNamespace(
        threads=SimpleNamespace(driving_tracks=lambda: [0]),
        no_device=no_device,
        host_compute=host,
    )
    values: dict[str, Any] = {
        "windows": SimpleNamespace(
            rows=pl.DataFrame({"start_ps": [0, 100], "end_ps": [100, 300]})
        ),
        "steps": steps_of(STEP_STARTS, source="period") if steps is None else steps,
        "events": events,
        "event_kinds": CALLS,
        "host_classes": classes,
        "correlation": correlation_of(activity, calls, launch_of),
        "activity_steps": np.array(of_step, np.int32),
        "requests": WHY,
    }
    return between_steps(**values | change)


LAUNCHES = [(0, 5, 10 + 20 * at, 5) for at in range(14)]
EACH = list(range(14))
STEP_OF = [at // 5 for at in range(14)]


def test_marked_steps_run_while_their_mark_lasts() -> None:
    ends = [60, 190, 250]
    marked = steps_of(STEP_STARTS, end_ps=ends)
    assert gaps([], steps=marked) == Spans.of([(60, 100), (190, 200), (250, 300)])
    # Marks without an end, or ends that are no marks, say nothing.
    open_ended = steps_of(STEP_STARTS, end_ps=[60, 190, None])
    stored = steps_of(STEP_STARTS, end_ps=ends, source="device_line")
    for steps in (open_ended, stored):
        assert gaps([], steps=steps) == Spans.of([(0, 300)])
    assert gaps([], steps=WHY) == Spans.empty()


def test_steps_run_during_the_one_call_that_holds_their_launches() -> None:
    """Calls of 80 in each step hold 12 of 14 launches: those at 90 and 190 are not."""
    lines = [(0, CALL, 100 * at + 5, 80) for at in range(3)]
    given_calls = {"calls": LAUNCHES, "launch_of": EACH, "of_step": STEP_OF}
    expected = Spans.of([(0, 5), (85, 105), (185, 205), (285, 300)])
    assert gaps(lines, **given_calls) == expected
    # From their first launch to the end of the last, if the calls hold less than 0.8.
    by_launches = Spans.of([(0, 10), (95, 110), (195, 210), (275, 300)])
    shorter = [(0, CALL, 100 * at + 5, 60) for at in range(3)]
    assert gaps(shorter, **given_calls) == by_launches
    # Or if there are more calls than steps, or another thread makes them.
    assert gaps([*lines, (0, CALL, 290, 5)], **given_calls) == by_launches
    other = [(1, *line[1:]) for line in lines]
    assert gaps(other, **given_calls) == by_launches
    for name in ("correlation", "activity_steps"):
        assert gaps(lines, **given_calls, **{name: WHY}) == Spans.empty()


def test_a_step_without_launches_does_not_run() -> None:
    found = gaps([], calls=LAUNCHES[:2], launch_of=[0, 1, -1], of_step=[1, 1, 2])
    assert found == Spans.of([(0, 10), (35, 300)])
    # Neither does one of work without a launch; launches of no step run none.
    found = gaps([], calls=LAUNCHES[:2], launch_of=[0, -1, 1], of_step=[1, 0, -1])
    assert found == Spans.of([(0, 10), (15, 300)])


def test_without_a_device_steps_run_during_what_holds_the_work() -> None:
    cases: list[Any] = [
        ([(0, 80), (120, 140)], None, [(80, 120), (140, 300)]),
        ([(0, 100), (120, 145)], None, [(80, 120), (140, 300)]),  # 100 of 125 in calls
        ([(0, 101), (120, 145)], None, []),
        ([(10, 11)], None, [(80, 120), (140, 300)]),  # however little
        ([], None, []),
        ([(310, 400)], None, []),  # outside of the windows
        ([(0, 80), (120, 140)], [(0, 150)], [(150, 300)]),  # requests come first
        ([(0, 80), (120, 140)], [(0, 60)], [(80, 120), (140, 300)]),
    ]
    for work, served, expected in cases:
        requests: Any = WHY
        if served is not None:
            rows = [(start, end - start) for start, end in served]
            table = pl.DataFrame(rows, schema=["start_ps", "dur_ps"], orient="row")
            requests = SimpleNamespace(rows=table)
        lines = [(0, CALL, 0, 80), (0, CALL, 120, 20)]
        found = gaps(lines, host=Spans.of(work), requests=requests)
        assert found == Spans.of(expected)
        assert gaps(lines, host=WHY, requests=requests) == Spans.empty()


def test_names_of_markers_are_those_of_steps_and_their_marks() -> None:
    steps = steps_of([0, 10], marker=["train", None], name=["train 0", "train 1"])
    assert marker_names(steps) == {"train", "train 0", "train 1"}
    assert marker_names(WHY) == set()
