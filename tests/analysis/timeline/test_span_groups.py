"""Spans in groups, against the list of spans."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.traces import blueprint

from stepscope.analysis.timeline.selection import SpansInView, spans_in_view
from stepscope.analysis.timeline.span_groups import (
    GROUP_COLUMNS,
    GroupedBy,
    SpanGroups,
    span_groups,
)
from stepscope.errors import BadUsage

if TYPE_CHECKING:
    from stepscope.derive.profile_data import ProfileData

US = 1_000_000
LINES: list[blueprint.Line] = [
    ("main", "outer", 0, 100),
    ("main", "inner", 20, 30),
    ("main", "inner", 60, 10),
    ("main", "MemoryAllocation", 70, 0),
    ("worker", "inner", 90, 40),
]


def recorded() -> ProfileData:
    return blueprint.profile(blueprint.trace(LINES))


def grouped(
    by: GroupedBy, begin_us: int = 0, end_us: int = 200, text: str | None = None
) -> list[tuple[object, ...]]:
    found = span_groups(
        recorded(),
        "vm",
        begin_ps=begin_us * US,
        end_ps=end_us * US,
        tracks=(),
        by=by,
        all_rows=False,
        text=text,
    )
    assert isinstance(found, SpanGroups)
    assert found.groups.schema == GROUP_COLUMNS
    assert found.spans == found.groups["count"].sum()
    assert found.total == found.groups.height
    times = ("time_ps", "shortest_ps", "mean_ps", "longest_ps")
    return [
        (row["group"], row["count"], *(row[name] / US for name in times))
        for row in found.groups.iter_rows(named=True)
    ]


def test_groups_by_name_and_by_track() -> None:
    assert grouped("name") == [
        ("outer", 1, 100, 100, 100, 100),
        ("inner", 3, 80, 10, 80 / 3, 40),
    ]
    assert grouped("track") == [
        ("main", 3, 140, 10, 140 / 3, 100),
        ("worker", 1, 40, 40, 40, 40),
    ]
    assert sum(int(str(row[1])) for row in grouped("category")) == 4


def test_of_a_span_across_the_edge_the_part_inside_is_summed() -> None:
    assert grouped("name", 95, 100) == [
        ("inner", 1, 5, 40, 40, 40),
        ("outer", 1, 5, 100, 100, 100),
    ]


def test_the_longest_of_a_group_can_be_opened() -> None:
    profile = recorded()
    area = {"begin_ps": 0, "end_ps": 200 * US, "tracks": (), "all_rows": False}
    groups = span_groups(profile, "vm", by="name", **area)
    spans = spans_in_view(profile, "vm", offset=0, limit=99, **area)
    assert isinstance(groups, SpanGroups)
    assert isinstance(spans, SpansInView)
    places = {
        row[:2]: row[2:]
        for row in spans.events.select("track", "item", "name", "dur_ps").rows()
    }
    for name, longest, track, item in groups.groups.select(
        "group", "longest_ps", "track", "item"
    ).rows():
        assert places[track, item] == (name, longest)


def test_a_text_leaves_the_other_names_out_of_lists_and_groups() -> None:
    assert grouped("name", text="INN") == [("inner", 3, 80, 10, 80 / 3, 40)]
    assert grouped("track", text="/^out/") == [("main", 1, 100, 100, 100, 100)]
    listed = spans_in_view(
        recorded(),
        "vm",
        begin_ps=0,
        end_ps=200 * US,
        tracks=(),
        offset=0,
        limit=99,
        all_rows=False,
        text="inner",
    )
    assert isinstance(listed, SpansInView)
    assert listed.events["name"].to_list() == ["inner"] * 3
    with pytest.raises(BadUsage, match="empty"):
        grouped("name", text="")
