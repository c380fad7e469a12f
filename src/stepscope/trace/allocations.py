"""`allocations`: what the framework's allocators did."""

from __future__ import annotations

from typing import Final

import polars as pl

from stepscope.trace.schema import NEVER, Column, TableSchema

__all__ = ["ALLOCATIONS", "ALLOCATION_KINDS"]

ALLOCATION_KINDS: Final = pl.Enum(["allocate", "deallocate"])

ALLOCATIONS: Final = TableSchema(
    "allocations",
    "an allocation or a deallocation",
    "by time, ties in file order",
    (
        Column("event", pl.Int32(), "row of events", NEVER, "The instant."),
        Column("start_ps", pl.Int64(), "ps", NEVER, "Since the start of the profile."),
        Column("kind", ALLOCATION_KINDS, "", NEVER, "What it was."),
        Column("allocator", pl.String(), "", NEVER, "Name of the memory."),
        Column("address", pl.UInt64(), "", "not recorded", "Start of the block."),
        Column("allocated_bytes", pl.Int64(), "bytes", "not recorded", "Block size."),
        Column("requested_bytes", pl.Int64(), "bytes", "not recorded", "Asked for."),
        Column("heap_bytes", pl.Int64(), "bytes", "not recorded", "In use after it."),
        Column(
            "stack_bytes", pl.Int64(), "bytes", "not recorded", "Reserved after it."
        ),
        Column("free_bytes", pl.Int64(), "bytes", "not recorded", "Left after it."),
        Column(
            "capacity_bytes",
            pl.Int64(),
            "bytes",
            "not recorded apart from its parts",
            "Size of the whole memory.",
        ),
        Column(
            "older_counted",
            pl.Boolean(),
            "",
            "the producer does not say",
            "Whether heap_bytes counts blocks that are older than the recording.",
        ),
        Column(
            "peak_bytes",
            pl.Int64(),
            "bytes",
            "not recorded",
            "Largest use since the process began.",
        ),
        Column(
            "fragmentation",
            pl.Float64(),
            "0 to 1",
            "not recorded, or nothing free",
            "1 - largest free chunk / free.",
        ),
        Column("op", pl.String(), "", "not recorded", "Framework op that asked."),
        Column("region", pl.String(), "", "not recorded", "temp, output, persist."),
        Column("dtype", pl.Int64(), "", "not recorded", "Framework's type number."),
        Column("shape", pl.String(), "", "not recorded", "Tensor shape as recorded."),
        Column("group", pl.Int64(), "", "not grouped", "Stored step group."),
    ),
)
