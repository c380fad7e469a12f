"""Tiles: what a track shows at any resolution, and where nothing is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.traces import blueprint
from tests.support.traces.tiles import TrackSlices, track_tile, track_window

from stepscope.analysis.timeline.catalogue import TrackCatalogue, track_catalogue
from stepscope.analysis.timeline.tiles import (
    COARSEST_LEVEL,
    MAX_UNFOLDED,
    SLICE_COLUMNS,
    TILE_BUCKETS,
    Rows,
    unfold_slice,
)
from stepscope.errors import BadUsage
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.derive.profile_data import ProfileData

US = 1_000_000
ABSENT = Unavailable(code="CORRUPT", reason="It is damaged.", remedy="Copy it again.")

#: Two kernels of 1 µs apart by 1 µs, one of 100 µs; and a thread with nested work.
LINES = [
    ("main", "outer", 0, 300),
    ("main", "inner", 10, 2),
    ("main", "inner", 14, 3),
    ("main", "MemoryAllocation", 40, 1),
    ("gpu:0/7(Compute)", "small", 100, 1),
    ("gpu:0/7(Compute)", "other small", 102, 2),
    ("gpu:0/7(Compute)", "large", 110, 100),
    ("gpu:0/7(Compute)", "later", 400, 1),
]


def recorded(lines: list[blueprint.Line] = LINES) -> ProfileData:
    return blueprint.profile(blueprint.trace(lines))


def track_of(profile: ProfileData, name: str) -> int:
    about = track_catalogue(profile, "vm")
    assert isinstance(about, TrackCatalogue)
    (track,) = [
        row
        for row, (one, kind) in enumerate(
            about.tracks.select("name", "kind").iter_rows()
        )
        if one.startswith(name) and kind in ("thread", "stream")
    ]
    return track


def shown(
    result: TrackSlices | pl.DataFrame | Unavailable,
) -> list[tuple[object, ...]]:
    """(row, name, start µs, end µs, busy µs, count) of each slice."""
    slices = result.slices if isinstance(result, TrackSlices) else result
    assert isinstance(slices, pl.DataFrame)
    assert slices.schema == SLICE_COLUMNS
    return [
        (
            one["row"],
            one["name"],
            one["start_ps"] / US,
            one["end_ps"] / US,
            one["busy_ps"] / US,
            one["count"],
        )
        for one in slices.iter_rows(named=True)
    ]


def test_short_spans_fold_into_one_slice_named_after_the_longest() -> None:
    profile = recorded()
    found = track_window(
        profile,
        "vm",
        track=track_of(profile, "Stream #7"),
        begin_ps=0,
        end_ps=1000 * US,
        bucket_ps=50 * US,
    )
    assert shown(found) == [
        (0, "other small", 100, 104, 3, 2),
        (0, "large", 110, 210, 100, 1),
        (0, "later", 400, 401, 1, 1),
    ]


def test_each_depth_folds_by_itself() -> None:
    profile = recorded()
    found = track_window(
        profile,
        "vm",
        track=track_of(profile, "main"),
        begin_ps=0,
        end_ps=400 * US,
        bucket_ps=50 * US,
    )
    assert shown(found) == [
        (0, "outer", 0, 300, 300, 1),
        (1, "inner", 10, 17, 5, 2),
    ]


def test_hidden_events_come_when_all_rows_are_asked_for() -> None:
    profile = recorded()
    found = track_window(
        profile,
        "vm",
        track=track_of(profile, "main"),
        begin_ps=0,
        end_ps=400 * US,
        rows=Rows.ALL,
    )
    assert [name for _, name, *_ in shown(found)] == [
        *("outer", "inner", "inner", "MemoryAllocation")
    ]


def test_a_tile_begins_at_its_index_times_its_width() -> None:
    profile = recorded()
    level = 20
    width = TILE_BUCKETS << level  # 1,073.7 µs
    track = track_of(profile, "Stream #7")
    first = track_tile(profile, "vm", track=track, level=level, index=0)
    assert isinstance(first, TrackSlices)
    assert (first.begin_ps, first.end_ps) == (0, width)
    # A bucket is 1.05 µs: what is shorter than that and alone in its bucket is whole.
    assert [(name, count) for _, name, *_, count in shown(first)] == [
        *(("small", 1), ("other small", 1), ("large", 1), ("later", 1))
    ]
    second = track_tile(profile, "vm", track=track, level=level, index=1)
    assert isinstance(second, TrackSlices)
    assert (second.begin_ps, second.end_ps) == (width, 2 * width)
    assert shown(second) == []


def test_a_span_that_runs_into_a_tile_is_its_first_slice() -> None:
    profile = recorded()
    track = track_of(profile, "main")
    found = track_window(
        profile, "vm", track=track, begin_ps=200 * US, end_ps=250 * US, bucket_ps=US
    )
    assert shown(found) == [(0, "outer", 0, 300, 300, 1)]


def test_unfolding_lists_what_a_slice_stands_for() -> None:
    profile = recorded()
    track = track_of(profile, "Stream #7")
    folded = track_window(
        profile, "vm", track=track, begin_ps=0, end_ps=1000 * US, bucket_ps=50 * US
    )
    assert isinstance(folded, TrackSlices)
    first, count = folded.slices.select("first", "count").row(0)
    unfolded = unfold_slice(profile, "vm", track=track, first=first, count=count)
    assert shown(unfolded) == [
        (0, "small", 100, 101, 1, 1),
        (0, "other small", 102, 104, 2, 1),
    ]


def test_unfolding_gives_the_first_ten_thousand_and_goes_on_from_there() -> None:
    many = 10_003
    lines = [("gpu:0/7(Compute)", "k", 2 * i, 1) for i in range(many)]
    profile = recorded(lines)
    track = track_of(profile, "Stream #7")
    whole = unfold_slice(profile, "vm", track=track, first=0, count=many)
    assert isinstance(whole, pl.DataFrame)
    assert whole.height == MAX_UNFOLDED
    rest = unfold_slice(
        profile, "vm", track=track, first=MAX_UNFOLDED, count=many - MAX_UNFOLDED
    )
    assert [start for _, _, start, *_ in shown(rest)] == [20_000, 20_002, 20_004]


def test_spans_beyond_a_row_cannot_be_unfolded() -> None:
    profile = recorded()
    track = track_of(profile, "main")
    for first, count in ((0, 2), (0, 0), (-1, 1), (10**6, 1)):
        with pytest.raises(BadUsage, match="in one row"):
            unfold_slice(profile, "vm", track=track, first=first, count=count)


def test_the_catalogue_tells_extent_and_the_level_that_shows_all() -> None:
    about = track_catalogue(recorded(), "vm")
    assert isinstance(about, TrackCatalogue)
    assert (about.begin_ps, about.end_ps) == (0, 401 * US)
    width = TILE_BUCKETS << about.coarsest_level
    assert width // 2 < 401 * US <= width
    assert about.tracks["spans"].sum() >= len(LINES)


@pytest.mark.parametrize("level", [-1, COARSEST_LEVEL + 1])
def test_a_level_that_does_not_exist_is_refused(level: int) -> None:
    with pytest.raises(BadUsage, match="level"):
        track_tile(recorded(), "vm", track=0, level=level, index=0)


@pytest.mark.parametrize(
    ("level", "index"), [(COARSEST_LEVEL, 1), (COARSEST_LEVEL, -2), (0, 2**60)]
)
def test_a_tile_beyond_all_times_is_refused(level: int, index: int) -> None:
    with pytest.raises(BadUsage, match="no tile"):
        track_tile(recorded(), "vm", track=0, level=level, index=index)


def test_the_coarsest_tile_holds_everything() -> None:
    profile = recorded()
    track = track_of(profile, "Stream #7")
    found = track_tile(profile, "vm", track=track, level=COARSEST_LEVEL, index=0)
    assert shown(found) == [(0, "large", 100, 401, 104, 4)]


@pytest.mark.parametrize("track", [-1, 99])
def test_a_track_that_does_not_exist_is_refused(track: int) -> None:
    with pytest.raises(BadUsage, match="no track"):
        track_tile(recorded(), "vm", track=track, level=0, index=0)


@pytest.mark.parametrize("table", ["events", "tracks", "event_types"])
def test_without_its_tables_there_is_no_timeline(table: str) -> None:
    profile = recorded().without(table, ABSENT)
    assert track_catalogue(profile, "vm") == ABSENT
    assert track_tile(profile, "vm", track=0, level=0, index=0) == ABSENT
    assert unfold_slice(profile, "vm", track=0, first=0, count=1) == ABSENT


TRACK = st.sampled_from(["a", "b", "gpu:0/7(Compute)", "gpu:0/8(Memcpy)"])
EVENT = st.tuples(
    TRACK,
    st.sampled_from(["x", "y", "MemoryAllocation", "MemcpyH2D"]),
    st.integers(0, 300),
    st.integers(0, 120),
)


@pytest.mark.slow(seconds=0.6)
@given(lines=st.lists(EVENT, min_size=1, max_size=30))
def test_every_level_counts_every_event_and_all_time(
    lines: list[blueprint.Line],
) -> None:
    profile = recorded(lines)
    about = track_catalogue(profile, "vm")
    assert isinstance(about, TrackCatalogue)
    dur = profile.table("vm", "events")["dur_ps"]
    for level in (0, 16, 20, 24, about.coarsest_level, COARSEST_LEVEL):
        count = busy = 0
        for track, begin, end in (
            about.tracks.with_row_index("row")
            .filter(about.tracks["source"].is_not_null())[["row", "begin", "end"]]
            .iter_rows()
        ):
            found = track_window(
                profile,
                "vm",
                track=track,
                begin_ps=0,
                end_ps=500 * US,
                bucket_ps=1 << level,
                rows=Rows.ALL,
            )
            assert isinstance(found, TrackSlices)
            here = found.slices
            assert here["count"].sum() == end - begin
            assert here["busy_ps"].sum() == dur[begin:end].sum()
            assert (here["busy_ps"] <= here["end_ps"] - here["start_ps"]).all()
            count += here["count"].sum()
            busy += here["busy_ps"].sum()
        assert count == len(lines)
        assert busy == dur.sum()
