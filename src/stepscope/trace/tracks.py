"""`tracks`: where events happened."""

from __future__ import annotations

from typing import Final

import polars as pl

from stepscope.trace.schema import NEVER, Column, TableSchema

TRACK_KINDS: Final = pl.Enum(
    [
        "thread",
        "stream",
        "core",
        "derived",
        "asynchronous",
        "counters",
        "overhead",
        "samples",
    ]
)

#: What a derived track repeats; such time is never added to totals.
DERIVED_LINES: Final = pl.Enum(
    [
        "steps",
        "launch_stats",
        "name_scope",
        "framework_ops",
        "xla_modules",
        "xla_ops",
        "source",
        "other",
    ]
)

TRACKS: Final = TableSchema(
    "tracks",
    "a thread, a device stream, a device core, or a line that the producer derived",
    "file order; the row number is the track's handle",
    (
        Column("plane", pl.String(), "", NEVER, "Name of the group of tracks (plane)."),
        Column(
            "name", pl.String(), "", NEVER, "Name of the track as shown; not unique."
        ),
        Column(
            "kind",
            TRACK_KINDS,
            "",
            NEVER,
            "Threads, cores, derived lines and samples of a thread's functions nest; "
            "streams are flat; asynchronous, counter and overhead tracks neither nest "
            "nor hold others.",
        ),
        Column(
            "derived",
            DERIVED_LINES,
            "",
            "not a derived track",
            "View of other tracks' time that this track repeats.",
        ),
        Column("device", pl.Int32(), "ordinal", "a host track", "Device of the track."),
        Column("process", pl.Int64(), "pid", "not recorded", "Process of the track."),
        Column(
            "id", pl.Int64(), "", NEVER, "Thread or stream id as recorded (64 bits)."
        ),
        Column(
            "event_begin",
            pl.Int64(),
            "row of events",
            NEVER,
            "Row of the track's first event.",
        ),
        Column(
            "event_end",
            pl.Int64(),
            "row of events",
            NEVER,
            "Row after the track's last event.",
        ),
    ),
)
