"""`allocations`: what the framework's allocators did."""

from __future__ import annotations

from typing import Final

import polars as pl

from stepscope.trace.schema import NEVER, Column, TableSchema

ALLOCATION_KINDS: Final = pl.Enum(["allocate", "deallocate", "held"])

ALLOCATIONS: Final = TableSchema(
    "allocations",
    "an allocation, a deallocation, or memory that was there before",
    "by time, ties in file order",
    (
        Column(
            "event",
            pl.Int32(),
            "row of events",
            "the file holds no events",
            "Instant of the allocation or deallocation in `events`.",
        ),
        Column(
            "start_ps",
            pl.Int64(),
            "ps",
            NEVER,
            "When it happened, since the start of the profile.",
        ),
        Column(
            "kind",
            ALLOCATION_KINDS,
            "",
            NEVER,
            "Allocation or deallocation; held: memory in use when recording began, or "
            "at the one instant that the file shows.",
        ),
        Column(
            "allocator",
            pl.String(),
            "",
            NEVER,
            "Name of the allocator, and so of its memory.",
        ),
        Column(
            "address",
            pl.UInt64(),
            "",
            "not recorded",
            "Address at which the block starts.",
        ),
        Column(
            "blocks",
            pl.Int64(),
            "",
            "one block",
            "Number of blocks that the row adds up, where they were not recorded one "
            "by one.",
        ),
        Column(
            "allocated_bytes",
            pl.Int64(),
            "bytes",
            "not recorded",
            "Size of the block, at least the bytes requested.",
        ),
        Column(
            "requested_bytes",
            pl.Int64(),
            "bytes",
            "not recorded",
            "Bytes that the program requested.",
        ),
        Column(
            "heap_bytes",
            pl.Int64(),
            "bytes",
            "not recorded",
            "Heap in use once this event was over.",
        ),
        Column(
            "tensor_bytes",
            pl.Int64(),
            "bytes",
            "not told apart",
            "Part of the heap that the program has not freed; the rest waits for a "
            "stream that uses it.",
        ),
        Column(
            "stack_bytes",
            pl.Int64(),
            "bytes",
            "not recorded",
            "Memory reserved for the stack once this event was over.",
        ),
        Column(
            "free_bytes",
            pl.Int64(),
            "bytes",
            "not recorded",
            "Memory left free once this event was over.",
        ),
        Column(
            "capacity_bytes",
            pl.Int64(),
            "bytes",
            "not recorded apart from its parts",
            "Size of all the memory that the allocator manages.",
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
            "Largest use of the allocator since the process began.",
        ),
        Column(
            "fragmentation",
            pl.Float64(),
            "0 to 1",
            "not recorded, or nothing free",
            "1 minus the largest free chunk over all free bytes.",
        ),
        Column(
            "op",
            pl.String(),
            "",
            "not recorded",
            "Framework op that requested the block.",
        ),
        Column(
            "region",
            pl.String(),
            "",
            "not recorded",
            "Lifetime of the block: temp, output or persist.",
        ),
        Column(
            "dtype",
            pl.Int64(),
            "",
            "not recorded",
            "Number of the element type in TensorFlow's `DataType`.",
        ),
        Column(
            "shape",
            pl.String(),
            "",
            "not recorded",
            "Shape of the tensor in the block, as recorded.",
        ),
        Column(
            "group",
            pl.Int64(),
            "",
            "not grouped",
            "Number of the step group that the producer stored.",
        ),
        Column(
            "source",
            pl.String(),
            "",
            "not recorded",
            "Line of the program that requested the block: file, line and function.",
        ),
        Column(
            "stack",
            pl.Int32(),
            "handle of strings",
            "not recorded",
            "Call stack that requested the block, the innermost frame first.",
        ),
    ),
)
