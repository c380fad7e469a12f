"""Long lists of partners and children are cut; tracks of events have gaps."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from tests.support.traces import blueprint

from stepscope.analysis.timeline.details import (
    MAX_PARTNERS,
    SpanDetails,
    details_of_span,
)
from stepscope.analysis.timeline.search import find_span
from stepscope.analysis.timeline.spans import HostTimeline, Place

US = 1_000_000


def details_of(lines: list[blueprint.Line], name: str) -> SpanDetails:
    profile = blueprint.profile(blueprint.trace(lines, devices={0: blueprint.A100}))
    place = find_span(profile, "vm", f"/^{name}$/", from_ps=0)
    assert isinstance(place, Place)
    found = details_of_span(profile, "vm", track=place.track, item=place.item)
    assert isinstance(found, SpanDetails)
    return found


def test_the_first_thousand_activities_of_a_graph_are_listed() -> None:
    ids, count = {"correlation_id": 7}, MAX_PARTNERS + 2
    found = details_of(
        [
            ("main", "cuGraphLaunch", 0, 9, ids),
            *(("gpu:0/7", f"k{at}", 20 + 10 * at, 6, ids) for at in range(count)),
        ],
        "cuGraphLaunch",
    )
    assert found.launched is not None
    assert (found.launched_count, len(found.launched)) == (count, 1_000)
    assert [
        (one.name, one.start_ps // US, one.dur_ps // US, one.correlation)
        for one in found.launched
    ] == [(f"k{at}", 20 + 10 * at, 6, 7) for at in range(1_000)]
    assert found.launched_by is None


def test_the_first_hundred_children_of_a_span_are_listed() -> None:
    found = details_of(
        [
            ("main", "around", 0, 2000),
            *(("main", f"n{at}", 5 + 10 * at, 6) for at in range(102)),
        ],
        "around",
    )
    assert found.children is not None
    assert (found.children_count, len(found.children)) == (102, 100)
    assert [(one.name, one.start_ps // US) for one in found.children] == [
        (f"n{at}", 5 + 10 * at) for at in range(100)
    ]
    assert found.self_ps == (2000 - 102 * 6) * US


def shown(*tracks: tuple[int | None, int, int]) -> HostTimeline:
    """A timeline of which only the tracks are known: source, begin and end."""
    table = pl.DataFrame(
        tracks,
        schema={"source": pl.Int32, "begin": pl.Int64, "end": pl.Int64},
        orient="row",
    )
    events: Any = None
    timeline: Any = type("Rows", (), {"tracks": table})
    return HostTimeline(events, timeline, (), np.empty(0, np.uint8))


def test_the_track_of_an_event_is_that_whose_rows_it_is_among() -> None:
    found = shown((3, 30, 40), (None, 0, 90), (1, 10, 20), (2, 20, 20), (0, 5, 8))
    events = np.array([-1, 0, 4, 5, 7, 8, 9, 10, 19, 20, 29, 30, 39, 40, 100])
    assert found.track_of_events(events).tolist() == [
        *([-1] * 3 + [4, 4, -1, -1, 2, 2]),
        *([-1, -1, 0, 0, -1, -1]),
    ]
    empty = shown((None, 0, 90), (0, 5, 5))
    assert empty.track_of_events(np.array([5, 6])).tolist() == [-1, -1]
    assert found.track_of_events(np.empty(0, np.int64)).tolist() == []
