"""The tables of `input_pipeline_analyzer`: what each column is."""

from __future__ import annotations

from typing import Final

import polars as pl

from stepscope.analysis.results.columns import HOST
from stepscope.trace.schema import NEVER, Column, TableSchema

_UNSEEN: Final = "it could not be looked at"

DEVICE_ROWS: Final = TableSchema(
    "devices",
    "a device of a host",
    "by host and device",
    (
        HOST,
        Column(
            "device",
            pl.Int32(),
            "ordinal",
            "no device could be looked at",
            "The device.",
        ),
        Column("steps", pl.Int64(), "", NEVER, "Number of counted steps."),
        Column(
            "input_percent",
            pl.Float64(),
            "percent",
            _UNSEEN,
            "Share of the device's time that waits for input or transfers it.",
        ),
        Column(
            "input_wait_percent",
            pl.Float64(),
            "percent",
            _UNSEEN,
            "Share of the device's time that waits for input while the device idles.",
        ),
        Column(
            "input_transfer_percent",
            pl.Float64(),
            "percent",
            _UNSEEN,
            "Share of the device's time taken by input transfers that nothing hides.",
        ),
    ),
)
#: Definition: docs/tools/input_pipeline_analyzer.md#host-side.
INPUT_OPS: Final = TableSchema(
    "input_ops",
    "an input op of a host",
    "by self time, then name, then host",
    (
        Column(
            "name",
            pl.String(),
            "",
            NEVER,
            "Name of the op: a stage of a pipeline, a loop over a loader, a copy, …",
        ),
        Column("count", pl.Int64(), "", NEVER, "Number of executions of the op."),
        Column(
            "total_time_us",
            pl.Float64(),
            "us",
            NEVER,
            "Time of the op, inner ops included; of recursive calls the outermost "
            "only.",
        ),
        Column(
            "total_time_percent",
            pl.Float64(),
            "percent",
            "the ops take no time",
            "Total time as a share of the self times of all input ops of all hosts.",
        ),
        Column(
            "self_time_us",
            pl.Float64(),
            "us",
            NEVER,
            "Time of the op without the input ops inside it on its thread.",
        ),
        Column(
            "self_time_percent",
            pl.Float64(),
            "percent",
            "the ops take no time",
            "Self time as a share of the self times of all input ops of all hosts.",
        ),
        Column(
            "category",
            pl.String(),
            "",
            NEVER,
            "demanded_file_read, advanced_file_read, preprocessing, enqueue or "
            "unclassified; waiting_for_workers where the call does no work but waits "
            "for the loader's worker processes.",
        ),
        Column(
            "critical_time_ms",
            pl.Float64(),
            "ms",
            "no stage of a pipeline",
            "Wall time of pipeline calls that the stage is charged with.",
        ),
        Column(
            "threads", pl.Int64(), "", NEVER, "Number of threads on which the op ran."
        ),
        HOST,
    ),
)
_NO_FUNCTION: Final = "it is in no function that is told apart"
#: Definition: docs/tools/input_pipeline_analyzer.md#worker-processes.
WORKER_FUNCTIONS: Final = TableSchema(
    "worker_functions",
    "a function that worker processes of a host are in, or what else they do",
    "by host; functions by time, then what else they do",
    (
        Column(
            "state",
            pl.String(),
            "",
            NEVER,
            "works; hands_over where they hand over what they made; waits_for_work "
            "where they have nothing to do.",
        ),
        Column(
            "function",
            pl.String(),
            "",
            _NO_FUNCTION,
            "The program's own function, a library's where none of the program's ran.",
        ),
        Column(
            "inside",
            pl.String(),
            "",
            "most of it is the function's own",
            "The function that it calls to which most of the time goes.",
        ),
        Column("file", pl.String(), "", _NO_FUNCTION, "The file that holds it."),
        Column("line", pl.Int64(), "", _NO_FUNCTION, "Its first line there."),
        Column(
            "hot_line",
            pl.Int64(),
            "",
            "not recorded",
            "The line of the function that takes most of its time.",
        ),
        Column(
            "time_ms",
            pl.Float64(),
            "ms",
            NEVER,
            "Its time within the steps, all workers added up, with all that it calls "
            "as far as that has no row of its own.",
        ),
        Column(
            "time_percent",
            pl.Float64(),
            "percent",
            NEVER,
            "The same as a share of the time for which the workers of the host were "
            "looked at: the rows of a host add up to 100.",
        ),
        Column("workers", pl.Int64(), "", NEVER, "Workers that were looked at."),
        HOST,
    ),
)
