"""The tables of annotations in `model_views`: what each column is."""

from __future__ import annotations

from typing import Final

import polars as pl

from stepscope.trace.schema import NEVER, Column, TableSchema

_NO_DEVICE: Final = "the launches of device work were not recorded, or in no range"
_NO_STEP: Final = "the host has no steps"

ANNOTATION_ROWS: Final = TableSchema(
    "annotation",
    "a range that the program named, inside the same ranges",
    "depth first",
    (
        Column("id", pl.Int64(), "", NEVER, "Number of the node in the order shown."),
        Column(
            "parent",
            pl.Int64(),
            "",
            "a root",
            "Number of the nearest shown range around this one.",
        ),
        Column("depth", pl.Int64(), "", NEVER, "Depth of the node; 1 is a root."),
        Column(
            "name",
            pl.String(),
            "",
            NEVER,
            "Name of the range; a number that counts steps is left out.",
        ),
        Column(
            "library",
            pl.Boolean(),
            "",
            NEVER,
            "Whether a framework puts ranges of this name around its own work.",
        ),
        Column("occurrences", pl.Int64(), "", NEVER, "Number of calls of the range."),
        Column(
            "total_us",
            pl.Float64(),
            "us",
            NEVER,
            "Time of the host's clock in the range, ranges inside included; threads "
            "add up.",
        ),
        Column(
            "self_us",
            pl.Float64(),
            "us",
            NEVER,
            "Time of the host's clock in the range and in none inside it.",
        ),
        Column(
            "percent",
            pl.Float64(),
            "percent",
            "the ranges took no time",
            "Share of the time that threads spent in named ranges.",
        ),
        Column(
            "total_device_us",
            pl.Float64(),
            "us",
            _NO_DEVICE,
            "Sum of the times of device work that was launched in the range, ranges "
            "inside included.",
        ),
        Column(
            "device_us",
            pl.Float64(),
            "us",
            _NO_DEVICE,
            "Sum of the times of device work that was launched in the range and in "
            "none inside it.",
        ),
        Column(
            "device_busy_us",
            pl.Float64(),
            "us",
            _NO_DEVICE,
            "Time in which work that was launched in the range (ranges inside "
            "included) ran on a device; what overlaps counts once, devices add up.",
        ),
        Column(
            "launches",
            pl.Int64(),
            "",
            _NO_DEVICE,
            "Number of launch calls in the range (ranges inside included) whose work "
            "on a device was recorded.",
        ),
        Column(
            "step_us",
            pl.Float64(),
            "us",
            _NO_STEP,
            "Host time in the range per step, ranges inside included; calls outside "
            "of steps are left out.",
        ),
        Column(
            "step_device_us",
            pl.Float64(),
            "us",
            f"{_NO_STEP}, or {_NO_DEVICE}",
            "Device time of what the range launched per step, ranges inside included; "
            "calls outside of steps are left out.",
        ),
    ),
)

ANNOTATION_CALLS: Final = TableSchema(
    "calls",
    "a call of the range",
    "by host time, the longest first",
    (
        Column("rank", pl.Int64(), "", NEVER, "Place by host time, from 1."),
        Column("host", pl.String(), "", NEVER, "Host of the call."),
        Column("thread", pl.String(), "", NEVER, "Name of the thread of the call."),
        Column(
            "step",
            pl.Int64(),
            "",
            "in no step, or the host has none",
            "Number of the step that the call began in.",
        ),
        Column(
            "start_ms",
            pl.Float64(),
            "ms",
            NEVER,
            "When it began, since the start of the profile.",
        ),
        Column("host_us", pl.Float64(), "us", NEVER, "How long it lasted."),
        Column(
            "host_self_us",
            pl.Float64(),
            "us",
            NEVER,
            "The part of it in no range inside it.",
        ),
        Column(
            "device_us",
            pl.Float64(),
            "us",
            _NO_DEVICE,
            "Sum of the times of the device work that was launched in it.",
        ),
        Column(
            "launches",
            pl.Int64(),
            "",
            _NO_DEVICE,
            "Number of its launch calls whose work on a device was recorded.",
        ),
    ),
)

ANNOTATION_STEPS: Final = TableSchema(
    "by_step",
    "a step in which the range was called",
    "by host, then by the steps' times",
    (
        Column("host", pl.String(), "", NEVER, "Host of the step."),
        Column("step", pl.Int64(), "", NEVER, "Number of the step."),
        Column("occurrences", pl.Int64(), "", NEVER, "Number of calls."),
        Column("host_us", pl.Float64(), "us", NEVER, "Host time of the calls."),
        Column(
            "device_us",
            pl.Float64(),
            "us",
            _NO_DEVICE,
            "Sum of the times of the device work that was launched in them.",
        ),
        Column(
            "launches",
            pl.Int64(),
            "",
            _NO_DEVICE,
            "Number of launch calls whose work on a device was recorded.",
        ),
    ),
)

ANNOTATION_OPS: Final = TableSchema(
    "ops",
    "an op that ran inside the range, on its thread",
    "by self time on the host, the longest first",
    (
        Column("name", pl.String(), "", NEVER, "Name of the op."),
        Column("type", pl.String(), "", "not recorded", "Type of the op."),
        Column("occurrences", pl.Int64(), "", NEVER, "Number of executions."),
        Column(
            "host_self_us", pl.Float64(), "us", NEVER, "Self time on the host, in all."
        ),
    ),
)

ANNOTATION_KERNELS: Final = TableSchema(
    "kernels",
    "what ran on a device and was launched in the range, by name",
    "by total time, the longest first",
    (
        Column(
            "name", pl.String(), "", NEVER, "Name of the kernel, the copy or the fill."
        ),
        Column("kind", pl.String(), "", NEVER, "Kind of the activity."),
        Column("occurrences", pl.Int64(), "", NEVER, "Number of activities."),
        Column("total_us", pl.Float64(), "us", NEVER, "Sum of their times."),
    ),
)
