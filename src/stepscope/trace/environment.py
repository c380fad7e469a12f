"""`environment`: what the program and the capture were; one row."""

from __future__ import annotations

from typing import Final

import polars as pl

from stepscope.trace.schema import NEVER, Column, TableSchema

__all__ = ["ENVIRONMENT"]

_LEVEL = "not recorded by this producer"

ENVIRONMENT: Final = TableSchema(
    "environment",
    "the capture of one host",
    "one row",
    (
        Column("file", pl.String(), "", NEVER, "Path that was read."),
        Column("format", pl.String(), "", NEVER, "Format of the file."),
        Column("file_bytes", pl.Int64(), "bytes", NEVER, "Size of the file."),
        Column("hostname", pl.String(), "", "not recorded", "As the file says."),
        Column(
            "start_unix_ns", pl.Int64(), "ns", "not recorded", "Absolute time of 0."
        ),
        Column("stop_unix_ns", pl.Int64(), "ns", "not recorded", "End of recording."),
        Column("host_tracer_level", pl.Int64(), "", _LEVEL, "In force."),
        Column("device_tracer_level", pl.Int64(), "", _LEVEL, "In force."),
        Column("python_tracer_level", pl.Int64(), "", _LEVEL, "In force."),
        Column(
            "processes",
            pl.Int64(),
            "",
            "not recorded",
            "Processes that take part in the run, this one included.",
        ),
        Column("grouped", pl.Boolean(), "", NEVER, "The producer stored step groups."),
        Column("begin_ps", pl.Int64(), "ps", "no events", "Start of the first event."),
        Column("end_ps", pl.Int64(), "ps", "no events", "End of the last event."),
    ),
)
