"""Memory by the totals that a device's allocator and that of the CPU report.

Truth is a replay of the events by the standard library, with a dictionary.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from tests.support.traces import blueprint
from tests.support.traces.kineto import by_json
from tests.support.traces.memory import result_of

import stepscope as ss
from stepscope.trace.tables import ALLOCATIONS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from stepscope.analysis.memory_profile import MemoryProfileResult

    Shared = Callable[[str], Path]

#: Device Type → what its memories are called.
KINDS = {0: "cpu", 1: "cuda", 6: "hip"}
ITEMS = (
    "kineto/hta_df_index_resolver",
    "kineto/tracelens_qwen1.5_0.5b_h100",
    "kineto/tracelens_qwen1.5_0.5b_mi300",
    "torch_cpu/no_schedule",
)


def events_of(path: Path) -> dict[str, list[dict[str, Any]]]:
    """Memory → the arguments of its events in order of time."""
    found: dict[str, list[dict[str, Any]]] = {}
    events = [it for it in by_json(path) if it.get("name") == "[memory]"]
    for event in sorted(events, key=lambda it: it["ts"]):
        args = event["args"]
        kind, number = KINDS[args["Device Type"]], args["Device Id"]
        name = kind if kind == "cpu" else f"{kind}:{number}"
        found.setdefault(name, []).append(args)
    return found


@pytest.mark.slow(seconds=0.6)
@pytest.mark.parametrize("item", ITEMS)
def test_counts_and_levels_are_those_of_the_events(
    item: str, shared_profile: Shared
) -> None:
    folder = shared_profile(item)
    (path,) = folder.glob("*.json.gz")
    profile = ss.open(folder)
    result: MemoryProfileResult = profile.tool("memory_profile", points=None)
    truth = events_of(path)
    assert set(result.memories) == set(truth)
    for name, memory in result.memories.items():
        events = truth[name]
        assert memory.allocations == sum(it["Bytes"] > 0 for it in events)
        assert memory.deallocations == sum(it["Bytes"] < 0 for it in events)
        alive: dict[int, int] = {}
        unmatched = 0
        for it in events:
            if it["Bytes"] > 0:
                alive[it["Addr"]] = it["Bytes"]
            elif alive.pop(it["Addr"], None) is None:
                unmatched += 1
        assert memory.unmatched_deallocations == unmatched
        rows = memory.timeline
        assert rows["allocation_bytes"].to_list() == [it["Bytes"] for it in events]
        known = [it["Total Allocated"] for it in events if it["Total Allocated"] > 0]
        assert memory.peak is not None
        assert memory.peak.heap_bytes == max(known)
        assert memory.peak.stack_bytes is None
        if name == "cpu":
            assert memory.level == "recorded_since_start"
            assert memory.capacity_bytes is None
            continue
        assert memory.level == "recorded"
        held = rows["heap_bytes"] + rows["free_bytes"]
        assert held.to_list() == [it["Total Reserved"] for it in events]
        assert memory.breakdown["allocation_bytes"].sum() == max(known)


@pytest.mark.parametrize(
    ("item", "memory", "size"),
    [
        (ITEMS[0], "cuda:1", 34_089_730_048),
        (ITEMS[1], "cuda:0", 85_018_279_936),
        (ITEMS[2], "hip:0", 205_571_227_648),
    ],
)
def test_the_capacity_is_that_of_the_device(
    item: str, memory: str, size: int, shared_profile: Shared
) -> None:
    result = ss.open(shared_profile(item)).tool("memory_profile")
    found = result.memories[memory]
    assert found.capacity_bytes == size
    (row,) = result.rows.filter(memory_id=memory).iter_rows(named=True)
    assert row["peak_capacity_percent"] == pytest.approx(
        100 * found.peak.memory_in_use_bytes / size
    )


def literal(*rows: dict[str, Any]) -> MemoryProfileResult:
    filled = [
        {"event": at, "start_ps": at * 1_000_000, "allocator": "pool", **row}
        for at, row in enumerate(rows)
    ]
    table = pl.DataFrame(filled, schema=ALLOCATIONS.dtypes())
    trace = blueprint.substitute(blueprint.a2(), allocations=table)
    return result_of(blueprint.profile(trace))


def take(size: int, heap: int, **more: Any) -> dict[str, Any]:
    given = {"address": size, "allocated_bytes": size, "heap_bytes": heap}
    return {"kind": "allocate", **given, **more}


def test_nearly_full_is_said_of_a_device_whose_size_is_known() -> None:
    result = literal(
        take(500, 600, free_bytes=100, capacity_bytes=1000),
        take(380, 980, free_bytes=10, capacity_bytes=1000),
    )
    memory = result.memories["pool"]
    assert memory.capacity_bytes == 1000
    assert [(it.kind, it.severity, it.value) for it in memory.warnings] == [
        ("near_capacity", "critical", 0.98)
    ]
    assert result.rows["peak_capacity_percent"].to_list() == [98.0]


def before_of(result: MemoryProfileResult) -> int | None:
    rows = result.memories["pool"].breakdown
    (size,) = rows.filter(op_name="allocated before the profile started")[
        "allocation_bytes"
    ]
    found: int | None = size
    return found


def test_older_blocks_that_nobody_counts_are_missing_not_nothing() -> None:
    result = literal(take(500, 500, older_counted=False))
    assert before_of(result) is None
    lacks = {lack.field for lack in result.missing}
    assert "memories.pool.breakdown.allocation_bytes" in lacks
    assert "memory_use_since_start" in {note.kind for note in result.quality}
    # What is more than what was seen is there all the same.
    assert before_of(literal(take(500, 700, older_counted=False))) == 200


def test_older_blocks_that_are_counted_may_be_none() -> None:
    for said in (True, None):
        result = literal(take(500, 500, older_counted=said))
        assert before_of(result) == 0
        assert result.memories["pool"].level == "recorded"
        assert not result.quality


def test_what_no_event_tells_at_all_is_not_sought_in_the_timeline() -> None:
    result = literal(take(500, 500))
    reasons = {lack.field: lack.reason for lack in result.missing}
    for field in ("rows.peak_fragmentation", "memories.pool.peak.fragmentation"):
        assert reasons[field].startswith("the allocator does not report it")
    told = literal(take(500, 500), take(10, 10, fragmentation=0.5, free_bytes=4))
    reasons = {lack.field: lack.reason for lack in told.missing}
    assert reasons["rows.peak_fragmentation"].startswith("The event at the peak")
