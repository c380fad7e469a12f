"""The tables of `trace_viewer`: what each column is."""

from __future__ import annotations

from typing import Final

import polars as pl

from stepscope.analysis.results.columns import HOST
from stepscope.trace.schema import NEVER, Column, TableSchema

TRACE_TRACKS: Final = TableSchema(
    "tracks",
    "a track",
    "as it is displayed",
    (
        HOST,
        Column(
            "section",
            pl.String(),
            "",
            NEVER,
            "Name of the processing element that the track belongs to.",
        ),
        Column("name", pl.String(), "", NEVER, "Displayed name of the track."),
        Column(
            "kind",
            pl.String(),
            "",
            NEVER,
            "Kind of the track, as in the table tracks: thread, stream, …",
        ),
        Column(
            "view",
            pl.String(),
            "",
            "a view of no other tracks",
            "View of other tracks' time that a derived track is.",
        ),
        Column(
            "recorded",
            pl.Boolean(),
            "",
            NEVER,
            "Whether the track was recorded; false for a derived one.",
        ),
        Column(
            "spans",
            pl.Int64(),
            "",
            NEVER,
            "Events of the track, or spans of a derived line.",
        ),
        Column(
            "drawn",
            pl.Int64(),
            "",
            NEVER,
            "Number of spans that are shown without being asked for.",
        ),
        Column("rows", pl.Int32(), "", NEVER, "Number of rows that the track needs."),
        Column(
            "start_ms",
            pl.Float64(),
            "ms",
            "nothing is on it",
            "Start of the first span, since the start of the (first) profile.",
        ),
        Column(
            "end_ms",
            pl.Float64(),
            "ms",
            "nothing is on it",
            "End of the last span, since the start of the (first) profile.",
        ),
        Column(
            "process",
            pl.Int32(),
            "pid",
            NEVER,
            "Process of the track in the exported trace.",
        ),
        Column(
            "thread",
            pl.Int32(),
            "tid",
            NEVER,
            "First thread of the track in the exported trace.",
        ),
        Column(
            "lanes",
            pl.Int32(),
            "",
            NEVER,
            "Number of threads that the track takes in the exported trace.",
        ),
        Column(
            "folded",
            pl.Boolean(),
            "",
            NEVER,
            "Whether the track holds bookkeeping that is shown on request.",
        ),
    ),
)
TRACE_SECTIONS: Final = TableSchema(
    "sections",
    "a processing element",
    "as it is displayed",
    (
        HOST,
        Column(
            "name",
            pl.String(),
            "",
            NEVER,
            "Name of the processing element, as recorded.",
        ),
        Column(
            "kind",
            pl.String(),
            "",
            NEVER,
            "Kind of the processing element: a device, the host's threads, …",
        ),
        Column(
            "label",
            pl.String(),
            "",
            "it has no description",
            "Description of the processing element beside its name.",
        ),
        Column("device", pl.Int32(), "ordinal", "no device", "Ordinal of the device."),
        Column(
            "recorded_process",
            pl.Int64(),
            "pid",
            "not recorded",
            "Number of the process, as recorded.",
        ),
        Column(
            "process",
            pl.Int32(),
            "pid",
            NEVER,
            "Process of the section in the exported trace.",
        ),
        Column("tracks", pl.Int64(), "", NEVER, "Number of tracks in the section."),
        Column(
            "spans", pl.Int64(), "", NEVER, "Number of spans on the section's tracks."
        ),
    ),
)
