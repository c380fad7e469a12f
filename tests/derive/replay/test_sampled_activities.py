"""Which windows and activities are replayed, and the usual delays, by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.traces.literal_tables import activity_of, correlation_of

from stepscope.derive.replay.activities import (
    MAX_WINDOWS,
    Activities,
    Pace,
    Sampled,
    collect_activities,
    sample_windows,
)
from stepscope.derive.step_windows.device_spans import DEVICE_SPANS
from stepscope.derive.step_windows.windows import WINDOW_ROWS, Windows
from stepscope.unavailable import Unavailable

US = 1_000_000
WHY = Unavailable(code="NOT_RECORDED", reason="no", remedy="record it")


def windows_of(
    lengths: list[int], flags: dict[int, list[str]], *, anchor: str = "host"
) -> Windows:
    """Consecutive windows from 100 on; the last one is open."""
    bounds = np.cumsum([100, *lengths]).tolist()
    rows = pl.DataFrame(
        {
            "step_row": range(len(lengths)),
            "start_ps": bounds[:-1],
            "end_ps": bounds[1:],
            "open_end": [row == len(lengths) - 1 for row in range(len(lengths))],
            "flags": [flags.get(row, []) for row in range(len(lengths))],
            **{name: [None] * len(lengths) for name in list(WINDOW_ROWS)[5:]},
        },
        schema=WINDOW_ROWS,
    )
    spans = pl.DataFrame(schema=DEVICE_SPANS)
    return Windows(rows, anchor, has_steps=True, device_spans=spans)


def sampled(windows: Windows) -> tuple[list[int], list[int], int]:
    found = sample_windows(windows)
    assert isinstance(found, Sampled)
    assert found.by_device is (windows.anchor == "device")
    assert found.count == len(found.rows)
    assert (found.first_ps, found.last_ps) == (found.bounds_ps[0], found.bounds_ps[-1])
    return found.rows.tolist(), found.bounds_ps.tolist(), found.lead_ps


def test_the_longest_run_of_typical_windows_is_replayed() -> None:
    windows = windows_of([10, 20, 30, 40, 50, 60], {1: ["warm_up"]})
    assert sampled(windows) == ([2, 3, 4], [130, 160, 200, 250], 110)
    rows, bounds, lead_ps = sampled(windows_of([10] * (MAX_WINDOWS + 3), {}))
    assert rows == list(range(2, MAX_WINDOWS + 2))
    assert (bounds[0], lead_ps) == (120, 110)


def test_of_runs_of_equal_length_the_first_is_replayed() -> None:
    windows = windows_of([10] * 6, {2: ["other_kind"]})
    assert sampled(windows) == ([0, 1], [100, 110, 120], 100)


def test_an_empty_window_ends_a_run() -> None:
    windows = windows_of([10, 0, 30, 40, 50], {})
    assert sampled(windows) == ([2, 3], [110, 140, 180], 110)


def test_the_device_s_first_window_is_led_by_the_longest_window() -> None:
    """What the host launched for it, it launched before."""
    windows = windows_of([10, 35, 30, 99], {}, anchor="device")
    assert sampled(windows) == ([0, 1, 2], [100, 110, 145, 175], 65)
    later = windows_of([10, 35, 30, 99], {0: ["unrecorded"]}, anchor="device")
    assert sampled(later) == ([1, 2], [110, 145, 175], 100)


@pytest.mark.parametrize(
    ("flags", "rows"),
    [
        ({0: ["first", "compile", "outlier"]}, [1, 2]),
        ({0: ["first", "compile"]}, [0, 1, 2]),
        ({0: ["first", "outlier"]}, [0, 1, 2]),
        ({row: ["first", "compile", "outlier"] for row in range(3)}, [0, 1, 2]),
    ],
)
def test_a_first_step_that_compiles_and_is_far_longer_is_not_replayed(
    flags: dict[int, list[str]], rows: list[int]
) -> None:
    assert sampled(windows_of([10] * 4, flags))[0] == rows


def test_only_an_open_window_has_an_open_end() -> None:
    for lengths, is_open in (([10, 10], False), ([10], True)):
        found = sample_windows(windows_of(lengths, {}))
        assert isinstance(found, Sampled)
        assert found.open_end is is_open


def test_without_steps_or_a_window_with_length_nothing_is_replayed() -> None:
    whole = windows_of([10], {})
    none = Windows(whole.rows, "profile", has_steps=False, device_spans=whole.rows)
    found = [sample_windows(none), sample_windows(windows_of([0, 0], {}))]
    assert [getattr(each, "code", None) for each in found] == ["NO_STEPS"] * 2


# Activities.

WINDOWS = Sampled(
    rows=np.array([1, 2]),
    bounds_ps=np.array([100, 200, 300]),
    lead_ps=50,
    by_device=False,
    open_end=False,
)
RAN = st.tuples(
    st.integers(0, 2),  # stream
    st.sampled_from(("kernel", "h2d", "memset", "d2h", "p2p_copy", "local_copy")),
    st.integers(40, 310),
    st.integers(0, 30),
    st.integers(-1, 2),  # launch
)
CALL = st.tuples(st.integers(5, 7), st.integers(40, 310), st.integers(0, 20))


@given(
    ran=st.lists(RAN, max_size=10),
    calls=st.lists(CALL, min_size=3, max_size=3),
    correlated=st.booleans(),
)
def test_replayed_activities_equal_a_plain_loop(
    ran: list[Any], calls: list[Any], *, correlated: bool
) -> None:
    """They begin in the windows or the window before, or are launched there."""
    rows = [(track, track % 2, kind, 0, at, dur) for track, kind, at, dur, _ in ran]
    activity = activity_of(rows, correlation=[None, *range(1, len(rows))][: len(rows)])
    launches = [(track, 0, at, dur) for track, at, dur in calls]
    matched = correlation_of(activity, launches, [each[4] for each in ran])
    found = collect_activities(WINDOWS, activity, matched if correlated else WHY)
    expected = []
    for row, (track, kind, start, dur, launch) in enumerate(ran):
        call = calls[launch] if correlated and launch >= 0 else None
        launched = call is not None and call[1] < 300
        if start < 50 or (start >= 300 and not launched):
            continue
        if call is not None and call[1] < 50:
            call = None
        expected.append(
            (
                *(track, start, row, track % 2, row - (row == 0), start + dur),
                -1 if call is None else launch,
                *((-1, start, start) if call is None else (*call[:2], sum(call[1:]))),
                kind in ("h2d", "d2h", "p2p_copy", "local_copy"),
            )
        )
    expected.sort(key=lambda each: (each[0], each[1], each[2]))
    if found is None:
        assert not expected
        return
    columns = (
        *(found.track, found.start_ps, found.row, found.device, found.number),
        *(found.end_ps, found.launch, found.caller, found.called_ps),
        *(found.returned_ps, found.copy),
    )
    listed = list(zip(*(column.tolist() for column in columns), strict=True))
    assert listed == expected
    assert (found.stream == found.track).all()
    # What ran before on each stream, and until when.
    for index, own in enumerate(expected):
        same = index > 0 and expected[index - 1][0] == own[0]
        assert found.previous[index] == (index - 1 if same else -1)
        free = expected[index - 1][5] if same else -(2**61)
        assert found.stream_edge_ps()[index] == free


def test_without_device_activity_there_is_none_to_replay() -> None:
    assert collect_activities(WINDOWS, WHY, WHY) is None
    late = activity_of([(0, 0, "kernel", 0, 300, 5)])
    assert collect_activities(WINDOWS, late, WHY) is None


# The usual delays.


def stream_of(waits_us: list[float], *, returned_us: float = -1000) -> Activities:
    """Activities of 1 µs on one stream, each so long after the former's end."""
    starts = np.cumsum([0, *(wait + 1 for wait in waits_us)]) * US
    start = starts.astype(np.int64)
    nothing = np.zeros(len(start), np.int64)
    small = nothing.astype(np.int32)
    return Activities(
        row=small,
        track=small,
        device=small,
        stream=nothing,
        number=nothing,
        start_ps=start,
        end_ps=start + US,
        launch=small,
        caller=small,
        called_ps=start + round(returned_us * US),
        returned_ps=start + round(returned_us * US),
        copy=nothing.astype(np.bool_),
    )


