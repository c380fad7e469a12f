"""Memories against a plain replay: a dictionary of blocks, event by event."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from tests.support.traces import blueprint
from tests.support.traces.memory import result_of

from stepscope.analysis.memory_profile.rows import BEFORE, LOST, STACK
from stepscope.trace.tables import ALLOCATIONS

if TYPE_CHECKING:
    from stepscope.analysis.memory_profile import MemoryProfileResult

US = 1_000_000
Row = dict[str, Any]
#: Begin and end of the steps, in µs; the last one ends with its marker.
STEPS = ((20, 50), (50, 90), (90, 115))
OPS = ("conv", "relu", None)


def drawn_events(seed: int, *, with_heap: bool) -> list[Row]:
    """Events of two allocators; some blocks are older, some ends are lost."""
    chance = random.Random(seed)  # noqa: S311 - no secret
    heap = dict.fromkeys(("pool", "other"), 1000)
    live: dict[tuple[str, int], int] = {}
    rows = []
    for number in range(40):
        name = chance.choice(["pool", "pool", "other"])
        address, size = chance.randint(1, 8), 10 * chance.randint(1, 5)
        block = live.get((name, address))
        row: Row = {
            "event": number,
            "start_ps": (3 * number + chance.randint(0, 2)) * US,
            "allocator": name,
            "address": address,
        }
        if block is not None and chance.random() < 0.8:
            row |= {"kind": "deallocate", "allocated_bytes": block}
            heap[name] -= live.pop((name, address))
        elif chance.random() < 0.15:
            row |= {"kind": "deallocate", "allocated_bytes": size}
            heap[name] -= size
        else:
            row |= {"kind": "allocate", "allocated_bytes": size}
            row |= {"requested_bytes": size - 3, "op": chance.choice(OPS)}
            live[name, address] = size
            heap[name] += size
        if with_heap and chance.random() < 0.9:
            row |= {"heap_bytes": heap[name], "stack_bytes": chance.choice([0, 7])}
            row |= {"free_bytes": 3000 - heap[name], "fragmentation": 0.25}
            row |= {"peak_bytes": 1500 + number}
        rows.append(row)
    return rows


def result_of_events(rows: list[Row], **options: Any) -> MemoryProfileResult:
    lines = [
        ("main", "train", begin, 25, {"_r": 1, "step_num": number})
        for number, (begin, _) in enumerate(STEPS)
    ]
    table = pl.DataFrame(rows, schema=ALLOCATIONS.dtypes())
    trace = blueprint.substitute(blueprint.trace(lines), allocations=table)
    return result_of(blueprint.profile(trace), **options)


class Replay:
    """One allocator's events, with the blocks and the use after each of them."""

    def __init__(self, rows: list[Row], name: str, *, with_heap: bool) -> None:
        self.rows = [row for row in rows if row["allocator"] == name]
        self.unmatched, self.reused, older, level = 0, 0, 0, 0
        live: dict[int, Row] = {}
        last: dict[int, str] = {}
        self.live: list[list[Row]] = []
        self.blocks: list[Row | None] = []
        levels = []
        for row in self.rows:
            address, block = row["address"], live.get(row["address"])
            if row["kind"] == "allocate":
                self.reused += block is not None
                level += row["allocated_bytes"]
                level -= block["allocated_bytes"] if block else 0
                live[address] = row
                self.blocks.append(row)
            else:
                self.unmatched += block is None
                size = (block or row)["allocated_bytes"]
                older += size if block is None else 0
                level -= size
                live.pop(address, None)
                self.blocks.append(block)
            last[address] = row["kind"]
            self.live.append(list(live.values()))
            levels.append(level)
        self.heap: list[int | None] = [older + each for each in levels]
        self.stack = [0] * len(levels)
        if with_heap:
            self.heap = [row.get("heap_bytes") for row in self.rows]
            self.stack = [row.get("stack_bytes", 0) for row in self.rows]

    def use(self, place: int) -> int | None:
        """Heap and stack after an event; before the first one by its size."""
        heap = self.heap[max(place, 0)]
        if heap is None:
            return None
        if place < 0:
            size = self.rows[0]["allocated_bytes"]
            heap += size if self.rows[0]["kind"] == "deallocate" else -size
        return heap + self.stack[max(place, 0)]

    def last_before(self, time_us: float, *, inclusive: bool) -> int:
        times = [row["start_ps"] / US for row in self.rows]
        return (
            sum(time <= time_us if inclusive else time < time_us for time in times) - 1
        )


