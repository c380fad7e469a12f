"""Nesting and flattening of literal tracks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pytest

from stepscope.derive.intervals.nesting import (
    NESTED_KINDS,
    flatten_tracks,
    innermost_rows,
    nest_events,
    nest_subset,
)
from stepscope.derive.intervals.spans import LIMIT_PS, Spans
from stepscope.formats.opening import read
from stepscope.trace.tables import TRACK_KINDS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

#: A track: its kind, and (start, duration) of its events in the order of the file.
Track = tuple[str, list[tuple[int, int]]]


def tables(listed: Sequence[Track]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """`tracks` and `events` with the columns that nesting looks at."""
    sizes = [len(rows) for _, rows in listed]
    ends = np.cumsum(sizes, dtype=np.int64)
    tracks = pl.DataFrame(
        {
            "kind": pl.Series([kind for kind, _ in listed], dtype=TRACK_KINDS),
            "event_begin": ends - sizes,
            "event_end": ends,
        }
    )
    times = np.array([row for _, rows in listed for row in rows], np.int64)
    times = times.reshape(-1, 2)
    events = pl.DataFrame(
        {
            "track": np.repeat(np.arange(len(listed), dtype=np.int32), sizes),
            "start_ps": times[:, 0].copy(),
            "dur_ps": times[:, 1].copy(),
        }
    )
    return tracks, events


THREE = [(0, 10), (2, 5), (3, 1)]


def test_parents_are_rows_of_the_whole_table() -> None:
    found = nest_events(
        *tables([("thread", THREE), ("derived", THREE), ("core", THREE)])
    )
    assert found.parent.tolist() == [-1, 0, 1, -1, 3, 4, -1, 6, 7]
    assert found.depth.tolist() == [0, 1, 2] * 3
    assert found.self_ps.tolist() == [5, 4, 1] * 3
    assert found.overhangs.tolist() == [0, 0, 0]


@pytest.mark.parametrize("kind", ["stream", "asynchronous", "counters", "overhead"])
def test_events_of_flat_tracks_are_siblings(kind: str) -> None:
    found = nest_events(*tables([("thread", THREE), (kind, THREE)]))
    assert found.parent[3:].tolist() == [-1, -1, -1]
    assert found.depth[3:].tolist() == [0, 0, 0]
    assert found.self_ps[3:].tolist() == [10, 5, 1]


def test_overhangs_are_counted_by_track() -> None:
    tracks = [("thread", [(0, 5), (3, 5), (6, 9)]), ("thread", THREE)]
    found = nest_events(*tables(tracks))
    assert found.overhangs.tolist() == [2, 0]
    assert found.self_ps.tolist() == [3, 3, 9, 5, 4, 1]


def test_asynchronous_rows_neither_nest_nor_hold_others() -> None:
    rows = [(0, 20), (1, 15), (2, 3), (4, 1), (30, 1)]
    found = nest_events(
        *tables([("thread", THREE), ("thread", rows)]), flat_rows=np.array([4, 6])
    )
    assert found.parent.tolist() == [-1, 0, 1, -1, -1, 3, -1, -1]
    assert found.depth.tolist() == [0, 1, 2, 0, 0, 1, 0, 0]
    assert found.self_ps.tolist() == [5, 4, 1, 17, 15, 3, 1, 1]


def test_a_track_out_of_order_is_sorted_for_itself() -> None:
    rows = [(3, 1), (2, 5), (0, 10)]
    found = nest_events(*tables([("thread", THREE), ("thread", rows)]))
    assert found.parent.tolist() == [-1, 0, 1, 4, 5, -1]
    assert found.depth.tolist() == [0, 1, 2, 2, 1, 0]
    assert found.self_ps.tolist() == [5, 4, 1, 1, 4, 5]


@pytest.mark.parametrize(
    ("order", "rows"),
    [((0, 1, 2), [-1, 3, 4, 5, 4, 3, -1]), ((2, 1, 0), [-1, 5, 4, 3, 4, 5, -1])],
)
def test_the_innermost_row_is_found_at_any_time(
    order: tuple[int, ...], rows: list[int]
) -> None:
    """From 2 to 20, in it from 4 to 12, in it from 6 to 8, in the order of a file."""
    nested = [(2, 18), (4, 8), (6, 2)]
    tracks, events = tables([("thread", THREE), ("thread", [nested[k] for k in order])])
    when = np.array([1, 2, 5, 7, 8, 12, 20])
    for shuffled in (np.arange(7), np.arange(7)[::-1]):
        found = innermost_rows(
            when[shuffled],
            events["start_ps"].to_numpy(),
            events["dur_ps"].to_numpy(),
            nest_events(tracks, events).parent,
            rows=(3, 6),
        )
        assert found.tolist() == [rows[k] for k in shuffled]


def test_equal_events_out_of_order_keep_the_order_of_the_file() -> None:
    rows = [(5, 1), (0, 4), (0, 4)]
    found = nest_events(*tables([("thread", rows)]))
    assert found.parent.tolist() == [-1, -1, 1]
    assert found.self_ps.tolist() == [1, 0, 4]


def test_no_depth_is_too_deep() -> None:
    rows = [(row, 10_000 - 2 * row) for row in range(5000)]
    found = nest_events(*tables([("thread", rows)]))
    assert found.depth.tolist() == list(range(5000))
    assert found.self_ps.tolist() == [2] * 5000


def test_many_rows_are_shared_out_and_come_back_the_same() -> None:
    # More than a single thread is used for.
    rows = [(10 * (n // 3) + n % 3, 9 - 2 * (n % 3)) for n in range(60_000)]
    found = nest_events(*tables([("thread", rows), ("stream", rows), ("thread", rows)]))
    depths = [0, 1, 2] * 20_000
    assert found.depth.tolist() == depths + [0] * 60_000 + depths
    assert found.self_ps[:60_000].tolist() == [2, 2, 5] * 20_000
    assert found.self_ps[60_000:120_000].tolist() == [9, 7, 5] * 20_000
    assert (found.parent[120_001::3] == np.arange(120_000, 180_000, 3)).all()


def test_a_trace_without_events_nests() -> None:
    found = nest_events(*tables([("thread", []), ("stream", [])]))
    assert found.parent.tolist() == found.self_ps.tolist() == []
    assert found.overhangs.tolist() == [0, 0]
    assert nest_events(*tables([])).overhangs.tolist() == []


@pytest.mark.parametrize(
    ("begins", "ends"), [([0, 2], [2, 2]), ([0, 1], [2, 3]), ([1, 2], [2, 3])]
)
def test_tracks_that_leave_rows_out_or_share_them_are_refused(
    begins: list[int], ends: list[int]
) -> None:
    tracks, events = tables([("thread", THREE[:2]), ("thread", THREE[2:])])
    broken = tracks.with_columns(
        event_begin=pl.Series(begins), event_end=pl.Series(ends)
    )
    with pytest.raises(ValueError, match="exactly once"):
        nest_events(broken, events)


def test_a_subset_nests_as_if_the_others_did_not_exist() -> None:
    # Of a track 2 rows 0 and 2 are chosen, of a track 5 three rows.
    starts, durs = np.array([0, 3, 0, 1, 2]), np.array([10, 1, 9, 5, 7])
    track = np.array([2, 2, 5, 5, 5], np.int32)
    found = nest_subset(starts, durs, track=track)
    assert found.parent.tolist() == [-1, 0, -1, 2, 3]
    assert found.depth.tolist() == [0, 1, 0, 1, 2]
    assert found.self_ps.tolist() == [9, 1, 1, 1, 7]
    assert found.overhangs.tolist() == [0, 0, 0, 0, 0, 1]


def test_an_empty_subset_nests() -> None:
    none = np.empty(0, np.int64)
    found = nest_subset(none, none, track=none.astype(np.int32))
    assert found.parent.tolist() == found.overhangs.tolist() == []


def test_a_subset_must_be_grouped_by_track() -> None:
    times = np.zeros(3, np.int64)
    with pytest.raises(ValueError, match="not grouped by track"):
        nest_subset(times, times, track=np.array([0, 1, 0], np.int32))


WAIT, COMPUTE, LAUNCH = 1, 2, 3


def test_each_instant_takes_the_class_of_its_innermost_classified_event() -> None:
    rows = [(0, 100), (10, 50), (20, 10), (22, 4), (80, 5)]
    classes = np.array([0, COMPUTE, LAUNCH, 0, COMPUTE], np.uint8)
    found = flatten_tracks(*tables([("thread", []), ("thread", rows)]), classes)
    assert found == {
        1: {
            COMPUTE: Spans.of([(10, 20), (30, 60), (80, 85)]),
            LAUNCH: Spans.of([(20, 30)]),
        }
    }


def test_a_sticky_class_keeps_everything_nested_in_it() -> None:
    rows = [(0, 100), (10, 50), (20, 10), (25, 60)]
    classes = np.array([LAUNCH, WAIT, COMPUTE, COMPUTE], np.uint8)
    found = flatten_tracks(*tables([("thread", rows)]), classes, sticky={WAIT})
    assert found == {
        0: {
            WAIT: Spans.of([(10, 60)]),
            COMPUTE: Spans.of([(60, 85)]),
            LAUNCH: Spans.of([(0, 10), (85, 100)]),
        }
    }


def test_a_track_out_of_order_is_flattened_in_order() -> None:
    classes = np.array([LAUNCH, COMPUTE], np.uint8)
    found = flatten_tracks(*tables([("thread", [(3, 2), (0, 10)])]), classes)
    assert found[0][LAUNCH] == Spans.of([(3, 5)])
    assert found[0][COMPUTE] == Spans.of([(0, 3), (5, 10)])


def test_classes_that_cover_nothing_are_left_out() -> None:
    rows = [(0, 0), (5, 0)]
    classes = np.array([WAIT, COMPUTE], np.uint8)
    assert flatten_tracks(*tables([("thread", rows)]), classes) == {}


def test_flattening_goes_as_deep_as_the_events() -> None:
    rows = [(row, 10_000 - 2 * row) for row in range(5000)]
    classes = np.array([1 + row % 2 for row in range(5000)], np.uint8)
    for sticky in (set(), {1, 2}):
        found = flatten_tracks(*tables([("thread", rows)]), classes, sticky=sticky)
        sets = found[0].values()
        assert sum(spans.length_ps for spans in sets) == 10_000
        assert Spans.union_of(sets) == Spans.of([(0, 10_000)])


def test_a_queue_of_sticky_events_goes_as_far_as_they_do() -> None:
    rows = [(row, 5000) for row in range(3000)]
    classes = np.array([1 + row % 2 for row in range(3000)], np.uint8)
    found = flatten_tracks(*tables([("thread", rows)]), classes, sticky={1, 2})
    # Each takes over for 1 ps when its predecessor ends; the first has 5000.
    assert found[0][1].length_ps == 5000 + 1499
    assert found[0][2].length_ps == 1500


def test_impossible_times_are_cut_like_those_of_all_spans() -> None:
    rows = [(-(2**63), 10), (0, 2**63 - 1)]
    classes = np.array([WAIT, COMPUTE], np.uint8)
    found = flatten_tracks(*tables([("thread", rows)]), classes)
    assert found == {0: {COMPUTE: Spans.of([(0, LIMIT_PS)])}}


@pytest.mark.parametrize(
    "name",
    [
        "tf_cpu/healthy",
        "tf_cpu/tf215_python_tracer",
        "jax_cpu/python_tracer",
        "gpu_tf/t4_healthy",
        "gpu_jax_amd/jax08_gemm",
        "tpu/tpu_inference_2",
    ],
)
def test_self_times_of_real_tracks_add_up_to_their_busy_time(
    shared_profile: Callable[[str], Path], name: str
) -> None:
    for path in sorted(shared_profile(name).rglob("*.xplane.pb*")):
        trace = read(path)
        tracks, events = trace.table("tracks"), trace.table("events")
        found = nest_events(tracks, events)
        starts, durs = events["start_ps"].to_numpy(), events["dur_ps"].to_numpy()
        assert found.self_ps.min() >= 0
        for kind, begin, end in tracks.select(
            "kind", "event_begin", "event_end"
        ).rows():
            if kind in NESTED_KINDS:
                busy = Spans.from_events(starts[begin:end], durs[begin:end])
                assert found.self_ps[begin:end].sum() == busy.length_ps


def test_only_the_python_tracer_lets_events_outlive_their_parents(
    shared_profile: Callable[[str], Path],
) -> None:
    # TensorFlow's and JAX's own annotations close in the order they were opened.
    counts = {}
    for name in ("jax_cpu/steps", "jax_cpu/python_tracer"):
        (path,) = sorted(shared_profile(name).rglob("*.xplane.pb*"))
        trace = read(path)
        found = nest_events(trace.table("tracks"), trace.table("events"))
        counts[name] = int(found.overhangs.sum())
    assert counts["jax_cpu/steps"] == 0
    assert counts["jax_cpu/python_tracer"] > 0