def facts(latency_us: float) -> Any:
    return SimpleNamespace(latency_ps=round(latency_us * US))


def test_without_launches_and_activities_the_usual_delays_are_assumed() -> None:
    found = Pace.measure_pace(WHY, None)
    assert found.stream_gap_ps == 3 * US
    assert found.late_ps == max(10 * US, found.latency_ps)


@pytest.mark.parametrize(("latency", "late"), [(4.0, 10), (10.0, 10), (12.0, 12)])
def test_edges_explain_a_start_for_ten_microseconds_or_a_latency(
    latency: float, late: int
) -> None:
    found = Pace.measure_pace(facts(latency), None)
    assert (found.latency_ps, found.late_ps) == (round(latency * US), late * US)


def test_the_usual_gap_of_a_stream_is_measured_where_work_was_queued() -> None:
    cases: list[Any] = [
        ([4.0] * 9, 4),
        ([2.0] * 9, 3),  # at least 3 µs
        ([*[4.0] * 9, *[5.0] * 2], 5),  # the 90th percentile of eleven
        ([*[4.0] * 10, 5.0], 4),
        ([4.0, 11.0, 11.0], 4),  # waits of more than 10 µs are no usual gaps
        ([10.0], 10),
        ([0.0, 0.0, 0.0, 4.0], 4),
        ([0.0], 3),
    ]
    for waits, gap_us in cases:
        found = Pace.measure_pace(facts(2.0), stream_of(waits))
        assert found.stream_gap_ps == gap_us * US


@pytest.mark.parametrize(("returned", "gap_us"), [(-9.0, 5), (-8.9, 3)])
def test_work_is_queued_if_its_call_returned_two_latencies_before_the_stream_is_free(
    returned: float, gap_us: int
) -> None:
    """The stream is free 5 µs before each start; a latency is 2 µs."""
    found = Pace.measure_pace(facts(2.0), stream_of([5.0] * 4, returned_us=returned))
    assert found.stream_gap_ps == gap_us * US
