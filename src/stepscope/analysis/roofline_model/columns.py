"""The tables of `roofline_model`: what each column is."""

from __future__ import annotations

from typing import Final

import polars as pl

from stepscope.analysis.results.columns import KERNEL_NAME, OP_NAME, RANK
from stepscope.trace.schema import NEVER, Column, TableSchema

_NO_WORK: Final = "it is not known how many operations or bytes"
_NO_PEAK: Final = "the work, or what the device can do, is not known"


def _number(name: str, unit: str, null: str, about: str) -> Column:
    return Column(name, pl.Float64(), unit, null, about)


ROOF_ROWS: Final = TableSchema(
    "roofs",
    "a kind of unit of a device that the run used",
    "by device, the highest first",
    (
        Column("device", pl.String(), "", NEVER, "Product or kind of device."),
        Column(
            "unit",
            pl.String(),
            "",
            NEVER,
            "What computes: fp32 and fp16 (vector lanes), matrix_tf32 and matrix_fp16 "
            "(Tensor Cores, matrix units), all (the device has one rate), given.",
        ),
        _number(
            "peak_gflops_per_s",
            "10^9/s",
            NEVER,
            "Operations per second of this unit at best.",
        ),
        _number(
            "memory_gb_per_s",
            "10^9 bytes/s",
            "not known",
            "Bytes per second of the device's memory at best.",
        ),
        _number(
            "ridge_flops_per_byte",
            "FLOP/byte",
            "the memory's rate is not known",
            "Intensity from which on computing limits, and not memory.",
        ),
        Column(
            "source",
            pl.String(),
            "",
            NEVER,
            "Who says it: recorded, data_sheet or given (by an option).",
        ),
    ),
)
_SHARED: Final = (
    Column(
        "evidence",
        pl.String(),
        "",
        NEVER,
        "How the work is known: measured (counters of Nsight Compute), shapes (worked "
        "out from shapes and bytes) or unknown.",
    ),
    Column("occurrences", pl.Int64(), "", NEVER, "Number of runs."),
    _number(
        "self_us",
        "us",
        NEVER,
        "Time of all runs without the ops inside them, as in the other tables of ops.",
    ),
    _number(
        "time_percent",
        "percent",
        "nothing took time",
        "Share of the self time of all rows of the table.",
    ),
    _number(
        "total_us",
        "us",
        NEVER,
        "Durations of all runs added up, the ops inside them included: what the rates "
        "are of.",
    ),
    _number("flops", "", "not known", "Floating-point operations of all runs."),
    _number(
        "accessed_bytes",
        "bytes",
        "not known",
        "Bytes of all runs: measured, those between memory and L2 cache; from shapes, "
        "each tensor once.",
    ),
    _number(
        "operational_intensity",
        "FLOP/byte",
        _NO_WORK,
        "Operations per byte of memory.",
    ),
    _number(
        "gflops_per_s", "10^9/s", "operations are not known", "Operations per second."
    ),
    _number(
        "gb_per_s", "10^9 bytes/s", "bytes are not known", "Bytes of memory per second."
    ),
    _number(
        "roof_gflops_per_s",
        "10^9/s",
        _NO_PEAK,
        "What the device allows at this intensity: the peak of the units that are "
        "used, or intensity times the memory's rate, whichever is less.",
    ),
    _number(
        "of_compute_percent",
        "percent",
        _NO_PEAK,
        "Operations per second in percent of the peak of the units that are used.",
    ),
    _number(
        "of_memory_percent",
        "percent",
        _NO_PEAK,
        "Bytes per second in percent of the memory's rate; caches may give more.",
    ),
    _number(
        "of_roof_percent",
        "percent",
        _NO_PEAK,
        "The larger of both: how much of what the device allows is reached.",
    ),
    Column(
        "bound_by",
        pl.String(),
        "",
        _NO_PEAK,
        "The roof above: Compute or Memory.",
    ),
    Column(
        "lacks",
        pl.String(),
        "",
        "the work is known",
        "What is not known of the work: operations, bytes or both.",
    ),
)
OP_ROWS: Final = TableSchema(
    "ops",
    "an op",
    "by time",
    (
        RANK,
        Column("name", pl.String(), "", NEVER, "Name of the op."),
        Column("type", pl.String(), "", "not recorded", "Type of the op."),
        *_SHARED,
    ),
)
KERNEL_ROWS: Final = TableSchema(
    "kernels",
    "a kernel with its op, whatever its launch shape",
    "by time",
    (RANK, KERNEL_NAME, OP_NAME, *_SHARED),
)
