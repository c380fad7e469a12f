"""The GPU's plane of the GPU-shaped profile: its capabilities and its streams."""

import numpy as np
from numpy.typing import NDArray

from gpu_program import (
    ALL_REDUCE,
    COLLECTIVE_OPS,
    COPY_IN_OPS,
    COPY_OUT_OP,
    KERNELS,
    kernel_details,
)
from gpu_timeline import Timeline
from grouped_events import Line, integers, new_line, reals, texts, unsigned
from stepscope.xspace.writing.builders import PlaneBuilder, Unsigned, Value

LIMIT_BYTES = 40 << 30
COPY_BYTES = 12_845_056
CONTEXT = "$$1"
CAPABILITIES: dict[str, Value] = {
    "device_vendor": "Nvidia",
    "clock_rate": 1_410_000,
    "core_count": 108,
    "memory_bandwidth": Unsigned(1_555_200_000_000),
    "memory_size": Unsigned(LIMIT_BYTES),
    "compute_cap_major": 8,
    "compute_cap_minor": 0,
}

Array = NDArray[np.int64]


def add_streams(gpu: PlaneBuilder, run: Timeline) -> list[Line]:
    """The device's capabilities, and a line for each stream."""
    for name, value in CAPABILITIES.items():
        gpu.stat(name, value)
    base = run.step_start[:, None]
    return [
        compute_stream(gpu, run, base),
        *copy_streams(gpu, run, base),
        collective_stream(gpu, run, base),
    ]


def compute_stream(gpu: PlaneBuilder, run: Timeline, base: Array) -> Line:
    """All kernels of the program."""
    names = run.kernel_names
    stats = {
        "correlation_id": unsigned(correlation_ids(run)["kernel"]),
        "kernel_details": texts(gpu, *(kernel_details(name) for name in names)),
        "tf_op": texts(gpu, *(run.ops[i].name for i in run.op_of_kernel)),
        "theoretical_occupancy_pct": reals([KERNELS[name][6] for name in names]),
        "occupancy_min_grid_size": integers(216),
        "occupancy_suggested_block_size": integers(1024),
        "context_id": texts(gpu, CONTEXT),
    }
    line = new_line(gpu, 7, "Stream #7(Compute)")
    line.add(names, base + run.kernel.start, run.kernel.dur, stats)
    return line


def copy_streams(gpu: PlaneBuilder, run: Timeline, base: Array) -> list[Line]:
    """Add the copies of the batch to the device and of the loss to the host."""
    way_in = f"kind_src:pinned kind_dst:device size:{COPY_BYTES} dest:0 async:1"
    way_out = "kind_src:device kind_dst:pinned size:4 dest:0 async:1"
    ids = correlation_ids(run)
    stats = {
        "correlation_id": unsigned(ids["copy"]),
        "memcpy_details": texts(gpu, way_in),
        "tf_op": texts(gpu, *COPY_IN_OPS),
        "context_id": texts(gpu, CONTEXT),
    }
    inward = new_line(gpu, 8, "Stream #8(MemcpyH2D)")
    inward.add("MemcpyH2D", base + run.copy.start, run.copy.dur, stats)
    stats = {
        "correlation_id": unsigned(ids["loss"]),
        "memcpy_details": texts(gpu, way_out),
        "tf_op": texts(gpu, COPY_OUT_OP),
        "context_id": texts(gpu, CONTEXT),
    }
    outward = new_line(gpu, 9, "Stream #9(MemcpyD2H)")
    outward.add("MemcpyD2H", base + run.loss_copy.start, run.loss_copy.dur, stats)
    return [inward, outward]


def collective_stream(gpu: PlaneBuilder, run: Timeline, base: Array) -> Line:
    """Add the reductions of gradients, which overlap the backward pass."""
    details = "regs:96 static_shared:0 dynamic_shared:0 grid:24,1,1 block:544,1,1"
    stats = {
        "correlation_id": unsigned(correlation_ids(run)["collective"]),
        "kernel_details": texts(gpu, f"{details} occ_pct:25"),
        "tf_op": texts(gpu, *COLLECTIVE_OPS),
        "context_id": texts(gpu, CONTEXT),
    }
    line = new_line(gpu, 20, "Stream #20(Compute)")
    line.add(ALL_REDUCE, base + run.collective.start, run.collective.dur, stats)
    return line


def correlation_ids(run: Timeline) -> dict[str, Array]:
    """One id for each launch call, counted upwards from 1, step by step."""
    sizes = {
        "copy": len(COPY_IN_OPS),
        "kernel": len(run.kernel_names),
        "collective": len(COLLECTIVE_OPS),
        "loss": 1,
    }
    total = sum(sizes.values())
    first = 1 + total * np.arange(len(run.step_start))[:, None]
    ids, begin = {}, 0
    for name, size in sizes.items():
        ids[name] = first + begin + np.arange(size)
        begin += size
    return ids
