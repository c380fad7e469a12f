"""`trace_search`: every span with a name, and the way from one to the next."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.traces import blueprint

from stepscope.analysis.timeline import search as trace_search
from stepscope.analysis.timeline.search import Direction, TextMatches
from stepscope.analysis.timeline.spans import Place
from stepscope.derive.trace_rows.drawn_rows import trace_timeline
from stepscope.errors import BadUsage
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.derive.profile_data import ProfileData

US = 1_000_000
ABSENT = Unavailable(code="CORRUPT", reason="It is damaged.", remedy="Copy it again.")
LINES = [
    ("a", "Sum of all", 0, 10),
    ("a", "sum", 2, 1),
    ("a", "other", 20, 5),
    ("b", "SUM", 2, 4),
    ("b", "MemoryAllocation", 30, 1),
    ("gpu:0/7(Compute)", "sum_kernel", 40, 3),
]


def recorded(lines: list[blueprint.Line] = LINES) -> ProfileData:
    return blueprint.profile(blueprint.trace(lines))


def found(text: str, profile: ProfileData | None = None) -> TextMatches:
    answer = trace_search.count_spans(profile or recorded(), "vm", text)
    assert isinstance(answer, TextMatches)
    return answer


def test_a_text_is_part_of_a_name_in_capitals_or_not() -> None:
    answer = found("sum")
    assert dict(answer.names.iter_rows()) == {
        "SUM": 1,
        "Sum of all": 1,
        "sum": 1,
        "sum_kernel": 1,
    }
    assert answer.count == 4


def test_a_text_between_slashes_is_a_regular_expression_in_its_letters() -> None:
    assert found("/^sum/").names["name"].to_list() == ["sum", "sum_kernel"]
    assert found("/^(?i)sum$/").names["name"].to_list() == ["SUM", "sum"]
    # A single slash, or two, are just a text.
    assert found("/").count == 0
    assert found("//").count == 0


def test_tracks_tell_how_often_and_how_long() -> None:
    profile = recorded()
    names = profile.derived("vm", trace_timeline).tracks["name"]
    rows = {
        names[track].split("/")[0]: (count, total // US)
        for track, count, total in found("sum", profile).tracks.iter_rows()
    }
    assert rows == {"a": (2, 11), "b": (1, 4), "Stream #7(Compute)": (1, 3)}


def test_what_is_not_drawn_is_found_too() -> None:
    assert found("memoryalloc").count == 1


@pytest.mark.parametrize("text", ["", "/(/"])
def test_what_is_no_text_and_no_expression_is_refused(text: str) -> None:
    with pytest.raises(BadUsage):
        trace_search.count_spans(recorded(), "vm", text)
    with pytest.raises(BadUsage):
        trace_search.find_span(recorded(), "vm", text, from_ps=0)


def walk(
    profile: ProfileData, text: str, direction: Direction, *, from_ps: int
) -> list[Place]:
    """Everything that is met on the way, in the order in which it is met."""
    met: list[Place] = []
    after = None
    while True:
        place = trace_search.find_span(
            profile, "vm", text, from_ps=from_ps, after=after, direction=direction
        )
        if place is None:
            return met
        assert isinstance(place, Place)
        met.append(place)
        from_ps, after = place.start_ps, (place.track, place.item)


def test_next_goes_by_start_and_previous_comes_back() -> None:
    profile = recorded()
    forward = walk(profile, "sum", Direction.NEXT, from_ps=0)
    assert [(one.name, one.start_ps // US) for one in forward] == [
        *(("Sum of all", 0), ("sum", 2), ("SUM", 2), ("sum_kernel", 40))
    ]
    assert [one.row for one in forward] == [0, 1, 0, 0]
    back = walk(profile, "sum", Direction.PREVIOUS, from_ps=10**12)
    assert forward == back[::-1]


def test_a_walk_begins_at_its_time() -> None:
    profile = recorded()
    assert [one.name for one in walk(profile, "sum", Direction.NEXT, from_ps=3)] == [
        *("sum", "SUM", "sum_kernel")
    ]
    before = walk(profile, "sum", Direction.PREVIOUS, from_ps=2 * US)
    assert [one.name for one in before] == ["SUM", "sum", "Sum of all"]


EVENT = st.tuples(
    st.sampled_from(["a", "b", "gpu:0/7(Compute)"]),
    st.sampled_from(["x", "xy", "z"]),
    st.integers(0, 20),
    st.integers(0, 9),
)


@pytest.mark.slow(seconds=0.6)
@given(lines=st.lists(EVENT, min_size=1, max_size=15))
def test_a_walk_meets_every_span_that_is_counted_once(
    lines: list[blueprint.Line],
) -> None:
    profile = recorded(lines)
    count = found("x", profile).count
    forward = walk(profile, "x", Direction.NEXT, from_ps=0)
    assert count == len(forward) == len({(one.track, one.item) for one in forward})
    starts = [one.start_ps for one in forward]
    assert starts == sorted(starts)
    back = walk(profile, "x", Direction.PREVIOUS, from_ps=10**9)
    assert forward == back[::-1]
    recorded_count = sum("x" in name for _, name, *_ in lines)
    tracks = profile.derived("vm", trace_timeline).tracks
    of_recorded = tracks["source"].is_not_null()
    assert recorded_count == sum(of_recorded[one.track] for one in forward)


def test_without_a_timeline_there_is_nothing_to_search() -> None:
    profile = recorded().without("events", ABSENT)
    assert trace_search.count_spans(profile, "vm", "x") == ABSENT
    assert trace_search.find_span(profile, "vm", "x", from_ps=0) == ABSENT
