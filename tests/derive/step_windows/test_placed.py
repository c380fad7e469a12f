"""Where the windows begin, against plain loops and numbers worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.traces.literal_tables import (
    activity_of,
    correlation_of,
    steps_of,
    stored_of,
)

from stepscope.derive.sequences import SymbolSequence
from stepscope.derive.step_windows.device_spans import device_spans, first_compute
from stepscope.derive.step_windows.windows import (
    StepKernels,
    are_typical,
    only_dispatched,
    step_instructions,
    step_kernels,
    typical_rows,
    window_anchor,
    windows_of_times,
    work_starts,
)
from stepscope.unavailable import Unavailable

WHY = Unavailable(code="NOT_RECORDED", reason="no", remedy="record it")


def run_of(
    launches: list[int], first: list[int], last: list[int], *, called: int = 0
) -> StepKernels:
    columns = (first, last, launches, [called] * len(first))
    return StepKernels("device", *map(np.array, columns))


# The kernels of each step.

KERNEL = st.tuples(
    st.sampled_from((0, 1)),  # device
    st.sampled_from((0, 1)),  # stream of the device
    st.sampled_from(("kernel", "collective", "h2d")),
    st.integers(0, 50),  # start
    st.integers(0, 5),  # duration
    st.integers(-1, 3),  # step
    st.integers(-1, 3),  # launch
)


@given(rows=st.lists(KERNEL, max_size=12), correlated=st.booleans())
def test_the_kernels_of_a_step_are_those_of_the_busiest_stream(
    rows: list[Any], *, correlated: bool
) -> None:
    rows = sorted(rows, key=lambda row: (row[0], row[1], row[3]))
    activity = activity_of(
        [(2 * row[0] + row[1], row[0], row[2], 0, row[3], row[4]) for row in rows]
    )
    calls = [(0, 0, 0, 1)] * 4
    matched = correlation_of(activity, calls, [row[6] for row in rows])
    found = step_kernels(
        4,
        np.array([row[5] for row in rows], np.int32),
        activity,
        matched if correlated else None,
    )
    kept = [row for row in rows if row[2] == "kernel" and row[5] >= 0]
    for key in (lambda row: row[0], lambda row: row[1]):
        busy = {key(row): 0 for row in kept}
        for row in kept:
            busy[key(row)] += row[4] + 1
        best = max(sorted(busy), key=lambda each: busy[each], default=None)
        kept = [row for row in kept if key(row) == best]
    for step in range(4):
        own = [row for row in kept if row[5] == step]
        assert found.first_ps[step] == min((row[3] for row in own), default=0)
        assert found.last_ps[step] == max((row[3] + row[4] for row in own), default=0)
        called = {row[6] for row in own if row[6] >= 0}
        alone = [row for row in own if row[6] < 0]
        expected = len(called) + len(alone) if correlated else len(own)
        assert found.launches[step] == expected
        assert found.any[step] == bool(own)
    assert found.side == "device"


def test_more_shared_calls_than_the_first_buffer_holds_are_counted_too() -> None:
    """Each of 1500 calls starts a kernel of both steps."""
    rows = [(0, 0, "kernel", 0, k, 1) for k in range(3000)]
    activity = activity_of(rows)
    matched = correlation_of(activity, [(0, 0, 0, 1)] * 1500, [*range(1500)] * 2)
    step = np.repeat(np.array([0, 1], np.int32), 1500)
    assert step_kernels(2, step, activity, matched).launches.tolist() == [1500, 1500]


@pytest.mark.parametrize("lacks", ["steps of the activity", "the activity"])
def test_without_activity_no_step_has_a_kernel(lacks: str) -> None:
    activity = activity_of([(0, 0, "kernel", 0, 5, 1)])
    step = np.zeros(1, np.int32)
    found = step_kernels(
        2,
        None if lacks == "steps of the activity" else step,
        None if lacks == "the activity" else activity,
        None,
    )
    assert found.side == "device"
    assert [*found.first_ps, *found.last_ps, *found.launches] == [0] * 6


# The side that gives the windows their begin.


@pytest.mark.parametrize(
    ("last", "anchor"),
    [
        # Steps of 100: late are those whose kernels end more than 5 after them.
        ([106, 206, 306, 306], "device"),
        ([105, 205, 305, 305], "host"),
        ([106, 206, 206, 306], "device"),  # two of three
        ([106, 106, 206, 306], "host"),  # one of three
        ([50, 150, 250, 999], "host"),  # the last has no next step
    ],
)
def test_the_device_places_the_windows_where_most_steps_end_late(
    last: list[int], anchor: str
) -> None:
    run = run_of([1] * 4, [10, 110, 210, 310], last)
    assert window_anchor(steps_of([0, 100, 200, 300]), run) == anchor


def test_half_of_the_steps_are_not_most() -> None:
    run = run_of([1] * 5, [0] * 5, [150, 250, 250, 350, 450])
    assert window_anchor(steps_of([0, 100, 200, 300, 400]), run) == "host"


def test_the_host_places_the_windows_where_a_fifth_of_the_steps_has_no_kernel() -> None:
    steps = steps_of([0, 100, 200, 300, 400])
    last = [190, 290, 390, 490, 590]
    assert window_anchor(steps, run_of([1, 1, 1, 1, 0], [0] * 5, last)) == "device"
    assert window_anchor(steps, run_of([1, 1, 1, 0, 0], [0] * 5, last)) == "host"


def test_a_late_step_without_a_kernel_is_not_late() -> None:
    """Of the four steps with a successor, two are late and one only seems to be."""
    steps = steps_of([0, 100, 200, 300, 400])
    run = run_of([1, 1, 0, 1, 1], [0] * 5, [190, 290, 390, 350, 450])
    assert window_anchor(steps, run) == "host"


def test_one_launch_in_the_late_steps_is_too_little() -> None:
    steps = steps_of([0, 100])
    assert window_anchor(steps, run_of([1, 9], [0, 0], [190, 290])) == "host"
    assert window_anchor(steps, run_of([2, 9], [0, 0], [190, 290])) == "device"


def test_a_single_step_keeps_the_host_and_device_boundaries_the_device() -> None:
    run = run_of([5], [0], [500])
    assert window_anchor(steps_of([0]), run) == "host"
    assert window_anchor(steps_of([0], on_device=True), run) == "device"


def test_a_window_without_a_kernel_is_empty() -> None:
    run = run_of([0, 1, 0, 1, 0], [0, 40, 0, 30, 0], [0, 50, 0, 70, 0])
    # The fourth step's first kernel begins earlier than that of the second.
    host = np.arange(5)
    assert work_starts(run, host).tolist() == [30, 40, 40, 40, 70]


# Instructions of compiled programs in place of kernels.


def sequence_of(
    entries: list[tuple[int, int, int]], *, weights: list[int] | None = None
) -> SymbolSequence:
    """(symbol, start, end) in order of start, none of them overlapping."""
    symbol, start, end = (np.array(each) for each in zip(*entries, strict=True))
    pause = np.append(0, np.maximum(start[1:] - end[:-1], 0))
    return SymbolSequence(
        what="instructions",
        symbol=symbol.astype(np.int32),
        label=np.arange(symbol.max() + 1, dtype=np.int32),
        at_ps=start,
        weight=end - start if weights is None else np.array(weights),
        work=np.ones(len(symbol), np.int64),
        gap_ps=pause,
        end_ps=int(end.max()),
        on_device=False,
    )


#: Three executions: instruction 0, then 1 twice; the second execution is late.
EXECUTED = [
    *((0, 10, 15), (1, 15, 20), (1, 22, 30)),
    *((0, 130, 135), (1, 135, 140), (1, 142, 150)),
    *((0, 210, 215), (1, 215, 220), (1, 222, 230)),
]


def test_instructions_show_when_each_step_ran() -> None:
    found = step_instructions(steps_of([0, 100, 200]), sequence_of(EXECUTED))
    assert found is not None
    assert found.side == "executor"
    assert found.first_ps.tolist() == [10, 130, 210]
    assert found.last_ps.tolist() == [30, 150, 230]
    assert found.launches.tolist() == [3, 3, 3]


def test_of_instructions_that_run_once_a_step_the_earliest_begins_it() -> None:
    entries = [
        line
        for at in (0, 100, 200)
        for line in ((1, at + 5, at + 10), (0, at + 20, at + 30))
    ]
    found = step_instructions(steps_of([0, 100, 200]), sequence_of(entries))
    assert found is not None
    assert found.first_ps.tolist() == [5, 105, 205]
    assert found.last_ps.tolist() == [30, 130, 230]
    assert found.launches.tolist() == [2, 2, 2]


def test_the_last_step_may_lack_its_instructions() -> None:
    found = step_instructions(steps_of([0, 100, 200, 300]), sequence_of(EXECUTED))
    assert found is not None
    assert found.first_ps.tolist() == [10, 130, 210, 0]
    assert found.last_ps.tolist() == [30, 150, 230, 0]
    assert found.launches.tolist() == [3, 3, 3, 0]


@pytest.mark.parametrize("starts", [[0, 100], [0, 131, 200], [11, 100, 200]])
def test_two_steps_or_instructions_before_their_step_show_nothing(
    starts: list[int],
) -> None:
    assert step_instructions(steps_of(starts), sequence_of(EXECUTED)) is None


@pytest.mark.parametrize(("weight", "known"), [(10, True), (11, False)])
def test_a_tenth_of_the_work_may_repeat_unevenly(weight: int, *, known: bool) -> None:
    """Beside 90 of nine entries, one that runs once in three steps."""
    entries = [*EXECUTED, (2, 240, 250)]
    sequence = sequence_of(entries, weights=[10] * 9 + [weight])
    found = step_instructions(steps_of([0, 100, 200]), sequence)
    assert (found is not None) is known


def test_what_runs_a_time_more_than_the_steps_is_even_as_well() -> None:
    entries = [*EXECUTED, *((2, 240 + 2 * k, 241 + 2 * k) for k in range(4))]
    found = step_instructions(steps_of([0, 100, 200]), sequence_of(entries))
    assert found is not None
    assert found.launches.tolist() == [3, 3, 7]


@pytest.mark.parametrize(
    ("ends", "expected"),
    [([90, 130], True), ([90, 142], False), ([142, 90], False), ([None, 10], False)],
)
def test_markers_only_dispatch_where_most_work_follows_them(
    ends: list[int | None], *, expected: bool
) -> None:
    """Of 54, 36 begin by 130 and 26 by 142: 27 is half."""
    steps = steps_of([0, 100], end_ps=ends)
    assert only_dispatched(steps, sequence_of(EXECUTED)) is expected
    assert not only_dispatched(steps, None)
    assert not only_dispatched(steps_of([0], end_ps=[9]), sequence_of(EXECUTED))


def test_exactly_half_of_the_work_after_the_markers_is_not_most() -> None:
    sequence = sequence_of([(0, 0, 5), (0, 10, 15)])
    assert not only_dispatched(steps_of([0, 5], end_ps=[4, 10]), sequence)
    assert only_dispatched(steps_of([0, 5], end_ps=[0, 0]), sequence)


# Devices.

PART = st.tuples(
    st.integers(0, 2), st.integers(0, 2), st.integers(0, 40), st.integers(0, 9)
)
RAN = st.lists(st.tuples(PART, st.sampled_from(("kernel", "collective"))), max_size=9)


@given(ran=RAN, lines=st.lists(PART, max_size=6), stepless=st.booleans())
def test_the_spans_of_devices_equal_a_plain_loop(
    ran: list[Any], lines: list[Any], *, stepless: bool
) -> None:
    """Each part is (step, device, start, duration); step 2 is not one of the steps."""
    activity = activity_of(
        [(each[1], each[1], kind, 0, *each[2:]) for each, kind in ran]
    )
    step = np.array([each[0] if each[0] < 2 else -1 for each, _ in ran], np.int32)
    stored = stored_of(
        [
            {"device": device, "group": of, "start_ps": start, "end_ps": start + dur}
            for of, device, start, dur in lines
        ]
    )
    steps = steps_of([0, 100], group=[0, 1], stored=stored)
    found = device_spans(steps, None if stepless else step, activity)
    expected = {}
    for row in (0, 1):
        for device in (0, 1, 2):
            own = [p[2:] for p, _ in ran if p[:2] == (row, device) and not stepless]
            told = [p[2:] for p in lines if p[:2] == (row, device)]
            if not own and not told:
                continue
            first = min((start for start, _ in own), default=None)
            last = max((start + dur for start, dur in own), default=None)
            length = max((dur for _, dur in told), default=None)
            if length is None and first is not None and last is not None:
                length = last - first
            expected[row, device] = (first, last, length)
            if told:
                part = found.filter(step_row=row, device=device).row(0, named=True)
                start, end = part["stored_start_ps"], part["stored_end_ps"]
                assert (start, end - start) in told
    rows = found.select(
        *("step_row", "device", "first_begin_ps", "last_end_ps", "device_step_time_ps")
    ).rows()
    assert {(row[0], row[1]): row[2:] for row in rows} == expected
    if len(lines):
        assert [row[:2] for row in rows] == sorted(expected)


@pytest.mark.parametrize("key", ["group", "number", None])
def test_stored_spans_find_their_step_by_group_else_number_else_time(
    key: str | None,
) -> None:
    """The second span is the first step's by every key but time."""
    span = {"device": 0, "start_ps": 150, "end_ps": 160}
    rows = [
        {**span, key or "name": 5 if key else "s"},
        {**span, key or "name": 9 if key else "s", "start_ps": 90, "end_ps": 95},
    ]
    columns = {"group": {"group": [5, 6]}, "number": {"step": [5, 6]}}.get(key or "")
    steps = steps_of([100, 140], stored=stored_of(rows), **(columns or {}))
    found = device_spans(steps, None, None)
    assert found.rows() == [
        (0 if key else 1, 0, None, None, 150, 160, 10),
    ]


