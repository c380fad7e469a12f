"""The replay of allocator events against a slow one with a dictionary per memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from stepscope.analysis.memory_profile.rows import (
    MemoryView,
    breakdown_rows,
    drawn_indexes,
    step_rows,
    timeline_rows,
)
from stepscope.derive.memory.replay import (
    STEP_INTERVALS,
    AllocationSteps,
    memory_replay,
)
from stepscope.trace.tables import ALLOCATIONS

Row = dict[str, Any]

EVENTS = st.lists(
    st.fixed_dictionaries(
        {
            "allocator": st.sampled_from(("gpu", "host")),
            "kind": st.sampled_from(("allocate", "deallocate")),
            "address": st.sampled_from((None, 1, 2, 3, 2**64 - 1)),
            "allocated_bytes": st.sampled_from((None, 0, 1, 8, 64)),
            "heap_bytes": st.one_of(st.none(), st.integers(0, 300)),
            "stack_bytes": st.sampled_from((None, 0, 5)),
            "gap": st.integers(0, 2),
        }
    ),
    min_size=1,
    max_size=40,
)
#: Events that leave out nothing but, as a whole, the memory in use.
SIZED = st.lists(
    st.fixed_dictionaries(
        {
            "allocator": st.just("pool"),
            "kind": st.sampled_from(("allocate", "deallocate")),
            "address": st.integers(1, 4),
            "allocated_bytes": st.integers(0, 50),
            "gap": st.just(1),
        }
    ),
    min_size=1,
    max_size=40,
)


@dataclass
class Slow:
    """One memory, event by event."""

    alive: dict[int, int] = field(default_factory=dict)
    unmatched: int = 0
    reused: int = 0
    older: int = 0

    def take(self, at: int, row: Row) -> int | None:
        """The row whose block an event makes or ends."""
        if row["kind"] == "allocate":
            if row["address"] is not None:
                self.reused += row["address"] in self.alive
                self.alive[row["address"]] = at
            return at
        block = self.alive.pop(row["address"], None)
        self.unmatched += block is None
        if block is None:
            self.older += row["allocated_bytes"] or 0
        return block


def frame(rows: list[Row]) -> pl.DataFrame:
    times = np.cumsum([row["gap"] for row in rows])
    filled = [
        {**row, "event": at, "start_ps": int(time)}
        for at, (row, time) in enumerate(zip(rows, times, strict=True))
    ]
    return pl.DataFrame(filled, schema=ALLOCATIONS.dtypes())


def views(rows: list[Row], intervals: pl.DataFrame | None = None) -> list[MemoryView]:
    table = frame(rows)
    steps = AllocationSteps(
        pl.Series("step", [None] * len(rows), pl.Int64),
        pl.DataFrame(schema=STEP_INTERVALS) if intervals is None else intervals,
        None,
    )
    replay = memory_replay(allocations=table)
    return [MemoryView(table, replay, memory, steps, ()) for memory in replay.memories]


@given(EVENTS)
def test_matches_are_those_of_a_dictionary(rows: list[Row]) -> None:
    slow = {row["allocator"]: Slow() for row in rows}
    source = [slow[row["allocator"]].take(at, row) for at, row in enumerate(rows)]
    replay = memory_replay(allocations=frame(rows))
    found = [None if at < 0 else at for at in replay.source.tolist()]
    assert found == source
    assert [memory.name for memory in replay.memories] == list(slow)
    for memory in replay.memories:
        expected = slow[memory.name]
        assert (memory.unmatched, memory.reused) == (
            expected.unmatched,
            expected.reused,
        )


@given(EVENTS)
def test_what_is_alive_is_known_after_every_event(rows: list[Row]) -> None:
    for view in views(rows):
        slow = Slow()
        for place, row in enumerate(view.memory.rows.tolist()):
            slow.take(row, rows[row])
            alive = view.replay.alive_rows(view.memory, place).tolist()
            assert alive == sorted(slow.alive.values())
        assert view.replay.alive_rows(view.memory, -1).tolist() == []


@given(EVENTS)
def test_rows_of_the_breakdown_add_up_to_the_use_after_every_event(
    rows: list[Row],
) -> None:
    for view in views(rows):
        memory = view.memory
        for place in range(len(memory.rows)):
            sizes = breakdown_rows(view, place)["allocation_bytes"]
            if memory.known[place]:
                assert sizes.sum() == memory.in_use_bytes[place]


@given(EVENTS)
def test_the_peak_is_the_last_of_the_greatest_uses(rows: list[Row]) -> None:
    for view in views(rows):
        if view.memory.replayed:
            continue
        own = [rows[at] for at in view.memory.rows.tolist()]
        uses = [
            None
            if row["heap_bytes"] is None
            else row["heap_bytes"] + (row["stack_bytes"] or 0)
            for row in own
        ]
        greatest = max(use for use in uses if use is not None)
        assert view.memory.peak == len(uses) - 1 - uses[::-1].index(greatest)
        shown = timeline_rows(view, np.arange(len(own)))
        assert shown["memory_in_use_bytes"].to_list() == uses


@given(SIZED)
def test_use_that_is_added_up_is_what_is_alive_and_what_was_older(
    rows: list[Row],
) -> None:
    (view,) = views(rows)
    slow, expected = Slow(), []
    for at, row in enumerate(rows):
        slow.take(at, row)
        alive = sum(rows[block]["allocated_bytes"] for block in slow.alive.values())
        expected.append(alive - slow.older)
    assert view.memory.replayed
    level = [use + slow.older for use in expected]
    assert view.memory.heap_bytes.tolist() == level
    assert min(level) >= 0


@given(EVENTS, st.integers(3, 12))
def test_a_shown_timeline_has_few_points_and_every_extreme(
    rows: list[Row], points: int
) -> None:
    for view in views(rows):
        memory = view.memory
        shown = drawn_indexes(view, points)
        assert len(shown) <= points
        assert shown.tolist() == sorted(set(shown.tolist()))
        assert (memory.peak is None) or memory.peak in shown
        known = memory.in_use_bytes[memory.known]
        if len(known):
            kept = memory.in_use_bytes[shown][memory.known[shown]]
            assert (kept.min(), kept.max()) == (known.min(), known.max())
        assert drawn_indexes(view, None).tolist() == list(range(len(memory.rows)))


@given(EVENTS, st.lists(st.integers(0, 90), min_size=2, max_size=6).map(sorted))
def test_steps_say_what_was_in_use_at_their_edges_and_between(
    rows: list[Row], edges: list[int]
) -> None:
    intervals = pl.DataFrame(
        {
            "step": list(range(len(edges) - 1)),
            "name": [f"step {at}" for at in range(len(edges) - 1)],
            "start_ps": edges[:-1],
            "end_ps": edges[1:],
            "open_end": [False] * (len(edges) - 1),
        },
        schema=STEP_INTERVALS,
    )
    for view in views(rows, intervals):
        before, stack = view.use_after(-1)
        uses: list[int | None] = [None if before is None else before + stack]
        shown = timeline_rows(view, np.arange(len(view.memory.rows)))
        uses += shown["memory_in_use_bytes"].to_list()
        times = view.time_ps.tolist()
        for row, (start, end) in zip(
            step_rows(view).iter_rows(named=True),
            pairwise(edges),
            strict=True,
        ):
            first = sum(time < start for time in times)
            last = sum(time < end for time in times)
            assert (row["start_bytes"], row["end_bytes"]) == (uses[first], uses[last])
            known = [use for use in uses[first : last + 1] if use is not None]
            assert row["min_bytes"] == min(known, default=None)
            assert row["max_bytes"] == max(known, default=None)
