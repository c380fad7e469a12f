"""`events`, `event_types` and `aggregates`: what happened on the tracks."""

from __future__ import annotations

from typing import Final

import polars as pl

from stepscope.trace.schema import NEVER, Column, TableSchema

__all__ = ["AGGREGATES", "EVENTS", "EVENT_TYPES"]

EVENTS: Final = TableSchema(
    "events",
    "a slice on a track; a slice of no length is an instant",
    "by track; in a track by start ascending, duration descending, then file order",
    (
        Column("track", pl.Int32(), "row of tracks", NEVER, "Where it happened."),
        Column("type", pl.Int32(), "row of event_types", NEVER, "What happened."),
        Column("start_ps", pl.Int64(), "ps", NEVER, "Since the start of the profile."),
        Column("dur_ps", pl.Int64(), "ps", NEVER, "Duration, at least 0."),
    ),
)

EVENT_TYPES: Final = TableSchema(
    "event_types",
    "one distinct event name of a group of tracks; a name whose events are partly "
    "executions of ops has one row for those and one for the others",
    "file order; the row number is the type's handle",
    (
        Column("name", pl.String(), "", NEVER, "The name as recorded."),
        Column(
            "display_name",
            pl.String(),
            "",
            "none recorded: the name is shown",
            "A shorter name for the screen.",
        ),
        Column(
            "known",
            pl.Boolean(),
            "",
            NEVER,
            "False where the file refers to a name that it does not hold.",
        ),
        Column(
            "op",
            pl.Boolean(),
            "",
            "the producer does not say: the name decides",
            "Whether the producer says that these events are executions of ops.",
        ),
    ),
)

AGGREGATES: Final = TableSchema(
    "aggregates",
    "events without times of their own, counted by the producer",
    "file order",
    (
        Column("track", pl.Int32(), "row of tracks", NEVER, "Where they happened."),
        Column("type", pl.Int32(), "row of event_types", NEVER, "What happened."),
        Column("occurrences", pl.Int64(), "", NEVER, "How many there were."),
        Column("dur_ps", pl.Int64(), "ps", NEVER, "Their durations added up."),
    ),
)
