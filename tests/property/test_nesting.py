"""What nesting conserves, whatever the events."""

from __future__ import annotations

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st
from tests.support.kept_promises import check_spans

from stepscope.derive.intervals.nesting import (
    NESTED_KINDS,
    Nesting,
    flatten_tracks,
    nest_events,
    nest_subset,
)
from stepscope.derive.intervals.spans import Spans
from stepscope.trace.tables import TRACK_KINDS

Rows = list[tuple[int, int]]

ROWS = st.lists(st.tuples(st.integers(0, 300), st.integers(0, 100)), max_size=40)
TRACKS = st.lists(st.tuples(st.sampled_from(TRACK_KINDS.categories.to_list()), ROWS))


def tables(tracks: list[tuple[str, Rows]]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The tables as a reader leaves them: each track by start, the longer first."""
    ordered = [sorted(rows, key=lambda row: (row[0], -row[1])) for _, rows in tracks]
    sizes = [len(rows) for rows in ordered]
    ends = np.cumsum(sizes, dtype=np.int64)
    times = np.array([row for rows in ordered for row in rows], np.int64)
    times = times.reshape(-1, 2)
    return (
        pl.DataFrame(
            {
                "kind": pl.Series([kind for kind, _ in tracks], dtype=TRACK_KINDS),
                "event_begin": ends - sizes,
                "event_end": ends,
            }
        ),
        pl.DataFrame(
            {
                "track": np.repeat(np.arange(len(tracks), dtype=np.int32), sizes),
                "start_ps": times[:, 0].copy(),
                "dur_ps": times[:, 1].copy(),
            }
        ),
    )


def ranges(tracks: pl.DataFrame) -> list[tuple[str, slice]]:
    columns = tracks.select("kind", "event_begin", "event_end").rows()
    return [(kind, slice(begin, end)) for kind, begin, end in columns]


@given(listed=TRACKS)
def test_self_times_of_a_track_add_up_to_its_busy_time(
    listed: list[tuple[str, Rows]],
) -> None:
    tracks, events = tables(listed)
    found = nest_events(tracks, events)
    starts, durs = events["start_ps"].to_numpy(), events["dur_ps"].to_numpy()
    assert (found.self_ps >= 0).all()
    for kind, rows in ranges(tracks):
        if kind in NESTED_KINDS:
            busy = Spans.from_events(starts[rows], durs[rows])
            assert found.self_ps[rows].sum() == busy.length_ps
        else:
            assert (found.self_ps[rows] == durs[rows]).all()


@given(listed=TRACKS)
def test_a_child_starts_within_its_parent_and_one_level_below(
    listed: list[tuple[str, Rows]],
) -> None:
    tracks, events = tables(listed)
    found = nest_events(tracks, events)
    starts = events["start_ps"].to_numpy()
    ends = starts + events["dur_ps"].to_numpy()
    child = np.flatnonzero(found.parent >= 0)
    parent = found.parent[child]
    assert (starts[parent] <= starts[child]).all()
    assert (starts[child] < ends[parent]).all()
    assert (found.depth[child] == found.depth[parent] + 1).all()
    assert (found.depth[found.parent < 0] == 0).all()
    assert (parent < child).all()
    same_track = events["track"].to_numpy()
    assert (same_track[parent] == same_track[child]).all()
    assert found.overhangs.sum() == (ends[child] > ends[parent]).sum()


@given(rows=ROWS, shift=st.integers(-(10**12), 10**12), factor=st.integers(1, 1000))
def test_nesting_does_not_depend_on_the_clock(
    rows: Rows, shift: int, factor: int
) -> None:
    moved = [(shift + factor * start, factor * dur) for start, dur in rows]
    before = nest_events(*tables([("thread", rows)]))
    after = nest_events(*tables([("thread", moved)]))
    assert (after.parent == before.parent).all()
    assert (after.self_ps == factor * before.self_ps).all()


@given(listed=TRACKS, data=st.data())
def test_flat_rows_are_as_good_as_absent(
    listed: list[tuple[str, Rows]], data: st.DataObject
) -> None:
    tracks, events = tables([("thread", rows) for _, rows in listed])
    count = len(events)
    flags = data.draw(st.lists(st.booleans(), min_size=count, max_size=count))
    flat = np.array(flags, np.bool_)
    found = nest_events(tracks, events, flat_rows=np.flatnonzero(flat))
    kept = np.flatnonzero(~flat)
    left = events[kept]
    alone = nest_subset(
        left["start_ps"].to_numpy(),
        left["dur_ps"].to_numpy(),
        track=left["track"].to_numpy(),
    )
    assert (found.parent[flat] == -1).all()
    assert (found.self_ps[flat] == events["dur_ps"].to_numpy()[flat]).all()
    assert same(alone, found, kept)


def same(alone: Nesting, found: Nesting, rows: np.ndarray) -> bool:
    parents = [-1 if row < 0 else int(rows[row]) for row in alone.parent.tolist()]
    return (
        parents == found.parent[rows].tolist()
        and alone.depth.tolist() == found.depth[rows].tolist()
        and alone.self_ps.tolist() == found.self_ps[rows].tolist()
    )


@given(listed=TRACKS, data=st.data())
def test_classes_divide_the_time_of_classified_events(
    listed: list[tuple[str, Rows]], data: st.DataObject
) -> None:
    tracks, events = tables(listed)
    count = len(events)
    classes = data.draw(st.lists(st.integers(0, 3), min_size=count, max_size=count))
    code = np.array(classes, np.uint8)
    found = flatten_tracks(tracks, events, code, sticky={2})
    starts, durs = events["start_ps"].to_numpy(), events["dur_ps"].to_numpy()
    for track, (_, rows) in enumerate(ranges(tracks)):
        sets = found.get(track, {})
        coded = np.flatnonzero(code[rows]) + rows.start
        covered = Spans.from_events(starts[coded], durs[coded])
        assert Spans.union_of(sets.values()) == covered
        assert sum(spans.length_ps for spans in sets.values()) == covered.length_ps
        for spans in sets.values():
            check_spans(spans)
        sticky = np.flatnonzero(code[rows] == 2) + rows.start
        held = Spans.from_events(starts[sticky], durs[sticky])
        assert sets.get(2, Spans.empty()) == held
