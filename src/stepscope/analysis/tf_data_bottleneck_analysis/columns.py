"""The tables of `tf_data_bottleneck_analysis`: what each column is."""

from __future__ import annotations

from typing import Final

import polars as pl

from stepscope.analysis.results.columns import HOST
from stepscope.trace.schema import NEVER, Column, TableSchema

_PIPELINE: Final = Column(
    "pipeline", pl.String(), "", NEVER, "Name of the pipeline: Host:0, Device:1, …"
)
_TRANSPARENT: Final = "the call holds no stage but transparent ones"

BOTTLENECK_ROWS: Final = TableSchema(
    "bottlenecks",
    "the slowest call of a host's pipeline",
    "by its latency",
    (
        HOST,
        _PIPELINE,
        Column("max_latency_us", pl.Float64(), "us", NEVER, "How long the call lasts."),
        Column(
            "input_bound",
            pl.Boolean(),
            "",
            "not known",
            "Whether the steps of the run wait for input, as `input.bound` decides.",
        ),
        Column(
            "bottleneck_type",
            pl.String(),
            "",
            _TRANSPARENT,
            "Transformation that the call waited for most.",
        ),
        Column(
            "bottleneck_long_name",
            pl.String(),
            "",
            _TRANSPARENT,
            "Long name: all stages from the last one up to this one.",
        ),
        Column(
            "bottleneck_self_us",
            pl.Float64(),
            "us",
            _TRANSPARENT,
            "Self time of the bottleneck in the call.",
        ),
        Column(
            "bottleneck_calls",
            pl.Int64(),
            "",
            _TRANSPARENT,
            "Number of executions of the bottleneck in the call.",
        ),
        Column(
            "suggestion_kind",
            pl.String(),
            "",
            _TRANSPARENT,
            "Stable name of the suggestion.",
        ),
        Column(
            "suggestion",
            pl.String(),
            "",
            _TRANSPARENT,
            "What to do about the bottleneck.",
        ),
    ),
)
PIPELINE_ROWS: Final = TableSchema(
    "pipelines",
    "an input pipeline",
    "by host and appearance",
    (
        HOST,
        _PIPELINE,
        Column(
            "kind",
            pl.String(),
            "",
            NEVER,
            "Whether the pipeline feeds a host or a device.",
        ),
        Column(
            "long_name",
            pl.String(),
            "",
            NEVER,
            "Long name of the pipeline's last stage.",
        ),
        Column(
            "calls",
            pl.Int64(),
            "",
            NEVER,
            "Number of calls that asked the pipeline for an element.",
        ),
        Column(
            "min_latency_us",
            pl.Float64(),
            "us",
            "no call was recorded",
            "The shortest call.",
        ),
        Column(
            "mean_latency_us",
            pl.Float64(),
            "us",
            "no call was recorded",
            "Mean of the calls.",
        ),
        Column(
            "max_latency_us",
            pl.Float64(),
            "us",
            "no call was recorded",
            "The longest call.",
        ),
        Column("slow_calls", pl.Int64(), "", NEVER, "Calls longer than 50 µs."),
    ),
)
STAGE_ROWS: Final = TableSchema(
    "stages",
    "a stage of a call that a graph shows",
    "as the graphs; within one those nearest to the consumer first",
    (
        HOST,
        _PIPELINE,
        Column(
            "rank",
            pl.Int64(),
            "",
            NEVER,
            "Place of the call by latency, 0 for the slowest of its pipeline.",
        ),
        Column("name", pl.String(), "", NEVER, "The long name."),
        Column(
            "type",
            pl.String(),
            "",
            NEVER,
            "The transformation, without index and version.",
        ),
        Column(
            "start_us",
            pl.Float64(),
            "us",
            NEVER,
            "Start of the stage's first execution in the call, since the start of "
            "the profile.",
        ),
        Column(
            "total_us",
            pl.Float64(),
            "us",
            NEVER,
            "Time of the stage's executions added up; it may exceed the call's "
            "latency.",
        ),
        Column(
            "self_us",
            pl.Float64(),
            "us",
            NEVER,
            "Time of the stage's executions without what its immediate children "
            "overlap.",
        ),
        Column("calls", pl.Int64(), "", NEVER, "Executions in this call."),
        Column(
            "critical",
            pl.Boolean(),
            "",
            NEVER,
            "Whether the call waited for the stage: it lies on the critical path.",
        ),
        Column(
            "bottleneck",
            pl.Boolean(),
            "",
            NEVER,
            "Whether the stage has the longest self time on the critical path.",
        ),
        Column(
            "critical_time_us",
            pl.Float64(),
            "us",
            NEVER,
            "Part of the call's wall time that is charged to the stage.",
        ),
        Column(
            "asynchronous",
            pl.Boolean(),
            "",
            NEVER,
            "Whether the stage fetches its elements on threads of its own.",
        ),
        Column(
            "id",
            pl.String(),
            "",
            NEVER,
            "Id of the stage as recorded, in decimal; the long name where no id was"
            " recorded.",
        ),
    ),
)
WAIT_ROWS: Final = TableSchema(
    "waits",
    "a host",
    "in the order of the hosts",
    (
        HOST,
        Column("steps", pl.Int64(), "", NEVER, "Steps that were looked at."),
        Column(
            "exposed_wait_ms_per_step",
            pl.Float64(),
            "ms",
            "not known",
            "Time that a step waits for input while nothing else keeps it busy.",
        ),
        Column(
            "exposed_wait_percent",
            pl.Float64(),
            "percent",
            "not known",
            "Time that a step waits for input while nothing else keeps it busy, as "
            "a share of the steps' time.",
        ),
    ),
)
