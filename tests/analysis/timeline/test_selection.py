"""Spans and sums of an area, worked out by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.traces import blueprint

from stepscope.analysis.timeline.catalogue import TrackCatalogue, track_catalogue
from stepscope.analysis.timeline.selection import (
    MAX_NAMES,
    SpansInView,
    WindowTotals,
    spans_in_view,
    window_totals,
)
from stepscope.errors import BadUsage
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.derive.profile_data import ProfileData

US = 1_000_000
ABSENT = Unavailable(code="CORRUPT", reason="It is damaged.", remedy="Copy it again.")
STREAM = "gpu:0/7(Compute)"
LINES: list[blueprint.Line] = [
    ("main", "outer", 0, 100),
    ("main", "inner", 20, 30),
    ("main", "instant", 60, 0),
    ("main", "MemoryAllocation", 70, 0),
    ("main", "later", 200, 10),
    (STREAM, "kernel", 40, 40, {"tf_op": "model/dense/MatMul:MatMul"}),
    (STREAM, "kernel", 90, 10, {"tf_op": "model/dense/MatMul:MatMul"}),
    (STREAM, "other", 100, 10),
]


def recorded(lines: list[blueprint.Line] = LINES) -> ProfileData:
    return blueprint.profile(blueprint.trace(lines))


def track_of(profile: ProfileData, name: str) -> int:
    about = track_catalogue(profile, "vm")
    assert isinstance(about, TrackCatalogue)
    return about.tracks["name"].to_list().index(name)


def listed(
    profile: ProfileData,
    begin_us: int,
    end_us: int,
    *,
    track: str = "main",
    all_rows: bool = True,
) -> list[str]:
    found = spans_in_view(
        profile,
        "vm",
        begin_ps=begin_us * US,
        end_ps=end_us * US,
        tracks=[track_of(profile, track)],
        offset=0,
        limit=100,
        all_rows=all_rows,
    )
    assert isinstance(found, SpansInView)
    assert found.total == found.events.height
    return found.events["name"].to_list()


def test_an_area_has_what_begins_in_it_or_runs_into_it() -> None:
    profile = recorded()
    assert listed(profile, 0, 300) == [
        *("outer", "inner", "instant", "MemoryAllocation", "later"),
    ]
    assert listed(profile, 20, 60) == ["outer", "inner"]
    # Ends do not belong to a span, begins do; so do those of an area.
    assert listed(profile, 50, 60) == ["outer"]
    assert listed(profile, 60, 61) == ["outer", "instant"]
    assert listed(profile, 100, 200) == []
    assert listed(profile, 200, 201) == ["later"]


def test_hidden_events_are_listed_on_request() -> None:
    drawn = listed(recorded(), 0, 300, all_rows=False)
    assert drawn == ["outer", "inner", "instant", "later"]


def test_pages_follow_each_other_by_start_over_all_tracks() -> None:
    profile = recorded()

    def page(offset: int, limit: int) -> list[tuple[str, int]]:
        found = spans_in_view(
            profile,
            "vm",
            begin_ps=0,
            end_ps=300 * US,
            tracks=[track_of(profile, name) for name in ("main", "Stream #7(Compute)")],
            offset=offset,
            limit=limit,
            all_rows=True,
        )
        assert isinstance(found, SpansInView)
        assert found.total == 8
        return found.events.select("name", "start_ps").rows()

    whole = page(0, 100)
    assert [(name, start // US) for name, start in whole] == [
        ("outer", 0),
        ("inner", 20),
        ("kernel", 40),
        ("instant", 60),
        ("MemoryAllocation", 70),
        ("kernel", 90),
        ("other", 100),
        ("later", 200),
    ]
    assert [one for at in range(0, 9, 3) for one in page(at, 3)] == whole
    assert page(8, 5) == page(3, 0) == []


def test_a_page_has_no_negative_place() -> None:
    for offset, limit in ((-1, 1), (0, -1)):
        with pytest.raises(BadUsage, match="not be negative"):
            spans_in_view(
                recorded(),
                "vm",
                begin_ps=0,
                end_ps=1,
                tracks=[],
                offset=offset,
                limit=limit,
                all_rows=True,
            )


def totals(
    profile: ProfileData, begin_us: int, end_us: int, *tracks: str
) -> WindowTotals:
    found = window_totals(
        profile,
        "vm",
        begin_ps=begin_us * US,
        end_ps=end_us * US,
        tracks=[track_of(profile, track) for track in tracks],
    )
    assert isinstance(found, WindowTotals)
    return found


def test_of_a_span_the_part_inside_counts() -> None:
    found = totals(recorded(), 30, 95)
    assert found.kernels.rows() == [("kernel", 2, 45 * US)]
    assert found.ops.rows() == [("model/dense/MatMul", 2, 45 * US)]
    names = dict(found.names.select("name", "time_ps").iter_rows())
    assert (names["outer"], names["inner"], names["instant"]) == (65 * US, 20 * US, 0)


def test_an_op_on_the_host_and_on_the_device_are_sums_apart() -> None:
    stats = {"correlation_id": 1, "tf_op": "a/MatMul:MatMul"}
    lines: list[blueprint.Line] = [
        ("main", "a/MatMul:MatMul", 0, 200),
        ("gpu:0/7(Compute)", "gemm", 300, 10, stats),
    ]
    found = totals(recorded(lines), 0, 1000)
    assert found.ops.rows() == [("a/MatMul", 1, 10 * US)]
    assert found.host_ops.rows() == [("a/MatMul", 1, 200 * US)]


def test_only_the_tracks_that_are_named_count() -> None:
    found = totals(recorded(), 0, 300, "main")
    assert (found.spans, found.kernels.height, found.ops.height) == (5, 0, 0)
    stream = totals(recorded(), 0, 300, "Stream #7(Compute)")
    assert stream.spans == 3
    assert stream.kernels.rows() == [
        ("kernel", 2, 50 * US),
        ("other", 1, 10 * US),
    ]


def test_the_owners_add_up_to_the_part_that_the_account_covers() -> None:
    # Without steps the account covers all from the first event to the last one's end.
    found = totals(recorded(), -1000, 1000)
    assert found.account_ps == 210 * US
    owned = {
        owner: time
        for _, owner, _, time in found.owners.iter_rows()
        if time is not None
    }
    assert sum(owned.values()) == 210 * US
    assert owned["compute_unknown"] == 60 * US
    assert totals(recorded(), 5000, 6000).account_ps == 0


def test_what_is_beyond_the_longest_list_is_one_row() -> None:
    lines: list[blueprint.Line] = [
        ("main", f"n{at}", 10 * at, 1 + at % 5) for at in range(MAX_NAMES + 7)
    ]
    found = totals(recorded(lines), 0, 10_000, "main").names
    assert found.height == MAX_NAMES + 1
    assert found["name"].null_count() == 1
    assert found["name"][-1] is None
    assert found["count"].sum() == MAX_NAMES + 7
    assert found["time_ps"].sum() == sum(1 + at % 5 for at in range(MAX_NAMES + 7)) * US


def test_without_events_there_is_nothing_to_add_up() -> None:
    profile = recorded().without("events", ABSENT)
    found = window_totals(profile, "vm", begin_ps=0, end_ps=1)
    assert found == ABSENT
