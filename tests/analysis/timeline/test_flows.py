"""`trace_flows`: the arrows that a window shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.traces import blueprint

from stepscope.analysis.timeline import flows as trace_flows
from stepscope.analysis.timeline.flows import FLOW_COLUMNS, MAX_FLOWS, TrackFlows
from stepscope.derive.trace_rows.drawn_rows import trace_timeline
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.derive.profile_data import ProfileData

US = 1_000_000
ABSENT = Unavailable(code="CORRUPT", reason="It is damaged.", remedy="Copy it again.")


def seen(profile: ProfileData, begin_us: int, end_us: int) -> TrackFlows:
    found = trace_flows.track_flows(
        profile, "vm", begin_ps=begin_us * US, end_ps=end_us * US
    )
    assert isinstance(found, TrackFlows)
    assert found.flows.schema == FLOW_COLUMNS
    return found


def test_an_arrow_is_seen_where_its_call_ends_or_its_activity_starts() -> None:
    profile = blueprint.profile(
        blueprint.trace(
            [
                ("main", "cuLaunchKernel", 0, 10, {"correlation_id": 1}),
                ("main", "cuLaunchKernel", 20, 10, {"correlation_id": 2}),
                ("gpu:0/7(Compute)", "k", 100, 50, {"correlation_id": 1}),
                ("gpu:0/7(Compute)", "k", 200, 50, {"correlation_id": 2}),
                ("gpu:0/7(Compute)", "nobody's", 300, 50),
            ]
        )
    )

    def ids(begin_us: int, end_us: int) -> list[int]:
        return seen(profile, begin_us, end_us).flows["correlation"].to_list()

    assert ids(0, 400) == [1, 2]
    assert ids(10, 11) == [1]
    assert ids(0, 10) == []
    assert ids(100, 101) == [1]
    assert ids(101, 200) == []
    assert ids(25, 101) == [1, 2]
    row = seen(profile, 200, 201).flows.row(0, named=True)
    assert (row["launch_end_ps"], row["device_start_ps"]) == (30 * US, 200 * US)
    tracks = profile.derived("vm", trace_timeline).tracks["name"]
    assert tracks[row["launch_track"]].startswith("main")
    assert tracks[row["device_track"]] == "Stream #7(Compute)"
    names = profile.table("vm", "event_types")["name"]
    types = profile.table("vm", "events")["type"]
    assert names[types[row["launch_item"]]] == "cuLaunchKernel"
    assert names[types[row["device_item"]]] == "k"


def test_of_too_many_those_that_waited_longest_are_kept() -> None:
    count = MAX_FLOWS + 3
    lines = []
    for i in range(count):
        # The first three begin as soon as their calls end.
        wait = 1 if i < 3 else 20
        lines += [
            ("main", "cuLaunchKernel", 100 * i, 2, {"correlation_id": i + 1}),
            ("gpu:0/7(Compute)", "k", 100 * i + 2 + wait, 3, {"correlation_id": i + 1}),
        ]
    profile = blueprint.profile(blueprint.trace(lines))
    found = seen(profile, 0, 100 * count)
    assert (found.count, found.left_out) == (count, 3)
    assert found.flows["correlation"].to_list() == list(range(4, count + 1))


@pytest.mark.parametrize("table", ["launches", "device_activity", "events"])
def test_without_either_end_there_are_no_arrows_and_no_zero(table: str) -> None:
    profile = blueprint.profile(blueprint.a1()).without(table, ABSENT)
    assert trace_flows.track_flows(profile, "vm", begin_ps=0, end_ps=9) == ABSENT
