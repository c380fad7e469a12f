"""`memory_profile` on real profiles: what their frameworks wrote, and what adds up."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from tests.support.traces.memory import result_of

import stepscope

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


CPU_PEAKS = {
    "tf_cpu/keras_fit": (15_466_496, 70, 70),
    "tf_cpu/healthy": (15_442_944, 210, 209),
    "tf_cpu/input_bound": (6_291_456, 2085, 2081),
    "tf_cpu/sequential_map": (3_709_440, 2020, 2019),
    "tf_cpu/no_step_markers": (786_432, 400, 400),
    "tf_cpu/xla": (69_206_016, 30, 29),
    "tf_cpu/mirrored": (17_755_136, 195, 194),
    "tf_cpu/inference": (4_686_336, 202, 202),
    "tf_cpu/eager_1m": (5_047_296, 2107, 2099),
}


GPU_FACTS = {
    "t4_healthy": (3_001_455_872, 1_573_133_568, 153, 153),
    "t4_starved": (2_819_471_616, 2_819_471_616, 222, 222),
    "v100_large": (15_399_812_096, 13_955_346_688, 1026, 1026),
    "turing_launch_bound": (103_798_272, 3_487_488, 103, 103),
}


EVERY = (
    *(*CPU_PEAKS, "tf_cpu/two_workers", "tf_cpu/tf215_python_tracer"),
    *(f"gpu_tf/{name}" for name in (*GPU_FACTS, "xprof_gpu_multi_worker")),
    *("gpu_jax_amd/jax08_conv", "gpu_jax_amd/jax08_gemm", "tpu/tpu_inference_2"),
)


@pytest.mark.parametrize("name", sorted(CPU_PEAKS))
@pytest.mark.sweep(every=3)
def test_peaks_and_counts_of_cpu_programs(
    shared_profile: Callable[[str], Path], name: str
) -> None:
    profile = stepscope.open(shared_profile(name))
    memory = result_of(profile).memories["mklcpu"]
    assert memory.peak is not None
    found = (memory.peak.heap_bytes, memory.allocations, memory.deallocations)
    assert found == CPU_PEAKS[name]


@pytest.mark.profiles
@pytest.mark.parametrize("name", sorted(GPU_FACTS))
def test_peaks_fragmentation_and_counts_are_those_that_the_framework_wrote(
    shared_profile: Callable[[str], Path], name: str
) -> None:
    path = shared_profile(f"gpu_tf/{name}")
    result = result_of(stepscope.open(path))
    golden = json.loads((path / "golden_memory_profile.json").read_text())
    of_golden = golden["memoryProfilePerAllocator"]
    assert set(result.memories) == set(of_golden)
    for memory_id, theirs in of_golden.items():
        ours, summary = result.memories[memory_id], theirs["profileSummary"]
        peak = summary["peakStats"]
        assert ours.peak is not None
        assert ours.peak_heap_lifetime_bytes == int(summary["peakBytesUsageLifetime"])
        assert ours.capacity_bytes == int(summary["memoryCapacity"])
        assert ours.peak.stack_bytes == int(peak["stackReservedBytes"])
        assert ours.peak.heap_bytes == int(peak["heapAllocatedBytes"])
        assert ours.peak.free_bytes == int(peak["freeMemoryBytes"])
        assert ours.peak.fragmentation == pytest.approx(peak["fragmentation"], rel=1e-5)
    gpu = result.memories["GPU_0_bfc"]
    assert gpu.peak is not None
    assert (
        gpu.peak_heap_lifetime_bytes,
        gpu.peak.heap_bytes,
        gpu.allocations,
        gpu.deallocations,
    ) == GPU_FACTS[name]


@pytest.mark.profiles
@pytest.mark.parametrize("name", sorted(GPU_FACTS))
def test_live_allocations_at_the_peak_are_those_that_the_framework_wrote(
    shared_profile: Callable[[str], Path], name: str
) -> None:
    """It lists too much only where a free outside any step escaped it."""
    path = shared_profile(f"gpu_tf/{name}")
    profile = stepscope.open(path)
    golden = json.loads((path / "golden_memory_profile.json").read_text())
    theirs = _golden_live(golden["memoryProfilePerAllocator"]["GPU_0_bfc"])
    ours = Counter[tuple[object, ...]]()
    breakdown = result_of(profile).memories["GPU_0_bfc"].breakdown
    for row in breakdown.drop_nulls("occurrences").iter_rows(named=True):
        each = row["occurrences"]
        key = (row["op_name"], row["region_type"], row["data_type"])
        key += (row["tensor_shape"],)
        size = (row["allocation_bytes"] // each, row["requested_bytes"] // each)
        ours[*key, *size] += each
    assert ours - theirs == Counter()
    events = profile.table(profile.hosts[0], "allocations")
    assert isinstance(events, pl.DataFrame)
    assert theirs - ours == _freed_outside_steps(events) & (theirs - ours)


def _golden_live(memory: dict[str, Any]) -> Counter[tuple[object, ...]]:
    snapshots = memory["memoryProfileSnapshots"]
    found = Counter[tuple[object, ...]]()
    for active in memory["activeAllocations"]:
        if int(active["snapshotIndex"]) < 0:
            continue
        made = snapshots[int(active["snapshotIndex"])]["activityMetadata"]
        dtype = made["dataType"]
        found[
            made["tfOpName"] or None,
            made["regionType"] or None,
            None if dtype == "INVALID" else dtype,
            made["tensorShape"] or None,
            int(made["allocationBytes"]),
            int(made["requestedBytes"]),
        ] += int(active["numOccurrences"])
    return found


def _freed_outside_steps(events: pl.DataFrame) -> Counter[tuple[object, ...]]:
    """What was freed before the peak by an event of no step, by a slow replay."""
    names = {1: "float", 3: "int32", 4: "uint8", 6: "int8", 9: "int64", 10: "bool"}
    gpu = events.filter(pl.col("allocator") == "GPU_0_bfc")
    peak = gpu["heap_bytes"].arg_max()
    assert peak is not None
    alive: dict[int, dict[str, Any]] = {}
    found = Counter[tuple[object, ...]]()
    for row in gpu.head(peak + 1).iter_rows(named=True):
        if row["kind"] == "allocate":
            alive[row["address"]] = row
            continue
        block = alive.pop(row["address"], None)
        if block is not None and row["group"] is None:
            key = (block["op"], block["region"], names.get(block["dtype"]))
            size = (block["allocated_bytes"], block["requested_bytes"])
            found[*key, block["shape"], *size] += 1
    return found


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.sweep(every=3)
def test_parts_add_up_on_every_profile(
    shared_profile: Callable[[str], Path], name: str
) -> None:
    """Stack, heap and free are the capacity; the breakdown is the peak."""
    result = result_of(stepscope.open(shared_profile(name)), points=None)
    for memory in result.memories.values():
        assert memory.peak is not None
        total = memory.timeline.select(
            pl.col("stack_bytes") + pl.col("heap_bytes") + pl.col("free_bytes")
        ).to_series()
        assert total.unique().to_list() == [memory.capacity_bytes]
        in_use = memory.timeline["memory_in_use_bytes"]
        assert memory.peak.memory_in_use_bytes == in_use.max()
        assert memory.breakdown["allocation_bytes"].sum() == in_use.max()
        assert memory.allocations + memory.deallocations == len(memory.timeline)
        rows = memory.timeline
        change = rows["allocation_bytes"].slice(1)
        assert (rows["heap_bytes"].diff().slice(1) == change).all(ignore_nulls=True)
