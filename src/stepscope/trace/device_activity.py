"""`device_activity` and `geometries`: everything that ran on a device."""

from __future__ import annotations

from typing import Final

import polars as pl

from stepscope.trace.schema import NEVER, Column, TableSchema

ACTIVITY_KINDS: Final = pl.Enum(
    [
        *("kernel", "collective", "h2d", "d2h", "p2p_copy", "local_copy", "memset"),
        # Nothing is computed: the device waits for a transfer that began earlier.
        "transfer_wait",
    ]
)

DEVICE_ACTIVITY: Final = TableSchema(
    "device_activity",
    "one kernel, collective, copy or memset",
    "by start within a track; tracks in order of `tracks`",
    (
        Column(
            "event",
            pl.Int32(),
            "row of events",
            "the format has no timeline",
            "The activity's slice in `events`, on its stream.",
        ),
        Column(
            "track",
            pl.Int32(),
            "row of tracks",
            NEVER,
            "Track of the stream that the activity ran on.",
        ),
        Column("device", pl.Int32(), "ordinal", NEVER, "Number of the device."),
        Column("stream", pl.Int64(), "", NEVER, "Id of the stream as recorded."),
        Column("kind", ACTIVITY_KINDS, "", NEVER, "Kind of the activity."),
        Column(
            "type", pl.Int32(), "row of event_types", NEVER, "Name of the activity."
        ),
        Column(
            "start_ps",
            pl.Int64(),
            "ps",
            NEVER,
            "When it began, since the start of the profile.",
        ),
        Column("dur_ps", pl.Int64(), "ps", NEVER, "Duration, at least 0."),
        Column(
            "correlation",
            pl.Int64(),
            "",
            "not recorded",
            "Number that this activity and the launch call of its process share.",
        ),
        Column(
            "process",
            pl.Int64(),
            "pid",
            "not recorded",
            "Process that launched the activity.",
        ),
        Column(
            "geometry",
            pl.Int32(),
            "row of geometries",
            "no kernel, or its details were not recorded",
            "Launch shape and resources of the kernel.",
        ),
        Column(
            "bytes",
            pl.Int64(),
            "bytes",
            "not recorded",
            "Number of bytes that a copy moves or a memset writes.",
        ),
        Column(
            "op",
            pl.Int32(),
            "handle of strings",
            "no op annotation",
            "Annotation of the framework op, `scope/name:Type` as recorded.",
        ),
        Column(
            "hlo_op",
            pl.Int32(),
            "handle of strings",
            "not from a compiled program",
            "HLO instruction, outermost first where nested (`a::b`).",
        ),
        Column(
            "hlo_module",
            pl.Int32(),
            "handle of strings",
            "not from a compiled program",
            "HLO module that holds the instruction.",
        ),
        Column(
            "program",
            pl.Int64(),
            "",
            "not from a compiled program",
            "Program id of the HLO module.",
        ),
        Column(
            "shape",
            pl.Int32(),
            "handle of strings",
            "not recorded",
            "Shapes of the operands with element types, as recorded.",
        ),
        Column(
            "equation",
            pl.Int32(),
            "handle of strings",
            "not recorded",
            "Einsum equation, as recorded.",
        ),
        Column(
            "group",
            pl.Int64(),
            "",
            "the producer did not group",
            "Number of the step group that the producer stored.",
        ),
    ),
)

GEOMETRIES: Final = TableSchema(
    "geometries",
    "one distinct launch shape with its resources",
    "first appearance; the row number is the handle",
    (
        Column(
            "registers",
            pl.Int32(),
            "",
            "not recorded or impossible",
            "Registers per thread.",
        ),
        Column(
            "static_shared_memory_bytes",
            pl.Int64(),
            "bytes",
            "not recorded apart",
            "Shared memory per block that the kernel declares.",
        ),
        Column(
            "dynamic_shared_memory_bytes",
            pl.Int64(),
            "bytes",
            "not recorded apart",
            "Shared memory per block that the launch asks for.",
        ),
        Column(
            "shared_memory_bytes",
            pl.Int64(),
            "bytes",
            "not recorded",
            "Static and dynamic shared memory per block.",
        ),
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
            "occupancy_percent",
            pl.Float64(),
            "0 to 100",
            "not recorded",
            "Theoretical occupancy of the kernel, as the tracer computed it.",
        ),
    ),
)