CASES = [(seed, heap) for seed in range(2) for heap in (True, False)]


@pytest.mark.parametrize(("seed", "with_heap"), CASES)
def test_counts_peaks_and_timelines_are_those_of_the_events(
    seed: int, *, with_heap: bool
) -> None:
    rows = drawn_events(seed, with_heap=with_heap)
    result = result_of_events(rows, points=None)
    uses = {}
    for name, memory in result.memories.items():
        replay = Replay(rows, name, with_heap=with_heap)
        kinds = [row["kind"] for row in replay.rows]
        assert memory.allocations == kinds.count("allocate")
        assert memory.deallocations == kinds.count("deallocate")
        assert memory.unmatched_deallocations == replay.unmatched
        assert memory.address_reuse == replay.reused
        assert memory.level == ("recorded" if with_heap else "replayed")
        use = [replay.use(place) for place in range(len(kinds))]
        uses[name] = max(one for one in use if one is not None)
        timeline = memory.timeline
        assert timeline["memory_in_use_bytes"].to_list() == use
        assert timeline["heap_bytes"].to_list() == replay.heap
        signs = {"allocate": 1, "deallocate": -1}
        assert timeline["allocation_bytes"].to_list() == [
            signs[row["kind"]] * row["allocated_bytes"] for row in replay.rows
        ]
        assert timeline["op_name"].to_list() == [
            block and block["op"] for block in replay.blocks
        ]
        assert timeline["requested_bytes"].to_list() == [
            block and signs[row["kind"]] * block["requested_bytes"]
            for row, block in zip(replay.rows, replay.blocks, strict=True)
        ]
        assert memory.peak is not None
        last = len(use) - 1 - use[::-1].index(uses[name])
        assert memory.peak.memory_in_use_bytes == uses[name]
        assert memory.peak.time_ms == replay.rows[last]["start_ps"] / 1e9
        assert memory.peak.heap_bytes == replay.heap[last]
        sums = [
            row["stack_bytes"] + row["heap_bytes"] + row["free_bytes"]
            for row in replay.rows
            if "heap_bytes" in row
        ]
        assert memory.capacity_bytes == max(sums, default=None)
        peaks = [row["peak_bytes"] for row in replay.rows if "peak_bytes" in row]
        assert memory.peak_heap_lifetime_bytes == max(peaks, default=None)
        begins = [begin for begin, _ in STEPS]
        assert timeline["step_id"].to_list() == [
            sum(begin * US <= row["start_ps"] for begin in begins) - 1
            if begins[0] * US <= row["start_ps"] < STEPS[-1][1] * US
            else None
            for row in replay.rows
        ]
    assert list(result.memories) == sorted(uses, key=lambda name: (-uses[name], name))
    assert result.rows["peak_bytes"].to_list() == sorted(uses.values(), reverse=True)


@pytest.mark.parametrize(("seed", "with_heap"), CASES)
def test_the_breakdown_at_any_instant_is_what_lives_then(
    seed: int, *, with_heap: bool
) -> None:
    rows = drawn_events(seed, with_heap=with_heap)
    for at_us in (0, 1, 61, 150):
        result = result_of_events(rows, at_ms=at_us / 1000)
        for name, memory in result.memories.items():
            replay = Replay(rows, name, with_heap=with_heap)
            place = replay.last_before(at_us, inclusive=True)
            live = replay.live[place] if place >= 0 else []
            grouped: dict[tuple[str | None, int], int] = {}
            for block in live:
                key = block["op"], block["allocated_bytes"]
                grouped[key] = grouped.get(key, 0) + 1
            expected = [
                (op, size * count, count) for (op, size), count in grouped.items()
            ]
            use = replay.use(place)
            held = sum(size for _, size, _ in expected)
            stack = replay.stack[max(place, 0)] if use is not None else 0
            rest = None if use is None else use - stack - held
            named = LOST if rest is not None and rest < 0 else BEFORE
            expected.append((named, rest, None))  # type: ignore[arg-type]
            if stack:
                expected.append((STACK, stack, None))  # type: ignore[arg-type]
            found = memory.breakdown.select(
                "op_name", "allocation_bytes", "occurrences"
            ).rows()
            assert sorted(found, key=str) == sorted(expected, key=str)
            sizes = [-(10**9) if size is None else size for _, size, _ in found]
            assert sizes == sorted(sizes, reverse=True)
            assert memory.breakdown_time_ms == at_us / 1000


