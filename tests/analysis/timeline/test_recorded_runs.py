"""Of every recording: nothing is out of reach, and every sum is the account's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.support.traces.tiles import TrackSlices, track_tile

import stepscope
from stepscope.analysis.timeline.catalogue import TrackCatalogue, track_catalogue
from stepscope.analysis.timeline.flows import TrackFlows, track_flows
from stepscope.analysis.timeline.selection import WindowTotals, window_totals
from stepscope.analysis.timeline.tiles import (
    MAX_UNFOLDED,
    TILE_BUCKETS,
    Rows,
    unfold_slice,
)
from stepscope.derive.account.time_by_cause import account
from stepscope.derive.step_time.owners import OWNERS
from stepscope.derive.step_windows.windows import windows
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import polars as pl

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
        found = track_flows(profile, host)
        launches = profile.table(host, "launches")
        activity = profile.table(host, "device_activity")
        if isinstance(found, Unavailable):
            continue
        assert isinstance(found, TrackFlows)
        assert not isinstance(launches, Unavailable)
        assert not isinstance(activity, Unavailable)
        calls = ids(launches)
        works = ids(activity)
        for row in found.flows.iter_rows(named=True):
            assert calls[row["launch_item"]] == works[row["device_item"]]
        assert found.count == len(found.flows) + found.left_out


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
