"""`launches`: host calls that put work on a device."""

from __future__ import annotations

from typing import Final

import polars as pl

from stepscope.trace.schema import NEVER, Column, TableSchema

LAUNCHES: Final = TableSchema(
    "launches",
    "a host event that carries a correlation id",
    "by row of events",
    (
        Column(
            "event",
            pl.Int32(),
            "row of events",
            NEVER,
            "The launch call's slice in `events`.",
        ),
        Column(
            "track",
            pl.Int32(),
            "row of tracks",
            NEVER,
            "Track of the thread that made the call.",
        ),
        Column(
            "type", pl.Int32(), "row of event_types", NEVER, "Name of the launch call."
        ),
        Column(
            "start_ps",
            pl.Int64(),
            "ps",
            NEVER,
            "When the call began, since the start of the profile.",
        ),
        Column("dur_ps", pl.Int64(), "ps", NEVER, "Duration of the call."),
        Column(
            "correlation",
            pl.Int64(),
            "",
            NEVER,
            "Number that the call shares with what it launched; unique in a process.",
        ),
        Column(
            "process", pl.Int64(), "pid", "not recorded", "Process that made the call."
        ),
    ),
)
