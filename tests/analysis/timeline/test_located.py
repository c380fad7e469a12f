"""`spot_of`: the span at which a range is best seen, worked out by hand."""

from __future__ import annotations

import pytest
from tests.support.traces import blueprint

from stepscope.analysis.timeline.best_span import best_spot
from stepscope.analysis.timeline.details import SpanDetails, details_of_span

US = 1_000_000
STREAM = "gpu:0/7(Compute)"
LINES: list[blueprint.Line] = [
    ("main", "outer", 0, 300),
    ("main", "inner", 10, 50),
    ("loader", "read", 320, 70),
    (STREAM, "short", 100, 10),
    (STREAM, "long", 110, 40),
    (STREAM, "late", 400, 10),
]


@pytest.mark.parametrize(
    ("device", "track", "within", "names", "name"),
    [
        # What fills most of the range; a name that is meant outranks that.
        (0, None, (95, 160), (), "long"),
        (0, None, (95, 160), ("short",), "short"),
        (0, None, (95, 112), (), "short"),
        # What encloses a range fills it; of equal ones the outer is in the row above.
        (None, None, (20, 40), (), "outer"),
        (None, None, (20, 40), ("inner",), "inner"),
        (None, "loader", (0, 500), (), "read"),
        # An idle device: what is meant ran on a thread meanwhile.
        (0, None, (320, 380), ("read",), "read"),
        (0, None, (320, 380), ("nothing of that name",), None),
        (0, None, (320, 380), (), None),
        (0, None, (150, 400), (), None),
        (3, None, (0, 500), (), None),
    ],
)
def test_a_range_is_seen_at_a_span(
    device: int | None,
    track: str | None,
    within: tuple[int, int],
    names: tuple[str, ...],
    name: str | None,
) -> None:
    profile = blueprint.profile(blueprint.trace(LINES))
    begin, end = within
    spot = best_spot(
        profile,
        "vm",
        device=device,
        track=track,
        start_ps=begin * US,
        end_ps=end * US,
        names=names,
    )
    assert (spot.start_ps, spot.dur_ps) == (begin * US, (end - begin) * US)
    if spot.item is None:
        assert name is None
        return
    assert spot.track is not None
    found = details_of_span(profile, "vm", track=spot.track, item=spot.item)
    assert isinstance(found, SpanDetails)
    assert found.name == name
