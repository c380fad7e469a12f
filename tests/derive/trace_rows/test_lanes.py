"""`trace_lanes`: the lane of each span of the timeline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.support.traces import blueprint

from stepscope.derive.trace_rows.drawn_rows import trace_timeline
from stepscope.derive.trace_rows.lanes import (
    MAX_DRAWN_PS,
    CoarseSlices,
    LaneIndex,
    LaneSlices,
    index_lanes,
    trace_lanes,
)

if TYPE_CHECKING:
    from stepscope.trace.model import TraceData

US = 1_000_000


def index(*lanes: list[tuple[int, int]]) -> LaneIndex:
    """Lanes of (start, duration)."""
    rows = sorted(
        (start, dur, lane) for lane, spans in enumerate(lanes) for start, dur in spans
    )
    table = np.array(rows, np.int64).reshape(-1, 3)
    return index_lanes(
        table[:, 0], table[:, 1], table[:, 2].astype(np.int32), lanes=len(lanes)
    )


def listed(slices: LaneSlices) -> list[tuple[int, ...]]:
    """(lane, spans, item, start, end, busy) of each slice."""
    columns = (
        *(slices.lane, slices.spans, slices.item),
        *(slices.start_ps, slices.end_ps, slices.busy_ps),
    )
    return list(zip(*(column.tolist() for column in columns), strict=True))


def test_short_spans_of_a_bucket_are_one_slice_and_long_ones_stay() -> None:
    found = index([(0, 90)], [(0, 3), (5, 4), (12, 30)])
    # By start, the spans are 0: (0, 3), 1: (0, 90), 2: (5, 4), 3: (12, 30).
    assert listed(found.slices(range(2), begin_ps=0, end_ps=100, bucket_ps=10)) == [
        (0, 1, 1, 0, 90, 90),
        (1, 2, 2, 0, 9, 7),
        (1, 1, 3, 12, 42, 30),
    ]


def test_only_the_lanes_that_are_asked_for_are_looked_at() -> None:
    found = index([(0, 90)], [(0, 3), (5, 4)])
    assert listed(found.slices(range(1, 2), begin_ps=0, end_ps=9, bucket_ps=0)) == [
        (0, 1, 0, 0, 3, 3),
        (0, 1, 2, 5, 9, 4),
    ]


def test_no_lanes_and_an_empty_window_show_nothing() -> None:
    found = index([(0, 3)])
    assert listed(found.slices(range(0), begin_ps=0, end_ps=9, bucket_ps=1)) == []
    assert listed(found.slices(range(1), begin_ps=9, end_ps=9, bucket_ps=1)) == []
    assert listed(found.slices(range(1), begin_ps=9, end_ps=2, bucket_ps=0)) == []


def test_extent_runs_from_the_first_start_to_the_last_end() -> None:
    assert index([(-5, 3)], [], [(0, 3), (5, 40)]).extent() == (-5, 45)
    assert index([], []).extent() is None


def test_what_was_indexed_is_not_copied() -> None:
    start, dur = np.array([0, 5]), np.array([3, 4])
    found = index_lanes(start, dur, np.zeros(2, np.int32), lanes=1)
    assert np.shares_memory(found.start_ps, start)
    assert np.shares_memory(found.dur_ps, dur)


def test_spans_of_one_lane_that_overlap_are_refused() -> None:
    with pytest.raises(ValueError, match="overlap"):
        index([(0, 5), (4, 3)])


def test_a_lane_beyond_their_number_is_refused() -> None:
    one = np.zeros(1, np.int64)
    with pytest.raises(ValueError, match="is not one of"):
        index_lanes(one, one, np.ones(1, np.int32), lanes=1)


def test_every_event_and_every_derived_span_stands_on_its_track_once() -> None:
    profile = blueprint.profile(blueprint.a1())
    lanes = profile.derived("vm", trace_lanes)
    timeline = profile.derived("vm", trace_timeline)
    ranges = timeline.tracks.select("begin", "end", "rows").iter_rows()
    for index, (begin, end, rows) in zip(lanes, ranges, strict=True):
        assert len(index.edges) == rows + 1
        items = index.rows + index.first_item
        assert sorted(items.tolist()) == list(range(begin, end))
    derived = timeline.tracks["source"].is_null().to_numpy()
    spans = np.array([len(index.rows) for index in lanes])
    assert spans[~derived].sum() == profile.table("vm", "events").height
    assert spans[derived].sum() == timeline.slice_count


def test_many_spans_are_drawn_from_coarse_slices_as_from_spans() -> None:
    """Windows of whole and of other buckets, with spans that run into them."""
    random = np.random.default_rng(5)
    lane = random.integers(-1, 3, 4_000).astype(np.int32)
    dur = random.integers(0, 300, 4_000)
    dur[::97] = 4_000
    start = np.empty(4_000, np.int64)
    for each in range(-1, 3):
        mine = lane == each
        gaps = random.integers(0, 50, mine.sum())
        start[mine] = np.cumsum(gaps + dur[mine]) - dur[mine] - 9_000
    order = np.argsort(start, kind="stable")
    spans = start[order], dur[order], lane[order]
    few = index_lanes(*spans, lanes=3, first_item=7)
    many = index_lanes(*spans, lanes=3, first_item=7, many_spans=1)
    assert few.coarse is None
    assert many.coarse is not None
    level = many.coarse.level
    assert many.coarse.filled.sum() < 4_000 / 8
    for bucket in (1 << level, 3 << level, 1 << (level + 4), (1 << level) - 1, 5, 0):
        for begin in (-4 << level, 2 << level, 20 << level, 77):
            for width in (64 << level, 5_001):
                window = {"begin_ps": begin, "end_ps": begin + width}
                wanted = few.slices(range(1, 3), bucket_ps=bucket, **window)
                found = many.slices(range(1, 3), bucket_ps=bucket, **window)
                assert listed(found) == listed(wanted)
                assert np.array_equal(found.first, wanted.first)
    assert len(wanted.lane) > 10


def test_a_few_spans_have_one_coarse_slice_for_each_bucket() -> None:
    start, dur, lane = np.array([0, 5, 9]), np.array([2, 3, 1]), np.zeros(3, np.int32)
    found = index_lanes(start, dur, lane, lanes=1, many_spans=1)
    assert found.coarse is not None
    # All starts are within 9 of each other, so buckets last 16.
    assert found.coarse.level == 4
    window = {"begin_ps": 0, "end_ps": 32, "bucket_ps": 16}
    assert listed(found.slices(range(1), **window)) == [(0, 3, 1, 0, 10, 6)]
    assert index_lanes(start, dur, lane, lanes=1, many_spans=3).coarse is not None
    assert index_lanes(start, dur, lane, lanes=1, many_spans=4).coarse is None


def test_spans_beyond_all_times_have_no_coarse_slices() -> None:
    start, dur, lane = np.array([-(2**62), 0]), np.array([1, 1]), np.zeros(2, np.int32)
    assert index_lanes(start, dur, lane, lanes=1, many_spans=1).coarse is None
    none = np.array([], np.int64)
    empty = index_lanes(none, none, none.astype(np.int32), lanes=2, many_spans=0)
    assert empty.coarse is None


def test_coarse_slices_fit_windows_of_whole_buckets() -> None:
    cases: list[tuple[int, int, int, bool]] = [
        (8, 24, 8, True),
        (-8, 24, 16, True),
        (8, 8, 8, True),
        (24, 8, 8, False),
        (9, 24, 8, False),
        (8, 20, 8, False),
        (8, 24, 4, False),
        (8, 24, 0, False),
        (8, 24, -8, False),
        (-MAX_DRAWN_PS, 24, 8, False),
        (8 - MAX_DRAWN_PS, MAX_DRAWN_PS - 8, MAX_DRAWN_PS - 8, True),
        (8, MAX_DRAWN_PS, 8, False),
        (8, 24, MAX_DRAWN_PS, False),
    ]
    for begin, end, bucket, fits in cases:
        wide, narrow = np.empty(0, np.int64), np.empty(0, np.int32)
        slices = CoarseSlices(
            level=3, parts=wide, filled=wide, places=narrow, times=wide
        )
        assert slices.fits(begin, end, bucket) is fits


def test_the_work_of_a_span_is_known_by_its_number() -> None:
    start, dur, busy = np.array([0, 5, 10]), np.array([4, 4, 4]), np.array([1, 2, 3])
    lanes = np.array([1, 0, 1], np.int32)
    found = index_lanes(start, dur, lanes, busy, lanes=2, first_item=7)
    assert [found.busy_of_item(item) for item in (7, 8, 9)] == [1, 2, 3]
    assert index_lanes(start, dur, lanes, lanes=2).busy_of_item(0) is None
    # The two spans of lane 1, folded.
    slices = found.slices(range(1, 2), begin_ps=0, end_ps=20, bucket_ps=20)
    assert listed(slices) == [(0, 2, 7, 0, 14, 4)]


def busy_of_tracks(trace: TraceData) -> dict[str, list[tuple[float, float]]]:
    """Length and busy time in µs of each span of each track, by name of the track."""
    profile = blueprint.profile(trace)
    tracks = profile.derived(trace.host, trace_timeline).tracks
    found = {}
    for index, name in zip(
        profile.derived(trace.host, trace_lanes), tracks["name"], strict=True
    ):
        lanes = range(len(index.edges) - 1)
        shown = index.slices(lanes, begin_ps=0, end_ps=10**10, bucket_ps=0)
        long = (shown.end_ps - shown.start_ps) / 1e6
        found[name] = list(
            zip(long.tolist(), (shown.busy_ps / 1e6).tolist(), strict=True)
        )
    return found


def scattered(*stored: tuple[str, str, int, int]) -> TraceData:
    """One op of three kernels: 108 µs of work in 1.9 ms, two of them overlap."""
    kernels = [(100, 40), (120, 40), (1952, 48)]
    lines: list[Any] = [
        ("main", "train", 0, 2100, {"_r": 1, "step_num": 1}),
        *(
            ("main", "cuLaunchKernel", 10 * k, 4, {"correlation_id": k})
            for k in range(len(kernels))
        ),
        *(
            (
                "gpu:0/7(Compute)",
                "sgemm",
                start,
                dur,
                {"correlation_id": k, "tf_op": "model/dense/MatMul:MatMul"},
            )
            for k, (start, dur) in enumerate(kernels)
        ),
        *stored,
    ]
    return blueprint.trace(lines, devices={0: blueprint.A100})


def test_a_derived_span_is_busy_only_while_its_kernels_run() -> None:
    found = busy_of_tracks(scattered())
    # From 100 to 2,000 µs; 100 to 160 and 1,952 to 2,000 are work.
    assert found["Framework Ops"] == [(1900, 108)]
    # The inner scope ends a nanosecond before the outer one.
    assert found["Framework Name Scope"] == [(1900, 108), (1899.999, 108)]
    # Three calls of 4 µs from 0 to 24.
    assert found["Launch Stats"] == [(24, 12)]
    assert found["Step windows"] == [(2100, 2100)]


def test_spans_that_the_producer_derived_are_busy_while_the_device_computes() -> None:
    # The module from 50 to 150 µs holds kernels from 100 on.
    module = ("gpu:0/XLA Modules", "jit_train", 50, 100)
    assert busy_of_tracks(scattered(module))["XLA Modules"] == [(100, 50)]


def test_folded_derived_spans_are_as_busy_as_their_work() -> None:
    trace = blueprint.a1()
    profile = blueprint.profile(trace)
    names = profile.derived(trace.host, trace_timeline).tracks["name"].to_list()
    index = profile.derived(trace.host, trace_lanes)[names.index("Launch Stats")]
    # Eight steps, each with six calls of 5 µs in 395 µs.
    folded = index.slices(range(1), begin_ps=0, end_ps=1 << 34, bucket_ps=1 << 34)
    assert listed(folded) == [(0, 8, 8, 100 * US, 7495 * US, 8 * 30 * US)]
