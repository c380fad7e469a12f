"""Columns that tables of several results share, each declared once."""

from __future__ import annotations

from typing import Final

import polars as pl

from stepscope.trace.schema import NEVER, Column

_NO_DETAILS: Final = "launch details were not recorded"

RANK: Final = Column(
    "rank", pl.Int64(), "", NEVER, "Place in the order of the table; 1 is the first."
)
HOST: Final = Column("host", pl.String(), "", NEVER, "Name of the host.")
HOSTS: Final = Column(
    "hosts", pl.List(pl.String()), "", NEVER, "Hosts on which the op or kernel ran."
)
DEVICES: Final = Column(
    "devices",
    pl.List(pl.Int32()),
    "ordinal",
    "no device took part",
    "Devices on which the op or kernel ran.",
)
KERNEL_NAME: Final = Column(
    "kernel_name", pl.String(), "", NEVER, "Demangled name of the kernel, as recorded."
)
OP_NAME: Final = Column(
    "op_name",
    pl.String(),
    "",
    NEVER,
    "Framework op of the HLO instruction, else the annotation's name, else the op on "
    "the host around the launch call; empty where nothing names one.",
)
#: How often activities of one kind ran, and for how long.
KERNEL_TIMES: Final = (
    Column("occurrences", pl.Int64(), "", NEVER, "Number of runs."),
    Column("total_us", pl.Float64(), "us", NEVER, "Durations of all runs added up."),
    Column(
        "avg_us",
        pl.Float64(),
        "us",
        NEVER,
        "Mean duration, not rounded to nanoseconds.",
    ),
    Column("min_us", pl.Float64(), "us", NEVER, "The shortest duration."),
    Column("max_us", pl.Float64(), "us", NEVER, "The longest duration."),
)
REGISTERS: Final = Column(
    "registers",
    pl.Int32(),
    "",
    f"{_NO_DETAILS}, or no GPU can have so many",
    "Registers of each thread, as recorded.",
)
SHARED_MEMORY: Final = Column(
    "shared_memory_bytes",
    pl.Int64(),
    "bytes",
    _NO_DETAILS,
    "Shared memory of each block, static and dynamic.",
)
BLOCK_DIM: Final = Column(
    "block_dim", pl.String(), "threads", _NO_DETAILS, "Shape of a block: x,y,z."
)
GRID_DIM: Final = Column(
    "grid_dim", pl.String(), "blocks", _NO_DETAILS, "Shape of the grid: x,y,z."
)
OCCUPANCY: Final = (
    Column(
        "occupancy_percent",
        pl.Float64(),
        "percent",
        f"{_NO_DETAILS}, or the device's limits are not known",
        "Theoretical occupancy as the tracer computed it, else from registers, "
        "shared memory, block and the limits of the compute capability; of "
        "several devices the lowest.",
    ),
    Column(
        "occupancy_limiter",
        pl.String(),
        "",
        "nothing limits it, or the occupancy is not known",
        "What keeps more blocks from fitting: registers, shared_memory, threads, "
        "blocks.",
    ),
)
TENSOR_CORES: Final = (
    Column(
        "tensor_core_eligible",
        pl.Boolean(),
        "",
        "neither kernel nor op shows it, or the compute capability is not known",
        "Whether the device has Tensor Cores (7.0 or newer), and the kernel or its op "
        "is a matrix product or convolution.",
    ),
    Column(
        "uses_tensor_core",
        pl.Boolean(),
        "",
        "the name says nothing, or the device is no GPU",
        "Whether the kernel's name shows matrix instructions.",
    ),
)
PRECISION: Final = Column(
    "precision",
    pl.String(),
    "bits",
    "a collective or a copy",
    "Width of the computation: 16 (16 bits or fewer), 32, tf32 (32-bit operands that "
    "Tensor Cores cut) or 64; one for all rows of a kernel.",
)
COPIED_BYTES: Final = "the size of one of them was not recorded"
