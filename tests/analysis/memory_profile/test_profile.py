"""`memory_profile` on literal traces, and on ones that lack something."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from tests.support.traces import blueprint
from tests.support.traces.memory import (
    MIB,
    Allocator,
    a3,
    fields_missing,
    memory_of,
    result_of,
)

from stepscope.analysis.memory_profile import MemoryProfileResult, Options, analyse
from stepscope.analysis.memory_profile.memory import MemoryWarning
from stepscope.analysis.memory_profile.rows import BEFORE, LOST, STACK
from stepscope.errors import BadUsage
from stepscope.reporting.plain import plain
from stepscope.trace.tables import ALLOCATIONS, TABLES
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.trace.model import TraceData


GONE = Unavailable(code="CORRUPT", reason="It is gone.", remedy="Copy it again.")


def allocations(rows: list[dict[str, Any]]) -> pl.DataFrame:
    """A literal table; what a row leaves out is null."""
    filled = [
        {"event": at, "start_ps": at * 1_000_000, "allocator": "pool", **row}
        for at, row in enumerate(rows)
    ]
    return pl.DataFrame(filled, schema=ALLOCATIONS.dtypes())


def literal(rows: list[dict[str, Any]]) -> TraceData:
    return blueprint.substitute(blueprint.a2(), allocations=allocations(rows))


def test_summary_counts_all_events_and_finds_the_peak() -> None:
    memory = memory_of(a3())
    assert (memory.allocations, memory.deallocations) == (4, 3)
    assert memory.capacity_bytes == 1000 * MIB
    assert (memory.unmatched_deallocations, memory.address_reuse) == (1, 0)
    assert memory.peak_heap_lifetime_bytes == 620 * MIB
    assert memory.peak is not None
    assert memory.peak.time_ms == 0.030
    assert memory.peak.heap_bytes == memory.peak.memory_in_use_bytes == 650_117_120
    assert (memory.peak.stack_bytes, memory.peak.free_bytes) == (0, 380 * MIB)
    assert (memory.peak.fragmentation, memory.peak.step_id) == (0.25, 1)


def test_the_peak_is_a_share_of_the_capacity_where_that_is_known() -> None:
    result = result_of(blueprint.profile(a3()))
    # 620 of 1000 MiB.
    assert result.rows["peak_capacity_percent"].to_list() == [62.0]
    unknown = result_of(
        blueprint.profile(literal([{"kind": "allocate", "heap_bytes": 10}]))
    )
    assert unknown.rows["peak_bytes"].to_list() == [10]
    assert unknown.rows["peak_capacity_percent"].to_list() == [None]
    assert fields_missing(unknown)["rows.peak_capacity_percent"] == "NOT_RECORDED"


def test_breakdown_names_what_was_alive_and_adds_up_to_the_peak() -> None:
    breakdown = memory_of(a3()).breakdown
    assert breakdown.select(
        "op_name",
        pl.col("allocation_bytes") / MIB,
        "requested_bytes",
        "occurrences",
        "region_type",
        "data_type",
        "tensor_shape",
    ).rows() == [
        (BEFORE, 290, None, None, "persist/dynamic", None, None),
        ("b:MatMul", 200, 200 * MIB - 100, 1, "temp", None, None),
        ("a:Conv", 80, 80 * MIB - 200, 2, "output", "float", "[4]"),
        ("w:Var", 50, 50 * MIB - 100, 1, "dynamic", None, None),
    ]
    assert breakdown["allocation_bytes"].sum() == 650_117_120


def test_rows_of_equal_size_have_one_order() -> None:
    gpu = Allocator("GPU_0_bfc", limit=1000 * MIB)
    for place in range(9):
        size = 2 * MIB if place < 3 else MIB
        gpu.allocate(
            10 + place, 0x1000 + place, size, tf_op="a:Sum", requested_bytes=size
        )
    for _ in range(20):
        memory = memory_of(blueprint.trace(gpu.lines))
        sums = memory.breakdown.filter(pl.col("op_name") == "a:Sum")
        assert sums["occurrences"].to_list() == [3, 6]
        assert sums["allocation_bytes"].to_list() == [6 * MIB, 6 * MIB]


def test_timeline_has_every_hover_field_and_frees_take_theirs_from_the_block() -> None:
    timeline = memory_of(a3()).timeline
    assert timeline["step_id"].to_list() == [0, 1, 1, 1, 1, 1, None]
    assert timeline.row(6, named=True) == {
        "time_ms": 0.050,
        "stack_bytes": 0,
        "heap_bytes": 380 * MIB,
        "tensor_bytes": None,
        "free_bytes": 620 * MIB,
        "reserved_bytes": 1000 * MIB,
        "fragmentation": 0.25,
        "event": "deallocation",
        "requested_bytes": -(40 * MIB - 100),
        "allocation_bytes": -40 * MIB,
        "op_name": "a:Conv",
        "step_id": None,
        "region_type": "output",
        "data_type": "float",
        "tensor_shape": "[4]",
        "source": None,
        "memory_in_use_bytes": 380 * MIB,
    }
    unmatched = timeline.row(3, named=True)
    assert (unmatched["op_name"], unmatched["allocation_bytes"]) == (None, -10 * MIB)


def test_steps_tell_what_stays_behind() -> None:
    memory = memory_of(a3())
    assert memory.steps.select(
        "step_id",
        *(pl.col(f"{name}_bytes") / MIB for name in ("start", "end", "growth")),
        *(pl.col(f"{name}_bytes") / MIB for name in ("min", "max")),
    ).rows() == [(0, 300, 350, 50, 300, 350), (1, 350, 420, 70, 350, 620)]
    assert memory.growth_bytes_per_step.mean == 50 * MIB


def test_stored_groups_are_steps_where_nothing_shows_when_steps_began() -> None:
    lines = [line for line in _lines_of_a3() if line[1] != "train"]
    result = result_of(blueprint.profile(blueprint.trace(lines)))
    memory = result.memories["GPU_0_bfc"]
    assert memory.timeline["step_id"].to_list() == [0, 1, 1, 1, 1, 1, None]
    assert len(memory.steps) == 0
    assert fields_missing(result) == {
        "memories.GPU_0_bfc.steps": "NO_STEPS",
        "memories.GPU_0_bfc.growth_bytes_per_step": "NO_STEPS",
        **{
            f"memories.GPU_0_bfc.{field}": "NOT_RECORDED"
            for field in (
                *("timeline.tensor_bytes", "timeline.source"),
                *("breakdown.source", "lines"),
            )
        },
    }


def _lines_of_a3() -> list[blueprint.Line]:
    gpu = Allocator("GPU_0_bfc", limit=1000 * MIB, in_use=300 * MIB)
    op = {"tf_op": "w:Var", "region_type": "dynamic", "data_type": 9, "shape": "[]"}
    gpu.allocate(10, 1, 50 * MIB, group_id=0, **op)
    for us, address in ((20, 2), (21, 3)):
        gpu.allocate(us, address, 40 * MIB, group_id=1, **op)
    gpu.free(25, 99, 10 * MIB, group_id=1)
    gpu.allocate(30, 4, 200 * MIB, group_id=1, **op)
    gpu.free(40, 4, 200 * MIB, group_id=1)
    gpu.free(50, 2, 40 * MIB)
    return [("main", "train", 5, 40, {"step_num": 0}), *gpu.lines]


def test_events_without_a_group_belong_to_the_host_interval_they_lie_in() -> None:
    gpu = Allocator("pool", limit=100)
    for us in (5, 15, 25, 45):
        gpu.allocate(us, us, 1)
    steps = [("main", "train", b, 10, {"_r": 1, "step_num": b}) for b in (10, 20, 30)]
    memory = memory_of(blueprint.trace([*steps, *gpu.lines]))
    assert memory.timeline["step_id"].to_list() == [None, 10, 20, None]


def test_memories_are_told_apart_even_at_equal_addresses() -> None:
    gpu, host = Allocator("gpu", limit=1000), Allocator("host", limit=500)
    gpu.allocate(1, 7, 300, tf_op="a")
    host.allocate(2, 7, 100, tf_op="b")
    gpu.free(3, 7, 300)
    host.free(4, 7, 100)
    trace = blueprint.trace(
        [line for pair in zip(gpu.lines, host.lines, strict=True) for line in pair]
    )
    result = result_of(blueprint.profile(trace))
    assert list(result.memories) == ["gpu", "host"]
    assert result.rows.select(
        "memory_id", "peak_bytes", "capacity_bytes", "unmatched_deallocations"
    ).rows() == [("gpu", 300, 1000, 0), ("host", 100, 500, 0)]
    assert result.memories["host"].breakdown["op_name"].to_list() == ["b", BEFORE]
    assert result.inputs == {"vm": {"allocator_events": 4, "memories": 2}}


def test_several_hosts_keep_their_memories_apart() -> None:
    traces = []
    for host, size in (("left", 10), ("right", 20)):
        pool = Allocator("pool", limit=100)
        pool.allocate(1, 7, size)
        traces.append(blueprint.trace(pool.lines, host=host))
    profile = blueprint.profile(*traces)
    both = result_of(profile)
    assert list(both.memories) == ["left/pool", "right/pool"]
    assert both.rows["peak_bytes"].to_list() == [10, 20]
    alone = result_of(profile.select(["right"]))
    assert list(alone.memories) == ["pool"]
    assert alone.rows["peak_bytes"].to_list() == [20]


def test_a_host_without_allocator_events_is_said_and_does_not_hide_the_other() -> None:
    pool = Allocator("pool", limit=100)
    pool.allocate(1, 7, 10)
    profile = blueprint.profile(
        blueprint.trace(pool.lines, host="left"), blueprint.a5_host_b()
    )
    result = result_of(profile)
    assert list(result.memories) == ["left/pool"]
    assert fields_missing(result)["hosts.b"] == "NO_ALLOCATOR_EVENTS"


def test_without_allocator_events_the_answer_names_who_emits_them() -> None:
    result = analyse(blueprint.profile(blueprint.a1()), Options())
    assert isinstance(result, Unavailable)
    assert result.code == "NO_ALLOCATOR_EVENTS"
    assert "TensorFlow" in result.remedy
    assert "JAX" in result.remedy


def test_the_last_of_equal_peaks_counts_and_the_stack_belongs_to_it() -> None:
    pool = Allocator("pool", limit=1000, stack=30)
    pool.allocate(1, 1, 100, tf_op="first")
    pool.free(2, 1, 100)
    pool.allocate(3, 2, 100, tf_op="second")
    memory = memory_of(blueprint.trace(pool.lines))
    assert memory.peak is not None
    assert (memory.peak.time_ms, memory.peak.memory_in_use_bytes) == (0.003, 130)
    assert memory.breakdown.select("op_name", "allocation_bytes").rows() == [
        ("second", 100),
        (STACK, 30),
        (BEFORE, 0),
    ]


def test_lifetime_peak_is_the_greatest_of_all_events_and_at_least_what_was_seen() -> (
    None
):
    rows = [
        {"kind": "allocate", "address": 1, "heap_bytes": 50, "peak_bytes": 900},
        {"kind": "allocate", "address": 2, "heap_bytes": 70, "peak_bytes": 60},
    ]
    assert memory_of(literal(rows)).peak_heap_lifetime_bytes == 900
    rows[0]["peak_bytes"] = 60
    assert memory_of(literal(rows)).peak_heap_lifetime_bytes == 70


def test_a_second_allocation_at_a_live_address_replaces_the_first() -> None:
    pool = Allocator("pool", limit=1000)
    pool.allocate(1, 1, 100, tf_op="lost")
    pool.allocate(2, 1, 40, tf_op="found")
    memory = memory_of(blueprint.trace(pool.lines))
    assert (memory.address_reuse, memory.unmatched_deallocations) == (1, 0)
    assert memory.breakdown.select("op_name", "allocation_bytes").rows() == [
        (BEFORE, 100),
        ("found", 40),
    ]


def test_more_alive_than_in_use_means_lost_events() -> None:
    size = {"kind": "allocate", "allocated_bytes": 100}
    rows = [
        {**size, "address": 1, "heap_bytes": 100},
        {**size, "address": 2, "heap_bytes": 120},
    ]
    result = result_of(blueprint.profile(literal(rows)))
    (memory,) = result.memories.values()
    assert memory.breakdown.select("op_name", "allocation_bytes").rows() == [
        (None, 200),
        (LOST, -80),
    ]
    (note,) = result.quality
    assert note.kind == "allocator_events_lost"
    assert "LOST_EVENTS" in note.message


def test_a_capacity_that_changes_is_the_greatest_and_is_said() -> None:
    state = {"kind": "allocate", "stack_bytes": 0}
    rows = [
        {**state, "address": 1, "heap_bytes": 10, "free_bytes": 90},
        {**state, "address": 2, "heap_bytes": 20, "free_bytes": 180},
    ]
    result = result_of(blueprint.profile(literal(rows)))
    (memory,) = result.memories.values()
    assert memory.capacity_bytes == 200
    assert [note.kind for note in result.quality] == ["memory_capacity_changed"]


def test_fragmentation_is_missing_where_nothing_is_free() -> None:
    state = {"kind": "allocate", "stack_bytes": 0, "fragmentation": 0.0}
    rows = [
        {**state, "address": 1, "heap_bytes": 100, "free_bytes": 0},
        {**state, "address": 2, "heap_bytes": 90, "free_bytes": 10},
        {**state, "address": 3, "heap_bytes": 90, "free_bytes": 10},
    ]
    rows[2]["fragmentation"] = float("nan")
    result = result_of(blueprint.profile(literal(rows)))
    (memory,) = result.memories.values()
    assert memory.timeline["fragmentation"].to_list() == [None, 0.0, None]
    assert memory.peak is not None
    assert memory.peak.fragmentation is None
    assert fields_missing(result)["memories.pool.peak.fragmentation"] == (
        "ZERO_DENOMINATOR"
    )


@pytest.mark.parametrize(
    ("heap", "fragmentation", "expected"),
    [
        (500, 0.19, []),
        (500, 0.20, [("fragmentation", "warning", 0.20, 0.20)]),
        (901, 0.90, []),
        (919, 0.90, []),
        (920, 0.0, [("near_capacity", "warning", 0.92, 0.92)]),
        (970, 0.0, [("near_capacity", "critical", 0.97, 0.97)]),
    ],
)
def test_thresholds_are_those_of_the_peak(
    heap: int, fragmentation: float, expected: list[tuple[str, str, float, float]]
) -> None:
    row = {"kind": "allocate", "address": 1, "heap_bytes": heap, "stack_bytes": 0}
    row |= {"free_bytes": 1000 - heap, "fragmentation": fragmentation}
    assert list(memory_of(literal([row])).warnings) == [
        MemoryWarning(kind=kind, severity=severity, value=value, threshold=threshold)
        for kind, severity, value, threshold in expected
    ]


def test_a_free_that_repeats_no_size_has_that_of_its_block() -> None:
    block = {"address": 1, "allocated_bytes": 64, "requested_bytes": 60}
    rows = [
        {"kind": "allocate", **block, "heap_bytes": 64},
        {"kind": "deallocate", "address": 1, "heap_bytes": 0},
    ]
    timeline = memory_of(literal(rows)).timeline
    assert timeline.select("allocation_bytes", "requested_bytes").rows() == [
        (64, 60),
        (-64, -60),
    ]


def test_use_that_was_not_recorded_is_added_up_from_the_sizes() -> None:
    """What was freed and never allocated was there from the beginning."""
    rows = [
        {"kind": kind, "address": address, "allocated_bytes": size}
        for kind, address, size in (
            ("allocate", 1, 100),
            ("deallocate", 9, 30),
            ("allocate", 2, 5),
            ("deallocate", 1, 100),
        )
    ]
    result = result_of(blueprint.profile(literal(rows)))
    (memory,) = result.memories.values()
    assert memory.level == "replayed"
    assert memory.timeline["heap_bytes"].to_list() == [130, 100, 105, 5]
    assert memory.breakdown.select("op_name", "allocation_bytes").rows() == [
        (None, 100),
        (BEFORE, 30),
    ]
    assert [note.kind for note in result.quality] == ["memory_use_replayed"]
    assert fields_missing(result)["memories.pool.peak_heap_lifetime_bytes"] == (
        "NOT_RECORDED"
    )


def test_without_addresses_nothing_is_said_about_what_was_alive() -> None:
    rows = [
        {"kind": "allocate", "allocated_bytes": 100, "heap_bytes": 100},
        {"kind": "deallocate", "allocated_bytes": 100, "heap_bytes": 0},
    ]
    result = result_of(blueprint.profile(literal(rows)))
    (memory,) = result.memories.values()
    assert memory.unmatched_deallocations is None
    assert memory.address_reuse is None
    assert memory.breakdown.select("op_name", "allocation_bytes").rows() == [
        (f"{BEFORE}, or without a recorded address", 100)
    ]
    missing = fields_missing(result)
    for field in ("unmatched_deallocations", "address_reuse", "breakdown"):
        assert missing[f"memories.pool.{field}"] == "NOT_RECORDED"


def test_nothing_but_events_gives_counts_and_no_number_that_looks_measured() -> None:
    rows = [{"kind": "allocate"}, {"kind": "allocate"}, {"kind": "deallocate"}]
    result = result_of(blueprint.profile(literal(rows)))
    (memory,) = result.memories.values()
    assert (memory.allocations, memory.deallocations) == (2, 1)
    assert memory.peak is None
    assert memory.capacity_bytes is None
    assert memory.peak_heap_lifetime_bytes is None
    assert len(memory.breakdown) == 0
    known = [
        name
        for name in memory.timeline.columns
        if memory.timeline[name].null_count() < 3
    ]
    assert known == ["time_ms", "event", "step_id"]
    lacking = fields_missing(result)
    assert {f"memories.pool.{name}" for name in ("peak", "breakdown")} <= set(lacking)
    assert "memories.pool.timeline.memory_in_use_bytes" in lacking
    assert "memories.pool.steps.growth_bytes" in lacking
    assert {"rows.capacity_bytes", "rows.peak_bytes"} <= set(lacking)
    assert set(lacking.values()) <= {"NOT_RECORDED", "NO_STEPS", "NO_SAMPLES"}


def test_a_block_of_unknown_size_is_listed_and_not_counted_as_older() -> None:
    rows = [
        {"kind": "allocate", "address": 1, "heap_bytes": 70},
        {"kind": "allocate", "address": 2, "heap_bytes": 80, "allocated_bytes": 10},
    ]
    breakdown = memory_of(literal(rows)).breakdown
    assert breakdown.select("op_name", "allocation_bytes", "occurrences").rows() == [
        (f"{BEFORE}, or of unknown size", 70, None),
        (None, 10, 1),
        (None, None, 1),
    ]


def test_the_timeline_keeps_every_extreme_and_an_export_every_event() -> None:
    pool = Allocator("pool", limit=10**6, in_use=1000)
    for at in range(3000):
        size = 500 if at == 1501 else 1 + at % 7
        pool.allocate(at, at, size)
        pool.free(at + 0.5, at, 3000 if at == 2201 else size)
        if at == 2201:
            pool.in_use += 3000 - size
    trace = blueprint.trace(pool.lines)
    shown, whole = memory_of(trace), memory_of(trace, points=None)
    assert len(whole.timeline) == 6000
    assert 1900 < len(shown.timeline) <= 2000
    assert shown.timeline["time_ms"].is_sorted()
    for extreme in ("min", "max"):
        level = pl.col("memory_in_use_bytes")
        assert (
            shown.timeline.select(getattr(level, extreme)()).item()
            == whole.timeline.select(getattr(level, extreme)()).item()
        )
    assert shown.peak == whole.peak
    assert (shown.allocations, shown.deallocations) == (3000, 3000)
    assert shown.timeline.join(whole.timeline, on="time_ms", how="anti").is_empty()
    assert len(memory_of(trace, points=11).timeline) <= 11


def test_the_breakdown_can_be_taken_at_any_instant() -> None:
    trace = a3()
    at_first = memory_of(trace, at_ms=0.015)
    assert at_first.breakdown.select(
        "op_name", pl.col("allocation_bytes") / MIB
    ).rows() == [(BEFORE, 300), ("w:Var", 50)]
    assert at_first.breakdown_time_ms == 0.015
    assert at_first.peak == memory_of(trace).peak
    before = memory_of(trace, at_ms=0.001)
    assert before.breakdown.select(
        "op_name", pl.col("allocation_bytes") / MIB
    ).rows() == [(BEFORE, 300)]


def test_one_memory_can_be_asked_for_by_its_id() -> None:
    profile = blueprint.profile(a3())
    assert list(result_of(profile, memory="GPU_0_bfc").memories) == ["GPU_0_bfc"]
    with pytest.raises(BadUsage, match="GPU_0_bfc"):
        analyse(profile, Options(memory="GPU_9_bfc"))


@pytest.mark.parametrize("unlisted", [0, 1])
def test_older_blocks_that_are_listed_need_no_row_of_their_own(unlisted: int) -> None:
    rows = [
        {"kind": "held", "address": 1, "allocated_bytes": 100, "heap_bytes": 100},
        {"kind": "allocate", "address": 2, "allocated_bytes": 50},
    ]
    rows[1]["heap_bytes"] = 150 + unlisted
    memory = memory_of(literal(rows))
    expected = [(None, 100), (None, 50), *[(BEFORE, unlisted)] * unlisted]
    assert memory.breakdown.select("op_name", "allocation_bytes").rows() == expected
    assert (memory.allocations, memory.deallocations) == (1, 0)
    assert memory.level == "recorded"
    assert (memory.unmatched_deallocations, memory.address_reuse) == (0, 0)


def test_a_file_of_one_instant_says_so() -> None:
    rows = [
        {"kind": "held", "allocated_bytes": size, "heap_bytes": 30, "start_ps": 5}
        for size in (10, 20)
    ]
    memory = memory_of(literal(rows))
    assert (memory.level, memory.allocations) == ("one_instant", 0)
    assert memory.unmatched_deallocations == 0
    assert memory.breakdown["allocation_bytes"].to_list() == [20, 10]


def test_older_blocks_that_do_not_count_have_an_unknown_size() -> None:
    block = {"kind": "allocate", "address": 1, "allocated_bytes": 50}
    rows = [{**block, "heap_bytes": 50, "older_counted": False}]
    result = result_of(blueprint.profile(literal(rows)))
    (memory,) = result.memories.values()
    assert memory.level == "recorded_since_start"
    assert memory.breakdown.select("op_name", "allocation_bytes").rows() == [
        (None, 50),
        (BEFORE, None),
    ]
    assert [note.kind for note in result.quality] == ["memory_use_since_start"]
    missing = fields_missing(result)
    assert "memories.pool.breakdown.allocation_bytes" in missing


@pytest.mark.parametrize("table", sorted(TABLES))
@pytest.mark.sweep(every=4)
def test_a_table_that_is_gone_is_a_reason_and_never_a_zero(table: str) -> None:
    profile = blueprint.profile(a3()).without(table, GONE)
    result = analyse(profile, Options())
    if table == "allocations":
        assert result == GONE
        return
    assert isinstance(result, MemoryProfileResult)
    memory = result.memories["GPU_0_bfc"]
    assert memory.peak is not None
    assert memory.peak.memory_in_use_bytes == 650_117_120
    if len(memory.steps) == 0:
        assert fields_missing(result)["memories.GPU_0_bfc.steps"]
        assert memory.growth_bytes_per_step.mean is None
    plain(result)
