"""Events lie track by track, by start, the longer of two first."""

from __future__ import annotations

import polars as pl

from stepscope.formats.nsight_systems.decoded.event_order import build_timeline
from stepscope.formats.nsight_systems.decoded.events import EVENT_COLUMNS, Names, Origin

PROCESS = 7


def part(*rows: tuple[int, int, int]) -> pl.DataFrame:
    """Events of threads: start, duration, thread."""
    found = [(start, dur, PROCESS, None, thread, 0, 0) for start, dur, thread in rows]
    return pl.DataFrame(found, schema=dict(EVENT_COLUMNS), orient="row")


def in_order(
    calls: pl.DataFrame, ranges: pl.DataFrame
) -> list[tuple[int, int, int, int]]:
    names = Names({})
    names.number("one")
    # The order of the parts does not matter.
    parts = {Origin.CALL: calls, Origin.RANGE: ranges}
    found = build_timeline(parts, names, main=PROCESS)
    origin = {
        row: (sort.value, place)
        for sort, (places, rows) in found.rows.items()
        for place, row in zip(places.tolist(), rows.tolist(), strict=True)
    }
    events = found.events.select("track", pl.col("start_ps", "dur_ps") // 1_000)
    assert sorted(origin) == list(range(events.height))
    return [
        (thread, start, dur, origin[row][0])
        for row, (thread, start, dur) in enumerate(events.iter_rows())
    ]


def test_what_lies_apart_is_merged_track_by_track() -> None:
    calls, ranges = part((1, 2, 1), (2, 2, 2), (6, 1, 1)), part((0, 9, 1), (3, 1, 2))
    assert in_order(calls, ranges) == [
        (0, 0, 9, 0),
        (0, 1, 2, 1),
        (0, 6, 1, 1),
        (1, 2, 2, 1),
        (1, 3, 1, 0),
    ]


def test_of_two_that_begin_together_the_longer_holds_the_other() -> None:
    # The inner range comes first in its table, and a call outlasts another range.
    calls, ranges = part((4, 8, 1)), part((0, 1, 1), (0, 3, 1), (4, 2, 1))
    assert in_order(calls, ranges) == [
        (0, 0, 3, 0),
        (0, 0, 1, 0),
        (0, 4, 8, 1),
        (0, 4, 2, 0),
    ]


def test_a_range_holds_a_call_of_the_same_times() -> None:
    assert in_order(part((0, 5, 1)), part((0, 5, 1))) == [(0, 0, 5, 0), (0, 0, 5, 1)]
