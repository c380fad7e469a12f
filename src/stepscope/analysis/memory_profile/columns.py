"""The tables of `memory_profile`: what each column is."""

from __future__ import annotations

from typing import Final

import polars as pl

from stepscope.analysis.results.columns import HOST
from stepscope.trace.schema import NEVER, Column, TableSchema

_OP: Final = Column(
    "op_name", pl.String(), "", "not recorded", "Op that asked for the block."
)
_REGION: Final = Column(
    "region_type",
    pl.String(),
    "",
    "not recorded",
    "What the block is for: temp, output, persist, …",
)
_TYPE: Final = Column(
    "data_type", pl.String(), "", "not recorded", "Element type of the tensor."
)
_SHAPE: Final = Column(
    "tensor_shape", pl.String(), "", "not recorded", "Shape of the tensor, as recorded."
)
_SOURCE: Final = Column(
    "source",
    pl.String(),
    "",
    "not recorded",
    "Line of the program that asked for the block: file, line and function of the "
    "innermost frame outside of libraries.",
)
_UNKNOWN_USE: Final = "the use of the memory is not known"

SUMMARY_ROWS: Final = TableSchema(
    "rows",
    "a memory: an allocator of a host",
    "by host, the fullest first",
    (
        Column(
            "memory_id",
            pl.String(),
            "",
            NEVER,
            "Name of the memory; where there are several hosts, the host comes first.",
        ),
        HOST,
        Column(
            "allocations",
            pl.Int64(),
            "",
            NEVER,
            "Number of allocations in the profile, whatever the timeline shows.",
        ),
        Column(
            "deallocations",
            pl.Int64(),
            "",
            NEVER,
            "Number of deallocations in the profile, whatever the timeline shows.",
        ),
        Column(
            "capacity_bytes",
            pl.Int64(),
            "bytes",
            "neither recorded nor known from stack, heap and free memory",
            "Size of the memory.",
        ),
        Column(
            "peak_heap_lifetime_bytes",
            pl.Int64(),
            "bytes",
            "not recorded",
            "Greatest size of the heap since the process began.",
        ),
        Column(
            "peak_bytes",
            pl.Int64(),
            "bytes",
            _UNKNOWN_USE,
            "Size of stack and heap at the peak: the first event after which they "
            "are greatest.",
        ),
        Column(
            "peak_capacity_percent",
            pl.Float64(),
            "percent",
            "the peak or the capacity is not known",
            "Share of the capacity in use at the peak.",
        ),
        Column(
            "peak_time_ms",
            pl.Float64(),
            "ms",
            _UNKNOWN_USE,
            "Time of the peak, since the start of the profile.",
        ),
        Column(
            "peak_stack_bytes", pl.Int64(), "bytes", _UNKNOWN_USE, "Stack at the peak."
        ),
        Column(
            "peak_heap_bytes", pl.Int64(), "bytes", _UNKNOWN_USE, "Heap at the peak."
        ),
        Column(
            "peak_free_bytes",
            pl.Int64(),
            "bytes",
            "not recorded",
            "Free memory at the peak.",
        ),
        Column(
            "peak_fragmentation",
            pl.Float64(),
            "0 to 1",
            "not recorded, or nothing was free",
            "1 - largest free chunk / free memory, at the peak.",
        ),
        Column(
            "unmatched_deallocations",
            pl.Int64(),
            "",
            "no event carries an address",
            "Number of deallocations of blocks whose allocation was not recorded.",
        ),
        Column(
            "address_reuse",
            pl.Int64(),
            "",
            "no event carries an address",
            "Number of allocations at an address where a block was still alive.",
        ),
    ),
)
TIMELINE_ROWS: Final = TableSchema(
    "memories.timeline",
    "an allocation or a deallocation",
    "by time; extremes of equal spans and the peak, or every event",
    (
        Column(
            "time_ms",
            pl.Float64(),
            "ms",
            NEVER,
            "Time of the event, since the start of the profile.",
        ),
        Column(
            "stack_bytes", pl.Int64(), "bytes", "not recorded", "Stack after the event."
        ),
        Column(
            "heap_bytes", pl.Int64(), "bytes", _UNKNOWN_USE, "Heap after the event."
        ),
        Column(
            "tensor_bytes",
            pl.Int64(),
            "bytes",
            "not told apart from the rest of the heap",
            "Part of the heap that the program has not freed (PyTorch: allocated); "
            "the rest is freed and waits for a stream that uses it.",
        ),
        Column(
            "free_bytes",
            pl.Int64(),
            "bytes",
            "not recorded",
            "Free memory after the event.",
        ),
        Column(
            "reserved_bytes",
            pl.Int64(),
            "bytes",
            "it is not recorded how much is free",
            "Stack, heap and free memory after the event: what the allocator holds.",
        ),
        Column(
            "fragmentation",
            pl.Float64(),
            "0 to 1",
            "not recorded, or nothing is free",
            "1 - largest free chunk / free memory.",
        ),
        Column(
            "event",
            pl.String(),
            "",
            NEVER,
            "allocation or deallocation; there before: a block that is older than the "
            "recording, or in use at the one instant that the file shows.",
        ),
        Column(
            "requested_bytes",
            pl.Int64(),
            "bytes",
            "not recorded",
            "Bytes that the allocation asked for; negative of a deallocation.",
        ),
        Column(
            "allocation_bytes",
            pl.Int64(),
            "bytes",
            "not recorded",
            "Size of the block; negative of a deallocation.",
        ),
        _OP,
        Column(
            "step_id",
            pl.Int64(),
            "",
            "in no step, or no steps are known",
            "Number of the step: that of the group that was stored, else that in "
            "whose host interval the event lies.",
        ),
        _REGION,
        _TYPE,
        _SHAPE,
        _SOURCE,
        Column(
            "memory_in_use_bytes",
            pl.Int64(),
            "bytes",
            _UNKNOWN_USE,
            "Stack and heap after the event.",
        ),
    ),
)
BREAKDOWN_ROWS: Final = TableSchema(
    "memories.breakdown",
    "blocks of one op, type and shape that were alive at one instant",
    "the largest first",
    (
        _OP,
        Column(
            "allocation_bytes",
            pl.Int64(),
            "bytes",
            "not recorded",
            "Sizes of the blocks added up.",
        ),
        Column(
            "requested_bytes",
            pl.Int64(),
            "bytes",
            "not recorded, or no single allocation",
            "Bytes that the blocks' allocations asked for, added up.",
        ),
        Column(
            "occurrences", pl.Int64(), "", "no single allocation", "Number of blocks."
        ),
        _REGION,
        _TYPE,
        _SHAPE,
        _SOURCE,
    ),
)
LINE_ROWS: Final = TableSchema(
    "memories.lines",
    "a line of the program whose blocks were alive at one instant",
    "the largest first",
    (
        _SOURCE,
        Column(
            "allocation_bytes",
            pl.Int64(),
            "bytes",
            NEVER,
            "Sizes of the blocks that the line asked for, added up.",
        ),
        Column(
            "share_percent",
            pl.Float64(),
            "percent",
            _UNKNOWN_USE,
            "Share of the memory in use.",
        ),
        Column("occurrences", pl.Int64(), "", NEVER, "Number of blocks."),
        Column(
            "stacks",
            pl.Int64(),
            "",
            NEVER,
            "Number of different call stacks that ended in the line.",
        ),
        Column(
            "stack",
            pl.String(),
            "",
            "not recorded",
            "The call stack that holds most, the innermost frame first.",
        ),
    ),
)
STEP_ROWS: Final = TableSchema(
    "memories.steps",
    "a step",
    "by time",
    (
        Column(
            "step_id", pl.Int64(), "", "the step has no number", "Number of the step."
        ),
        Column("name", pl.String(), "", "the step has no name", "Name of the step."),
        Column(
            "start_ms",
            pl.Float64(),
            "ms",
            NEVER,
            "Begin of the step, since the start of the profile.",
        ),
        Column(
            "end_ms",
            pl.Float64(),
            "ms",
            NEVER,
            "End of the step, since the start of the profile.",
        ),
        Column(
            "open_end",
            pl.Boolean(),
            "",
            NEVER,
            "Whether the step is the last one, whose end nothing shows.",
        ),
        Column(
            "start_bytes",
            pl.Int64(),
            "bytes",
            _UNKNOWN_USE,
            "Memory in use when the step began.",
        ),
        Column(
            "end_bytes",
            pl.Int64(),
            "bytes",
            _UNKNOWN_USE,
            "Memory in use when the step ended.",
        ),
        Column(
            "growth_bytes",
            pl.Int64(),
            "bytes",
            _UNKNOWN_USE,
            "Memory in use at the end of the step less that at its begin.",
        ),
        Column(
            "min_bytes",
            pl.Int64(),
            "bytes",
            _UNKNOWN_USE,
            "Least memory in use in the step.",
        ),
        Column(
            "max_bytes",
            pl.Int64(),
            "bytes",
            _UNKNOWN_USE,
            "Greatest memory in use in the step.",
        ),
    ),
)