@pytest.mark.parametrize(("seed", "with_heap"), CASES)
def test_a_step_begins_and_ends_with_what_was_in_use(
    seed: int, *, with_heap: bool
) -> None:
    rows = drawn_events(seed, with_heap=with_heap)
    for name, memory in result_of_events(rows).memories.items():
        replay = Replay(rows, name, with_heap=with_heap)
        expected = []
        growths = []
        for number, (begin, end) in enumerate(STEPS):
            first = replay.last_before(begin, inclusive=False)
            last = replay.last_before(end, inclusive=False)
            uses = [replay.use(place) for place in range(first, last + 1)]
            known = [use for use in uses if use is not None]
            both = uses[0], uses[-1]
            growth = None if None in both else uses[-1] - uses[0]  # type: ignore[operator]
            if growth is not None and number < len(STEPS) - 1:
                growths.append(growth)
            expected.append(
                (
                    *(number, begin / 1000, end / 1000, number == len(STEPS) - 1),
                    *(*both, growth),
                    *(min(known, default=None), max(known, default=None)),
                )
            )
        times = (pl.col(name).round(6) for name in ("start_ms", "end_ms"))
        levels = ("start", "end", "growth", "min", "max")
        columns = [f"{level}_bytes" for level in levels]
        found = memory.steps.select("step_id", *times, "open_end", *columns)
        assert found.rows() == expected
        mean = sum(growths) / len(growths) if growths else None
        assert memory.growth_bytes_per_step.mean == mean


@pytest.mark.parametrize("points", [3, 5, 9, 12])
def test_few_points_keep_the_extremes_of_equal_spans_of_time(points: int) -> None:
    for seed in range(2):
        rows = drawn_events(seed, with_heap=True)
        whole = result_of_events(rows, points=None).memories
        for name, memory in result_of_events(rows, points=points).memories.items():
            every = whole[name].timeline.rows(named=True)
            replay = Replay(rows, name, with_heap=True)
            spans = (points - 1) // 2
            begin = replay.rows[0]["start_ps"]
            length = replay.rows[-1]["start_ps"] - begin + 1
            parts: dict[int, list[int]] = {}
            for place, row in enumerate(replay.rows):
                edges = [begin + length * span // spans for span in range(spans)]
                part = sum(edge <= row["start_ps"] for edge in edges)
                parts.setdefault(part, []).append(place)
            kept = set()
            use = [replay.use(place) for place in range(len(every))]
            for places in parts.values():
                known = [place for place in places if use[place] is not None]
                for best in (min, max):
                    if known:
                        extreme = best(use[place] for place in known)  # type: ignore[type-var]
                        kept.add(next(p for p in known if use[p] == extreme))
                    else:
                        kept.add(places[0])
            peak = max(one for one in use if one is not None)
            kept.add(len(use) - 1 - use[::-1].index(peak))
            assert memory.timeline.rows(named=True) == [
                every[place] for place in sorted(kept)
            ]


def test_lines_of_the_program_hold_their_blocks() -> None:
    def block(number: int, size: int | None, source: str | None, stack: int) -> Row:
        return {
            "event": number,
            "start_ps": number * US,
            "allocator": "pool",
            "kind": "allocate",
            "address": number,
            "allocated_bytes": size,
            "heap_bytes": 1000,
            "source": source,
            "stack": stack,
            "blocks": 3 if number == 5 else None,
        }

    rows = [
        block(1, 100, "a.py:1", 0),
        block(2, 30, "a.py:1", 1),
        block(3, 90, "a.py:1", 1),
        block(4, 220, "b.py:2", 0),
        block(5, 220, "a.py:9", 1),
        block(6, 5, None, 0),
    ]
    (memory,) = result_of_events(rows, at_ms=1.0).memories.values()
    columns = ("source", "allocation_bytes", "occurrences", "stacks", "share_percent")
    # Of 1,000 bytes in use; equal ones by name. Of stack 1 line 1 has 120, of 0 100.
    assert memory.lines.select(columns).rows() == [
        ("a.py:1", 220, 3, 2, 22.0),
        ("a.py:9", 220, 3, 1, 22.0),
        ("b.py:2", 220, 1, 1, 22.0),
        (None, 5, 1, 1, 0.5),
    ]
    stacks = memory.lines["stack"].to_list()
    assert stacks[0] == stacks[1] != stacks[2]
