"""`events`, `event_types` and `aggregates`: what happened on the tracks."""

from __future__ import annotations

from typing import Final

import polars as pl

from stepscope.trace.schema import NEVER, Column, TableSchema

EVENTS: Final = TableSchema(
    "events",
    "a slice on a track; a slice of no length is an instant",
    "by track; in a track by start ascending, duration descending, then file order",
    (
        Column("track", pl.Int32(), "row of tracks", NEVER, "Track of the slice."),
        Column("type", pl.Int32(), "row of event_types", NEVER, "Name of the event."),
        Column(
            "start_ps",
            pl.Int64(),
            "ps",
            NEVER,
            "When it began, since the start of the profile.",
        ),
        Column("dur_ps", pl.Int64(), "ps", NEVER, "Duration, at least 0."),
    ),
)

EVENT_TYPES: Final = TableSchema(
    "event_types",
    "one distinct event name of a group of tracks; a name whose events are of several "
    "sorts for the producer (ops, named ranges, others) has one row for each",
    "file order; the row number is the type's handle",
    (
        Column("name", pl.String(), "", NEVER, "Name of the event, as recorded."),
        Column(
            "display_name",
            pl.String(),
            "",
            "none recorded: the name is shown",
            "Shorter name of the event for the screen.",
        ),
        Column(
            "known",
            pl.Boolean(),
            "",
            NEVER,
            "Whether the file holds the name to which its events refer.",
        ),
        Column(
            "op",
            pl.Boolean(),
            "",
            "the producer does not say: the name decides",
            "Whether the producer says that these events are executions of ops.",
        ),
        Column(
            "annotation",
            pl.Boolean(),
            "",
            "the producer does not say: the name decides",
            "Whether the producer says that these events are ranges that the program, "
            "or a library in it, named.",
        ),
    ),
)

AGGREGATES: Final = TableSchema(
    "aggregates",
    "events without times of their own, counted by the producer",
    "file order",
    (
        Column("track", pl.Int32(), "row of tracks", NEVER, "Track of the events."),
        Column("type", pl.Int32(), "row of event_types", NEVER, "Name of the events."),
        Column("occurrences", pl.Int64(), "", NEVER, "Number of events."),
        Column("dur_ps", pl.Int64(), "ps", NEVER, "Sum of the events' durations."),
    ),
)
