"""`kernel_metrics` and what belongs to it: what Nsight Compute measured of launches.

These tables come from a file of their own, never from the recording that they are
looked at with: the kernels were run again and again, one at a time, so their times
belong to no timeline.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from stepscope.trace.schema import NEVER, Column, TableSchema
from stepscope.unavailable import Unavailable

NOT_MEASURED: Final = Unavailable(
    code="NOT_RECORDED",
    reason="no metrics of Nsight Compute were given.",
    remedy="Measure the kernels with `ncu --set full --csv --page raw`, and give the "
    "table beside the recording: `--kernels FILE`.",
)
_NOT_MEASURED: Final = "not measured"


def _number(name: str, unit: str, about: str) -> Column:
    return Column(name, pl.Float64(), unit, _NOT_MEASURED, about)


def _count(name: str, about: str, unit: str = "") -> Column:
    return Column(name, pl.Int64(), unit, _NOT_MEASURED, about)


def _percent(name: str, about: str) -> Column:
    return _number(name, "percent", about)


_IDENTITY: Final = (
    Column("launch", pl.Int64(), "", NEVER, "Number of the launch in its file."),
    Column("process", pl.Int64(), "pid", "not recorded", "Process that launched it."),
    Column(
        "kernel_name",
        pl.String(),
        "",
        NEVER,
        "Name of the kernel as Nsight Compute writes it, which may be damaged.",
    ),
    Column("device", pl.Int32(), "ordinal", "not recorded", "Number of the device."),
    Column(
        "compute_capability", pl.String(), "", "not recorded", "As in 9.0, of the GPU."
    ),
    Column("stream", pl.Int64(), "", "not recorded", "Id of the stream."),
    *(
        Column(
            f"{what}_{axis}",
            pl.Int64(),
            "",
            "not recorded",
            f"Size of the {what} along {axis} ({what}Dim.{axis}).",
        )
        for what in ("block", "grid")
        for axis in "xyz"
    ),
    Column(
        "duration_ps",
        pl.Int64(),
        "ps",
        _NOT_MEASURED,
        "Time of the kernel when it was measured, alone on the device and, unless "
        "asked otherwise, at its base clock.",
    ),
)
_LAUNCH: Final = (
    _count("registers", "Registers per thread."),
    _count("static_shared_memory_bytes", "Per block, as declared.", "bytes"),
    _count(
        "dynamic_shared_memory_bytes", "Per block, as the launch asks for.", "bytes"
    ),
    _count("multiprocessors", "Multiprocessors of the device."),
    _number(
        "waves_per_multiprocessor",
        "",
        "Blocks of the grid over the blocks that the device holds at once.",
    ),
)
_WORK: Final = (
    _number(
        "elapsed_cycles", "cycles", "Cycles of a multiprocessor from begin to end."
    ),
    _number("core_clock_hz", "Hz", "Clock of the multiprocessors while measured."),
    _number("memory_clock_hz", "Hz", "Clock of the device memory while measured."),
    _number("flops_fp16", "", "Additions, multiplications and twice the fused ones."),
    _number("flops_fp32", "", "As `flops_fp16`, in 32 bits."),
    _number("flops_fp64", "", "As `flops_fp16`, in 64 bits."),
    _number("flops_tensor", "", "Floating-point operations of the Tensor Cores."),
    _number("tensor_instructions", "", "Instructions of the Tensor pipe, all warps."),
    _number("dram_read_bytes", "bytes", "Read from the device memory."),
    _number("dram_write_bytes", "bytes", "Written to the device memory."),
    _number("dram_bytes", "bytes", "Moved between the device memory and the L2 cache."),
    _number("l2_bytes", "bytes", "Asked of the L2 cache."),
    _number("l1_bytes", "bytes", "Asked of the L1 cache."),
)
_SPEED_OF_LIGHT: Final = (
    _percent("compute_percent", "Throughput of the multiprocessors, of their peak."),
    _percent(
        "memory_percent", "Throughput of caches and device memory, the busiest of them."
    ),
    _percent("dram_percent", "Throughput of the device memory, of its peak."),
    _percent("l2_percent", "Throughput of the L2 cache, of its peak."),
    _percent("l1_percent", "Throughput of the L1 cache, of its peak."),
    _percent("tensor_pipe_percent", "Share of the time that the Tensor pipe was busy."),
)
_OCCUPANCY: Final = (
    _percent("achieved_occupancy_percent", "Warps at work, of those that fit."),
    _percent("theoretical_occupancy_percent", "Warps that the launch lets be at work."),
    _count("block_limit_registers", "Blocks that registers leave room for."),
    _count("block_limit_shared_memory", "Blocks that shared memory leaves room for."),
    _count("block_limit_warps", "Blocks that the number of warps leaves room for."),
    _count("block_limit_blocks", "Blocks that a multiprocessor holds at most."),
)
_MEMORY: Final = (
    _number("global_load_requests", "", "Loads from global memory, one per warp."),
    _number("global_load_sectors", "", "Sectors of 32 bytes that these loads touch."),
    _number("global_store_requests", "", "Stores to global memory, one per warp."),
    _number("global_store_sectors", "", "Sectors of 32 bytes that these stores touch."),
    _number("load_sectors_per_request", "", "Sectors of a load from global memory."),
    _number("store_sectors_per_request", "", "Sectors of a store to global memory."),
    _number(
        "load_bytes_per_sector", "bytes", "Of the 32 of a sector, those asked for."
    ),
    _number("store_bytes_per_sector", "bytes", "As for loads, of stores."),
    _number(
        "shared_memory_conflicts",
        "",
        "Passes that shared memory needs besides the first because of banks.",
    ),
    _number("shared_memory_wavefronts", "", "Passes of shared memory in all."),
    _percent("l1_hit_percent", "As measured; several passes may add up to over 100."),
    _percent("l2_hit_percent", "As measured; several passes may add up to over 100."),
    _number(
        "local_memory_sectors",
        "",
        "Sectors of 32 bytes to and from local memory: registers that were spilled, "
        "and arrays that a thread keeps to itself.",
    ),
)
_WARPS: Final = (
    _number("threads_per_instruction", "", "Threads at work in a warp, at most 32."),
    Column(
        "stall_reason",
        pl.String(),
        "",
        _NOT_MEASURED,
        "What warps wait for most, in the word of Nsight Compute.",
    ),
    _percent(
        "stall_percent", "Share of this wait in the cycles between two instructions."
    ),
)

KERNEL_METRICS: Final = TableSchema(
    "kernel_metrics",
    "one launch that Nsight Compute measured",
    "as in the file, which is the order of the launches",
    (
        *_IDENTITY,
        *_LAUNCH,
        *_WORK,
        *_SPEED_OF_LIGHT,
        *_OCCUPANCY,
        *_MEMORY,
        *_WARPS,
    ),
)
_ROW: Final = Column(
    "row", pl.Int32(), "row of kernel_metrics", NEVER, "Launch that it is about."
)
KERNEL_METRIC_VALUES: Final = TableSchema(
    "kernel_metric_values",
    "one metric of one launch",
    "as in the file",
    (
        _ROW,
        Column("section", pl.String(), "", "not recorded", "Section of the report."),
        Column("metric", pl.String(), "", NEVER, "Name of the metric as in the file."),
        Column(
            "value",
            pl.Float64(),
            "",
            "a word, or no number",
            "The number in its base unit.",
        ),
        Column(
            "unit",
            pl.String(),
            "",
            "none",
            "Base unit: ns, byte, Hz, byte/s, %, or that of the file.",
        ),
        Column("text", pl.String(), "", NEVER, "The value as in the file."),
    ),
)
KERNEL_RULE_RESULTS: Final = TableSchema(
    "kernel_rule_results",
    "what one rule of Nsight Compute says of one launch",
    "as in the file",
    (
        _ROW,
        Column("section", pl.String(), "", "not recorded", "Section of the report."),
        Column("rule", pl.String(), "", NEVER, "Name of the rule."),
        Column(
            "kind",
            pl.String(),
            "",
            "not recorded",
            "OPT (an optimisation), INF (information) or WRN (a warning).",
        ),
        Column("text", pl.String(), "", NEVER, "NVIDIA's words."),
        Column(
            "speedup_percent",
            pl.Float64(),
            "percent",
            "not estimated",
            "NVIDIA's estimate of the gain.",
        ),
        Column(
            "speedup_kind",
            pl.String(),
            "",
            "not estimated",
            "global (of the kernel) or local (of a part of it).",
        ),
    ),
)