@given(ran=RAN, stepless=st.booleans())
def test_the_first_kernel_of_a_step_equals_a_plain_loop(
    ran: list[Any], *, stepless: bool
) -> None:
    activity = activity_of(
        [(each[1], each[1], kind, 0, *each[2:]) for each, kind in ran]
    )
    step = np.array([each[0] - 1 for each, _ in ran], np.int32)
    expected: dict[tuple[int | None, int], int] = {}
    for (of, device, start, _), kind in ran:
        if kind == "kernel" and (of or stepless):
            key = (None if stepless else of - 1, device)
            expected[key] = min(expected.get(key, start), start)
    found = first_compute(
        device_activity=activity, activity_steps=WHY if stepless else step
    )
    assert found.columns == ["step_row", "device", "first_compute_ps"]
    assert found.rows() == [(*key, expected[key]) for key in sorted(expected)]


# Which windows count, and which contain a time.


def rows_of(flags: list[list[str]], ends: list[bool]) -> pl.DataFrame:
    return pl.DataFrame(
        {"flags": flags, "open_end": ends},
        schema_overrides={"flags": pl.List(pl.String)},
    )


@pytest.mark.parametrize(
    ("flags", "ends", "typical"),
    [
        ([[], ["other_kind"], ["first", "outlier"], []], [0, 0, 0, 1], [1, 0, 1, 0]),
        ([["unrecorded"], ["first", "warm_up"], []], [0, 0, 1], [0, 1, 0]),
        ([["unrecorded"], []], [0, 1], [1, 0]),
        ([["warm_up"], []], [1, 1], [1, 1]),
    ],
)
def test_typical_windows_are_the_closed_ones_without_a_flag_else_the_closed_else_all(
    flags: list[list[str]], ends: list[int], typical: list[int]
) -> None:
    rows = rows_of(flags, list(map(bool, ends)))
    assert are_typical(rows).tolist() == list(map(bool, typical))
    assert typical_rows(rows).equals(rows.filter(pl.Series(list(map(bool, typical)))))


def test_a_time_is_in_the_window_that_begins_last_before_it() -> None:
    rows = pl.DataFrame({"start_ps": [10, 20, 40], "end_ps": [20, 30, 50]})
    times = np.array([9, 10, 19, 20, 29, 30, 39, 40, 49, 50, 99])
    found = windows_of_times(rows, times)
    assert found.tolist() == [-1, 0, 0, 1, 1, -1, -1, 2, 2, -1, -1]
