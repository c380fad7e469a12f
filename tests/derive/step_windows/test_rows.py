"""Every column of the windows, against a plain loop over steps and activity."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.support.traces.literal_tables import (
    activity_of,
    kinds_of,
    steps_of,
    stored_of,
    tables_of,
    types_of,
)

from stepscope.derive.intervals.spans import Spans
from stepscope.derive.step_windows.device_spans import DEVICE_SPANS, device_spans
from stepscope.derive.step_windows.windows import (
    WINDOW_ROWS,
    Windows,
    step_kernels,
    window_anchor,
    windows,
    work_starts,
)
from stepscope.unavailable import Unavailable

WHY = Unavailable(code="NO_STEPS", reason="no", remedy="record it")


def windows_of(steps: Any, **given_values: Any) -> Windows | Unavailable:
    tracks, events = tables_of([(0, 0, 0, 1)], ["main"])
    environment = {"begin_ps": [3], "end_ps": [90], "complete_until_ps": [None]}
    values: dict[str, Any] = {
        "environment": pl.DataFrame(environment),
        "activity_steps": WHY,
        "device_activity": WHY,
        "recording_end": None,
        "profiler_work": Spans.empty(),
    }
    return windows(
        trace=None,
        tracks=tracks,
        events=events,
        event_types=types_of(["x"]),
        event_kinds=kinds_of(1),
        host_values=WHY,
        steps=steps,
        correlation=WHY,
        **values | given_values,
    )


RAN = st.tuples(
    st.integers(0, 1),  # device
    st.integers(-1, 3),  # step
    st.integers(0, 80),
    st.integers(0, 40),
)


def is_full_and_close(
    begins: list[int], closes: list[int], gaps: list[int | None], held: list[int]
) -> bool:
    """Whether the last of four steps is as full as the others, which hardly pause."""
    pauses = sorted(
        (end - gap) / max(1, end - begin)
        for begin, end, gap in zip(begins[:3], closes, gaps, strict=False)
        if gap is not None
    )
    is_close = len(pauses) == 3 and pauses[1] < 0.1
    return is_close and held[3] >= 0.9 * min(held[:3])


@given(
    rows=st.lists(RAN, max_size=8),
    ends=st.lists(st.sampled_from((None, 5, 15, 30)), min_size=4, max_size=4),
    source=st.sampled_from(("marker", "device_line", "period")),
    last_end=st.sampled_from((None, 70, 130)),
    stored=st.booleans(),
)
# All but the last step of a repetition have work.
@example(
    rows=[(0, 0, 0, 0), (0, 2, 0, 0)],
    ends=[None, 5, None, None],
    source="period",
    last_end=None,
    stored=False,
)
def test_windows_follow_each_other_from_start_to_start(
    *,
    rows: list[Any],
    ends: list[int | None],
    source: str,
    last_end: int | None,
    stored: bool,
) -> None:
    """Four steps from 10 on, every 20; their markers last for `ends`."""
    starts = [10, 30, 50, 70]
    rows.sort(key=lambda row: (row[0], row[2]))
    activity = activity_of(
        [(row[0], row[0], "kernel", 0, row[2], row[3]) for row in rows]
    )
    of_step = np.array([row[1] for row in rows], np.int32)
    until = [
        None if end is None else start + end
        for start, end in zip(starts, ends, strict=True)
    ]
    on_device = source == "device_line"
    span = {"device": 7, "group": 2, "start_ps": 40, "end_ps": 73}
    steps = steps_of(
        starts,
        source=source,
        on_device=on_device,
        end_ps=until,
        last_end_ps=last_end,
        group=[0, 1, 2, 3],
        stored=stored_of([span] if stored else []),
    )
    found = windows_of(steps, activity_steps=of_step, device_activity=activity)
    assert isinstance(found, Windows)
    spans = device_spans(steps, of_step, activity)
    assert found.device_spans.equals(spans)
    kernels = step_kernels(4, of_step, activity, None)
    anchor = window_anchor(steps, kernels)
    assert (found.anchor, found.has_steps) == (anchor, True)
    begins = starts
    if anchor == "device" and not on_device:
        begins = work_starts(kernels, np.array(starts)).tolist()
    worked: list[int | None] = []
    for step, end in enumerate(until):
        last = [row[2] + row[3] for row in rows if row[1] == step]
        if on_device and step == 3:
            last = []
        times = [*last, *([] if end is None else [end])]
        worked.append(max(times, default=None))
    final = max(begins[3], worked[3] or 0)
    if last_end is not None and not on_device:
        final = max(final, last_end)
    if anchor == "device" and not on_device and (3 in {row[1] for row in rows}):
        final = max(begins[3], *(row[2] + row[3] for row in rows if row[1] == 3))
    closes = [*begins[1:], final]
    gaps = [
        None if done is None else min(max(done, begin), end)
        for done, begin, end in zip(worked, begins, closes, strict=True)
    ]
    longest = [
        max(spans.filter(step_row=step)["device_step_time_ps"].to_list(), default=None)
        for step in range(4)
    ]
    held = [sum(row[1] == step for row in rows) for step in range(4)]
    closed = (source == "period" or None not in ends) and is_full_and_close(
        begins, closes, gaps, held
    )
    columns = found.rows.drop("flags").to_dict(as_series=False)
    assert columns == {
        "step_row": [0, 1, 2, 3],
        "start_ps": begins,
        "end_ps": closes,
        "open_end": [False, False, False, not closed],
        "gap_start_ps": gaps,
        "gap_end_ps": [
            None if gap is None else end for gap, end in zip(gaps, closes, strict=True)
        ],
        "device_step_time_ps": longest,
        "host_period_ps": [None] * 4 if on_device else [20, 20, 20, None],
    }
    assert dict(found.rows.schema) == WINDOW_ROWS


def test_without_steps_the_recording_is_one_window() -> None:
    found = windows_of(WHY)
    assert isinstance(found, Windows)
    assert (found.anchor, found.has_steps) == ("profile", False)
    given_columns = {"start_ps": 3, "end_ps": 90, "open_end": False, "flags": []}
    empty = dict.fromkeys(WINDOW_ROWS)
    assert found.rows.rows(named=True) == [empty | given_columns]
    assert dict(found.rows.schema) == WINDOW_ROWS
    assert dict(found.device_spans.schema) == DEVICE_SPANS
    assert found.judged.time_range == (3, 90)


@pytest.mark.parametrize("lacking", ["begin_ps", "end_ps"])
def test_a_recording_without_times_has_no_window(lacking: str) -> None:
    environment = {"begin_ps": [3], "end_ps": [90], "complete_until_ps": [None]}
    frame = pl.DataFrame(environment | {lacking: [None]})
    found = windows_of(WHY, environment=frame)
    assert isinstance(found, Unavailable)
    assert found != WHY
