"""`launches`: host calls that put work on a device."""

from __future__ import annotations

from typing import Final

import polars as pl

from stepscope.trace.schema import NEVER, Column, TableSchema

__all__ = ["LAUNCHES"]

LAUNCHES: Final = TableSchema(
    "launches",
    "a host event that carries a correlation id",
    "by row of events",
    (
        Column("event", pl.Int32(), "row of events", NEVER, "The host event."),
        Column("track", pl.Int32(), "row of tracks", NEVER, "The thread."),
        Column("type", pl.Int32(), "row of event_types", NEVER, "Name of the call."),
        Column("start_ps", pl.Int64(), "ps", NEVER, "Since the start of the profile."),
        Column("dur_ps", pl.Int64(), "ps", NEVER, "Duration of the call."),
        Column("correlation", pl.Int64(), "", NEVER, "Unique among a process's calls."),
        Column("process", pl.Int64(), "pid", "not recorded", "Calling process."),
    ),
)
