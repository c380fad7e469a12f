"""The tables of `trace_viewer`: what each column is."""

from __future__ import annotations

from typing import Final

import polars as pl

from stepscope.analysis.results.columns import HOST
from stepscope.trace.schema import NEVER, Column, TableSchema

__all__ = ["TRACE_SECTIONS", "TRACE_TRACKS"]

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
            "The processing element that it belongs to.",
        ),
        Column("name", pl.String(), "", NEVER, "Its shown name."),
        Column(
            "kind", pl.String(), "", NEVER, "As in the table tracks: thread, stream, …"
        ),
        Column(
            "view",
            pl.String(),
            "",
            "a view of no other tracks",
            "Which view of other tracks' time a derived one is.",
        ),
        Column("recorded", pl.Boolean(), "", NEVER, "False for what is derived here."),
        Column(
            "spans",
            pl.Int64(),
            "",
            NEVER,
            "Events of the track, or spans of a derived line.",
        ),
        Column(
            "drawn", pl.Int64(), "", NEVER, "Of them, those that are shown unasked."
        ),
        Column("rows", pl.Int32(), "", NEVER, "Rows that it needs."),
        Column(
            "start_ms",
            pl.Float64(),
            "ms",
            "nothing is on it",
            "First start, since the start of the (first) profile.",
        ),
        Column("end_ms", pl.Float64(), "ms", "nothing is on it", "Last end, likewise."),
        Column(
            "process", pl.Int32(), "pid", NEVER, "Its process in the exported trace."
        ),
        Column("thread", pl.Int32(), "tid", NEVER, "Its first thread there."),
        Column("lanes", pl.Int32(), "", NEVER, "Threads that it takes there."),
        Column(
            "folded", pl.Boolean(), "", NEVER, "Bookkeeping that is shown on request."
        ),
    ),
)
TRACE_SECTIONS: Final = TableSchema(
    "sections",
    "a processing element",
    "as it is displayed",
    (
        HOST,
        Column("name", pl.String(), "", NEVER, "Its name, as recorded."),
        Column(
            "kind",
            pl.String(),
            "",
            NEVER,
            "What it is: a device, the host's threads, …",
        ),
        Column(
            "label",
            pl.String(),
            "",
            "nothing is said of it",
            "What is said of it beside its name.",
        ),
        Column("device", pl.Int32(), "ordinal", "no device", "Its device."),
        Column(
            "recorded_process",
            pl.Int64(),
            "pid",
            "not recorded",
            "Process, as recorded.",
        ),
        Column(
            "process", pl.Int32(), "pid", NEVER, "Its process in the exported trace."
        ),
        Column("tracks", pl.Int64(), "", NEVER, "How many tracks it has."),
        Column("spans", pl.Int64(), "", NEVER, "What is on them."),
    ),
)
