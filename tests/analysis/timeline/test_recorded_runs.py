"""Of every recording: nothing is out of reach, and every sum is the account's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pytest
from tests.support.traces.tiles import TrackSlices, track_tile

import stepscope
from stepscope.analysis.timeline.call_tree import CallTree, call_tree
from stepscope.analysis.timeline.catalogue import TrackCatalogue, track_catalogue
from stepscope.analysis.timeline.counters import counter_ranges
from stepscope.analysis.timeline.selection import WindowTotals, window_totals
from stepscope.analysis.timeline.span_groups import SpanGroups, span_groups
from stepscope.analysis.timeline.tiles import (
    MAX_UNFOLDED,
    TILE_BUCKETS,
    Rows,
    unfold_slice,
)
from stepscope.derive.account.time_by_cause import account
from stepscope.derive.step_time.owners import OWNERS
from stepscope.derive.step_windows.windows import windows
from stepscope.derive.trace_rows.drawn_rows import trace_timeline
from stepscope.unavailable import Unavailable, require_available

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from stepscope.analysis.timeline.span_groups import GroupedBy
    from stepscope.derive.profile_data import ProfileData

#: So coarse that most spans are folded and have to be unfolded.
FEW_BUCKETS = 64
#: Windows of a run whose sums are looked at.
SOME = 3


@pytest.fixture(scope="module")
def profile(recorded_run: str, shared_profile: Callable[[str], Path]) -> ProfileData:
    return stepscope.open(shared_profile(recorded_run))


def shown(profile: ProfileData, host: str) -> TrackCatalogue:
    found = track_catalogue(profile, host)
    assert isinstance(found, TrackCatalogue)
    return found


def reached(
    profile: ProfileData, about: TrackCatalogue, track: int
) -> Iterator[np.ndarray]:
    """The items that tiles of a track show, or that their slices unfold into."""
    level = about.coarsest_level + (TILE_BUCKETS // FEW_BUCKETS).bit_length()
    width = TILE_BUCKETS << level
    assert about.begin_ps is not None
    assert about.end_ps is not None
    for index in range(about.begin_ps // width, about.end_ps // width + 1):
        found = track_tile(
            profile, about.host, track=track, level=level, index=index, rows=Rows.ALL
        )
        assert isinstance(found, TrackSlices)
        for start, count, item, first in found.slices.select(
            "start_ps", "count", "item", "first"
        ).iter_rows():
            if start < found.begin_ps:
                # The tile before has it.
                continue
            if count == 1:
                yield np.array([item])
            for at in range(0, count if count > 1 else 0, MAX_UNFOLDED):
                part = unfold_slice(
                    profile,
                    about.host,
                    track=track,
                    first=first + at,
                    count=count - at,
                )
                assert not isinstance(part, Unavailable)
                yield part["item"].to_numpy()


def test_tiles_and_what_unfolds_from_them_reach_every_event_once(
    profile: ProfileData,
) -> None:
    for host in profile.hosts:
        about = shown(profile, host)
        events = profile.table(host, "events")
        assert not isinstance(events, Unavailable)
        met = np.zeros(events.height, np.int64)
        for row in about.tracks.with_row_index("track").iter_rows(named=True):
            items = np.concatenate([*reached(profile, about, row["track"])])
            assert len(items) == row["spans"] == row["end"] - row["begin"]
            assert np.array_equal(np.sort(items), np.arange(row["begin"], row["end"]))
            if row["recorded"]:
                met[items] += 1
            assert row["drawn"] <= row["spans"]
        # Lines of sampled functions repeat them, and are not drawn.
        tracks = profile.table(host, "tracks")
        repeated = tracks["name"].str.starts_with("source lines of ").to_numpy()
        expected = np.where(repeated[events["track"].to_numpy()], 0, 1)
        assert np.array_equal(met, expected)


def test_arrows_lead_where_equal_correlation_ids_say(profile: ProfileData) -> None:
    for host in profile.hosts:
        shown_rows = profile.derived(host, trace_timeline)
        launches = profile.table(host, "launches")
        activity = profile.table(host, "device_activity")
        if isinstance(launches, Unavailable) or isinstance(activity, Unavailable):
            continue
        calls = ids(launches)
        works = ids(activity)
        flows = require_available(shown_rows).flows
        for call, work in zip(
            flows.launch_event.tolist(), flows.device_event.tolist(), strict=True
        ):
            assert calls[call] == works[work]


def ids(table: pl.DataFrame) -> dict[int, int | None]:
    """Row of events → correlation id."""
    return dict(table.select("event", "correlation").iter_rows())


def test_the_owners_of_an_area_are_those_of_the_account(profile: ProfileData) -> None:
    """Two areas that share a step add up to it: to the picosecond, for each owner."""
    for host in profile.hosts:
        charged = profile.derived(host, account)
        placed = profile.derived(host, windows)
        if isinstance(charged, Unavailable) or isinstance(placed, Unavailable):
            continue
        bounds = placed.rows.select("start_ps", "end_ps").head(SOME).rows()
        for number, (begin, end) in enumerate(bounds):
            middle = begin + (end - begin) // 3
            parts = [
                owners(profile, host, *area)
                for area in ((begin, middle), (middle, end))
            ]
            rows = charged.rows.filter(charged.rows["window"] == number)
            assert rows.height
            for row in rows.iter_rows(named=True):
                for owner in OWNERS:
                    key = row["device"], owner.name
                    told = [part[key] for part in parts]
                    wanted = row[f"{owner.name}_ps"]
                    assert None in told if wanted is None else sum(told) == wanted
            assert parts[0].keys() == {
                (device, owner.name) for device in rows["device"] for owner in OWNERS
            }


def owners(
    profile: ProfileData, host: str, begin_ps: int, end_ps: int
) -> dict[tuple[int | None, str], int | None]:
    found = window_totals(profile, host, begin_ps=begin_ps, end_ps=end_ps)
    assert isinstance(found, WindowTotals)
    assert found.account_ps == end_ps - begin_ps
    return {
        (device, owner): time
        for device, owner, time in found.owners.select(
            "device", "owner", "time_ps"
        ).iter_rows()
    }


@pytest.mark.parametrize("by", ["name", "track", "category"])
def test_groups_of_an_area_add_up_to_its_sums(
    by: GroupedBy, profile: ProfileData
) -> None:
    for host in profile.hosts:
        about = shown(profile, host)
        for begin, end in areas(profile, host, about):
            totals = window_totals(profile, host, begin_ps=begin, end_ps=end)
            found = span_groups(
                profile,
                host,
                begin_ps=begin,
                end_ps=end,
                tracks=(),
                by=by,
                all_rows=True,
            )
            assert isinstance(totals, WindowTotals)
            assert isinstance(found, SpanGroups)
            assert found.spans == totals.spans
            if found.total == len(found.groups):
                whole = totals.names["time_ps"].sum()
                assert found.groups["time_ps"].sum() == whole
            assert (found.groups["shortest_ps"] <= found.groups["mean_ps"]).all()
            assert (found.groups["mean_ps"] <= found.groups["longest_ps"]).all()


def test_calls_fit_into_their_callers_and_into_the_area(profile: ProfileData) -> None:
    """On a thread, spans nest: calls take no longer than what calls them."""
    for host in profile.hosts:
        about = shown(profile, host)
        for begin, end in areas(profile, host, about):
            found = call_tree(profile, host, begin_ps=begin, end_ps=end)
            assert isinstance(found, CallTree)
            calls = found.calls.with_row_index("row")
            called = (
                calls.drop_nulls("parent")
                .group_by("parent")
                .agg(pl.col("time_ps").sum().alias("called_ps"))
            )
            joined = calls.join(
                called.with_columns(pl.col("parent").cast(pl.UInt32)),
                left_on="row",
                right_on="parent",
            )
            threads = joined.filter(pl.col("parent").is_null())
            assert (threads["called_ps"] == threads["time_ps"]).all()
            assert (calls["time_ps"] >= 0).all()
            # Spans of one thread that overlap without nesting stand side by side.
            nested = joined.filter(pl.col("parent").is_not_null())
            assert (nested["called_ps"] <= 2 * nested["time_ps"]).all()


def test_counters_of_an_area_lie_within_their_range(profile: ProfileData) -> None:
    for host in profile.hosts:
        about = shown(profile, host)
        known = {one.track: one for one in about.counters}
        for begin, end in areas(profile, host, about):
            found = counter_ranges(profile, host, begin_ps=begin, end_ps=end)
            for row in found.iter_rows(named=True):
                counter = known[row["track"]]
                assert row["name"] == counter.name
                assert counter.least <= row["least"] <= row["greatest"]
                assert row["greatest"] <= counter.greatest
                slack = 1e-9 * max(abs(row["least"]), abs(row["greatest"]))
                assert row["least"] - slack <= row["mean"] <= row["greatest"] + slack


def areas(
    profile: ProfileData, host: str, about: TrackCatalogue
) -> Iterator[tuple[int, int]]:
    """All of the timeline, and some of its steps."""
    assert about.begin_ps is not None
    assert about.end_ps is not None
    yield about.begin_ps, about.end_ps
    placed = profile.derived(host, windows)
    if not isinstance(placed, Unavailable):
        yield from placed.rows.select("start_ps", "end_ps").head(SOME).rows()
