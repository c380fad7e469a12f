"""The table of a view of `model_views`: what each column is."""

from __future__ import annotations

from typing import Final

import polars as pl

from stepscope.trace.schema import NEVER, Column, TableSchema

VIEW_ROWS: Final = TableSchema(
    "scope",
    "a node of the model",
    "depth first",
    (
        Column("id", pl.Int64(), "", NEVER, "Number of the node in the order shown."),
        Column(
            "parent",
            pl.Int64(),
            "",
            "a root",
            "Number of the nearest shown node above this one.",
        ),
        Column("depth", pl.Int64(), "", NEVER, "Depth of the node; 1 is a root."),
        Column(
            "name",
            pl.String(),
            "",
            NEVER,
            "Whole path of a scope, else the op, the type or the line.",
        ),
        Column(
            "type",
            pl.String(),
            "",
            "a scope, or ops of several types",
            "Type of the node's op.",
        ),
        Column(
            "occurrences",
            pl.Int64(),
            "",
            NEVER,
            "Number of executions in the node and beneath it; an op that both a "
            "host and a device show counts once.",
        ),
        Column(
            "total_us",
            pl.Float64(),
            "us",
            NEVER,
            "Self time on hosts and time on devices, of the node and all nodes "
            "beneath it.",
        ),
        Column(
            "self_us",
            pl.Float64(),
            "us",
            NEVER,
            "Self time on hosts and time on devices, without the nodes beneath.",
        ),
        Column(
            "percent",
            pl.Float64(),
            "percent",
            "no time was recorded",
            "Share of the total time that is accounted.",
        ),
        Column(
            "host_us",
            pl.Float64(),
            "us",
            "host time was not recorded",
            "The host's part of self_us.",
        ),
        Column(
            "device_us",
            pl.Float64(),
            "us",
            "device time was not recorded",
            "The devices' part of self_us.",
        ),
        Column(
            "total_host_us",
            pl.Float64(),
            "us",
            "host time was not recorded",
            "The host's part of total_us.",
        ),
        Column(
            "total_device_us",
            pl.Float64(),
            "us",
            "device time was not recorded",
            "The devices' part of total_us.",
        ),
        Column(
            "flops",
            pl.Int64(),
            "FLOP",
            "known of no execution",
            "Floating-point operations of the executions whose operations are "
            "known, nodes beneath included.",
        ),
        Column(
            "self_flops",
            pl.Int64(),
            "FLOP",
            "known of no execution",
            "Floating-point operations of the executions whose operations are "
            "known, without the nodes beneath.",
        ),
        Column(
            "flops_known_percent",
            pl.Float64(),
            "percent",
            "the node took no time",
            "Share of the node's total time taken by ops with known operations; "
            "below 100 flops is a lower bound.",
        ),
        Column(
            "parameters",
            pl.Int64(),
            "elements",
            "the view shows none, or no variables are known",
            "Elements of the model's variables as described, else of those that "
            "layers read; each counts once, where it is read first, and of several "
            "hosts that with most.",
        ),
        Column(
            "allocated_bytes",
            pl.Int64(),
            "bytes",
            "no allocation names an op of the node",
            "Sum of the allocations that name an op of the node that ran; not what "
            "was alive at once.",
        ),
    ),
)
_NO_LINE: Final = "what no line is known of"
_NO_HOST: Final = "host time was not recorded"
_NO_DEVICE: Final = (
    "device time was not recorded, or the launch calls of a function were not"
)

SOURCE_ROWS: Final = TableSchema(
    "source",
    "a line of the program, or a function at its first line",
    "by self time, the longest first; what no line is known of comes last",
    (
        Column("name", pl.String(), "", NEVER, "File, line and function in one text."),
        Column(
            "file",
            pl.String(),
            "",
            _NO_LINE,
            "File of the line as it was recorded: a path, or the file's own name.",
        ),
        Column("line", pl.Int64(), "", _NO_LINE, "Number of the line, from 1."),
        Column(
            "function",
            pl.String(),
            "",
            "an op names the line",
            "Function that the line is in.",
        ),
        Column(
            "exact",
            pl.Boolean(),
            "",
            _NO_LINE,
            "Whether the times are of this very line, as an op names it or looks at "
            "the stack found it; where it is false, of all lines of the function, "
            "which begins at this one.",
        ),
        Column(
            "library",
            pl.Boolean(),
            "",
            "the recording does not say it",
            "Whether the file belongs to an installed package or to Python.",
        ),
        Column(
            "op",
            pl.String(),
            "",
            "no op names the line",
            "Op with most time among those that name the line.",
        ),
        Column(
            "event",
            pl.String(),
            "",
            "an op names the line",
            "Name of the function's events on the timeline.",
        ),
        Column(
            "self_us",
            pl.Float64(),
            "us",
            NEVER,
            "Self time on hosts, and time of the device work launched by the line.",
        ),
        Column(
            "percent",
            pl.Float64(),
            "percent",
            "no time was recorded",
            "Share of the time of all lines.",
        ),
        Column(
            "host_us",
            pl.Float64(),
            "us",
            _NO_HOST,
            "Time of the host's threads in which the line, or the function, was the "
            "innermost that is known.",
        ),
        Column(
            "total_host_us",
            pl.Float64(),
            "us",
            _NO_HOST,
            "The same with all that the line or the function called; threads add up.",
        ),
        Column(
            "device_us",
            pl.Float64(),
            "us",
            _NO_DEVICE,
            "Sum of the times of the device work whose op names the line, or that the "
            "function launched itself.",
        ),
        Column(
            "total_device_us",
            pl.Float64(),
            "us",
            _NO_DEVICE,
            "The same with the device work that the function's callees launched.",
        ),
    ),
)
