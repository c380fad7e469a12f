"""The tables of `framework_op_stats`: what each column is."""

from __future__ import annotations

from typing import Final

import polars as pl

from stepscope.analysis.results.columns import (
    BLOCK_DIM,
    COPIED_BYTES,
    DEVICES,
    GRID_DIM,
    HOST,
    HOSTS,
    KERNEL_NAME,
    KERNEL_TIMES,
    OCCUPANCY,
    OP_NAME,
    PRECISION,
    RANK,
    REGISTERS,
    SHARED_MEMORY,
    TENSOR_CORES,
)
from stepscope.trace.schema import NEVER, Column, TableSchema

_NO_WORK: Final = "its operations or bytes are not known"

#: Definition: docs/tools/framework_op_stats.md#how-each-number-is-defined.
OP_ROWS: Final = TableSchema(
    "rows",
    "an op on the hosts or on the devices",
    "device rows by self time, then name; then host rows",
    (
        RANK,
        Column("host_or_device", pl.String(), "", NEVER, "The side: Host or Device."),
        Column("type", pl.String(), "", "not recorded", "Type of the op."),
        Column(
            "name",
            pl.String(),
            "",
            NEVER,
            "Name of the op: the framework's path, else the instruction of a compiled "
            "program; (no annotation) for device work that nothing names.",
        ),
        Column(
            "occurrences",
            pl.Int64(),
            "",
            NEVER,
            "On a host: executions. On a device: executions on the host that "
            "launched the op's work, else runs of the op's most frequent kernel, "
            "program by program.",
        ),
        Column(
            "total_time_us",
            pl.Float64(),
            "us",
            NEVER,
            "Time of the op with inner ops; of recursive calls the outermost only. "
            "Device ops do not nest: their total time is their self time.",
        ),
        Column("avg_time_us", pl.Float64(), "us", NEVER, "Total time of an execution."),
        Column(
            "total_self_time_us",
            pl.Float64(),
            "us",
            NEVER,
            "Time of the op in which no other op ran inside it. On a host thread "
            "self times add up to the time covered by ops, to the picosecond.",
        ),
        Column(
            "avg_self_time_us", pl.Float64(), "us", NEVER, "Self time of an execution."
        ),
        Column(
            "device_self_percent",
            pl.Float64(),
            "percent",
            "the side took no time",
            "Share of the self times of all device ops, shown or not; 0 of a host op, "
            "as TensorFlow's guide says.",
        ),
        Column(
            "device_cumulative_percent",
            pl.Float64(),
            "percent",
            "the side took no time",
            "Running sum of device_self_percent in order of rank.",
        ),
        Column(
            "host_self_percent",
            pl.Float64(),
            "percent",
            "the side took no time",
            "Share of the self times of all host ops, shown or not; 0 of a device op.",
        ),
        Column(
            "host_cumulative_percent",
            pl.Float64(),
            "percent",
            "the side took no time",
            "Running sum of host_self_percent in order of rank.",
        ),
        Column(
            "measured_flop_rate",
            pl.Float64(),
            "GFLOP/s",
            _NO_WORK,
            "Operations of all executions over their total time: those of the "
            "compiled program's instructions, else what the compiler recorded, else"
            " what follows from the recorded operands; never of a hardware counter.",
        ),
        Column(
            "model_flop_rate",
            pl.Float64(),
            "GFLOP/s",
            _NO_WORK,
            "Operations of the program before a compiler changed it, over the total"
            " time of the executions.",
        ),
        Column(
            "measured_memory_bw",
            pl.Float64(),
            "GiB/s",
            _NO_WORK,
            "Bytes of all operands and results, each once an execution, over the "
            "total time; caches may have served a part.",
        ),
        Column(
            "operational_intensity",
            pl.Float64(),
            "FLOP/byte",
            _NO_WORK,
            "Operations per byte.",
        ),
        Column(
            "tensor_core_utilization_percent",
            pl.Float64(),
            "percent",
            "a host op, or a kernel's name says nothing",
            "Share of the op's kernel time in kernels whose names show matrix "
            "instructions.",
        ),
        Column(
            "bound_by",
            pl.String(),
            "",
            "its work or the device's peaks are not known, or more was moved than the "
            "memory can",
            "Compute or HBM: the one of which the op uses the larger share of the "
            "peak; Latency where it uses less than 1 % of either.",
        ),
        Column("eager", pl.String(), "", "not known", "Eager, Function or Mixed."),
        Column(
            "exposed_time_us",
            pl.Float64(),
            "us",
            "a host op",
            "Time of the op in which no other op ran on that device.",
        ),
        Column(
            "module",
            pl.String(),
            "",
            "of no compiled program",
            "Compiled program that the op belongs to.",
        ),
        HOSTS,
        Column(
            "per_step_us",
            pl.Float64(),
            "us",
            "there are no steps, or it belongs to none",
            "Time of the executions that belong to a step, over the number of steps.",
        ),
        Column(
            "activities",
            pl.Int64(),
            "",
            "a host op",
            "Kernels, copies and memsets that the executions ran.",
        ),
        Column(
            "small_op",
            pl.Boolean(),
            "",
            "a host op, or there are no steps",
            "At least 50 runs a step, each below twice the launch latency on average.",
        ),
        TENSOR_CORES[0],
        Column(
            "instructions",
            pl.List(pl.String()),
            "",
            NEVER,
            "Instructions of the compiled program that do the op's work; empty of an "
            "op of no such program.",
        ),
        Column(
            "source", pl.String(), "", "not recorded", "Line of the program: file:line."
        ),
    ),
)
PIE_ROWS: Final = TableSchema(
    "pies",
    "a slice of a distribution of self time",
    "the largest first, other last",
    (
        Column("name", pl.String(), "", NEVER, "Op or type; other for the rest."),
        Column(
            "self_time_us", pl.Float64(), "us", NEVER, "Self time of the op or type."
        ),
        Column(
            "percent",
            pl.Float64(),
            "percent",
            "the whole took no time",
            "Share of the self time of all slices.",
        ),
    ),
)
KERNEL_ROWS: Final = TableSchema(
    "kernels",
    "a kernel or collective of the calls by launch shape",
    "by total time",
    (
        RANK,
        KERNEL_NAME,
        OP_NAME,
        Column("kind", pl.String(), "", NEVER, "kernel or collective."),
        *KERNEL_TIMES,
        Column(
            "percent",
            pl.Float64(),
            "percent",
            "they took no time",
            "Share of the time of all kernels in this table.",
        ),
        Column(
            "fill",
            pl.String(),
            "",
            "a collective",
            "How the kernel can fill the device: full, small_grid, low_occupancy or"
            " unknown.",
        ),
        GRID_DIM,
        BLOCK_DIM,
        Column(
            "blocks",
            pl.Int64(),
            "blocks",
            "launch details were not recorded",
            "Blocks of the grid.",
        ),
        Column(
            "multiprocessors",
            pl.Int64(),
            "",
            "the device does not say",
            "Multiprocessors of the device.",
        ),
        REGISTERS,
        SHARED_MEMORY,
        *OCCUPANCY,
        *TENSOR_CORES,
        PRECISION,
        HOSTS,
        DEVICES,
    ),
)
COPY_ROWS: Final = TableSchema(
    "copies",
    "copies or memsets of the calls of one kind and name",
    "by total time",
    (
        RANK,
        Column(
            "kind",
            pl.String(),
            "",
            NEVER,
            "h2d, d2h, p2p_copy, local_copy, memset or transfer_wait (the device waits "
            "for a transfer that began earlier).",
        ),
        Column(
            "name", pl.String(), "", NEVER, "Name of the copy or memset, as recorded."
        ),
        OP_NAME,
        KERNEL_TIMES[0],
        KERNEL_TIMES[1],
        KERNEL_TIMES[2],
        KERNEL_TIMES[4],
        Column(
            "bytes", pl.Int64(), "bytes", COPIED_BYTES, "Bytes that were moved or set."
        ),
        Column(
            "gib_per_s",
            pl.Float64(),
            "GiB/s",
            COPIED_BYTES,
            "Bytes of the copies over their total time.",
        ),
        HOSTS,
        DEVICES,
    ),
)
LAUNCH_ROWS: Final = TableSchema(
    "launches",
    "calls of the driver of one name, made inside the calls",
    "by total time",
    (
        RANK,
        Column("name", pl.String(), "", NEVER, "Name of the driver's function."),
        Column("calls", pl.Int64(), "", NEVER, "Number of calls of the function."),
        *(KERNEL_TIMES[1], KERNEL_TIMES[2], KERNEL_TIMES[4]),
        Column(
            "activities",
            pl.Int64(),
            "",
            NEVER,
            "Activities of the chosen calls that these launches started.",
        ),
        Column(
            "idle_launches",
            pl.Int64(),
            "",
            NEVER,
            "Activities started by these launches that found the device idle.",
        ),
        Column(
            "median_wait_us",
            pl.Float64(),
            "us",
            "no activity found the device idle",
            "Median time from the end of the launch call to the begin of the "
            "activity, of activities that found the device idle.",
        ),
    ),
)
CALL_ROWS: Final = TableSchema(
    "calls",
    "one execution of a chosen op",
    "by time on devices, then on hosts",
    (
        RANK,
        HOST,
        Column(
            "call",
            pl.Int64(),
            "",
            NEVER,
            "Number of the call on this host, from 1, in order of time.",
        ),
        Column("op", pl.String(), "", NEVER, "Name of the op."),
        Column("type", pl.String(), "", "not recorded", "Type of the op."),
        Column(
            "step",
            pl.Int64(),
            "",
            "in no step",
            "Number of the step that the call belongs to.",
        ),
        Column(
            "start_ms",
            pl.Float64(),
            "ms",
            "not known",
            "Begin of the call on the host, else of its device work; since the "
            "start of the profile.",
        ),
        Column(
            "host_us",
            pl.Float64(),
            "us",
            "no host event is the call",
            "Time of the call on the host, inner ops included.",
        ),
        Column(
            "host_self_us",
            pl.Float64(),
            "us",
            "no host event is the call",
            "Time of the call on the host, without inner ops.",
        ),
        Column(
            "device_us",
            pl.Float64(),
            "us",
            "no device, or its launches are not known",
            "Time of all activities launched inside the call, added up.",
        ),
        Column(
            "waiting_us",
            pl.Float64(),
            "us",
            "it launched nothing, or its launches are not known",
            "Time in which the device idled between the begin of the call and its "
            "last activity.",
        ),
        Column(
            "kernels",
            pl.Int64(),
            "",
            "no device, or its launches are not known",
            "Number of kernels that the call launched.",
        ),
        Column(
            "collectives",
            pl.Int64(),
            "",
            "no device, or its launches are not known",
            "Number of collectives that the call launched.",
        ),
        Column(
            "copies",
            pl.Int64(),
            "",
            "no device, or its launches are not known",
            "Number of copies and memsets that the call launched.",
        ),
        Column(
            "copy_bytes",
            pl.Int64(),
            "bytes",
            COPIED_BYTES,
            "Bytes that the call's copies and memsets moved or set.",
        ),
        Column(
            "launches",
            pl.Int64(),
            "",
            "launch calls were not recorded",
            "Number of launch calls made inside the call.",
        ),
        Column(
            "shape",
            pl.String(),
            "",
            "not recorded",
            "Shapes of the call's operands, as recorded.",
        ),
        DEVICES,
    ),
)
SHAPE_ROWS: Final = TableSchema(
    "shapes",
    "calls of an op with operands of one shape",
    "by time on devices, then on hosts",
    (
        RANK,
        Column("op", pl.String(), "", NEVER, "Name of the op."),
        Column(
            "shape",
            pl.String(),
            "",
            NEVER,
            "Shapes of the operands, as recorded on the device event, else on the "
            "host event.",
        ),
        Column("calls", pl.Int64(), "", NEVER, "Calls with this shape."),
        Column(
            "host_us",
            pl.Float64(),
            "us",
            "no host event is a call with this shape",
            "Time of the calls on hosts, added up.",
        ),
        Column(
            "device_us",
            pl.Float64(),
            "us",
            "no device was looked at",
            "Time of the calls on devices, added up.",
        ),
        Column(
            "measured_flop_rate",
            pl.Float64(),
            "GFLOP/s",
            _NO_WORK,
            "Operations over the time on the devices, or on the hosts where these do "
            "the work.",
        ),
        Column(
            "measured_memory_bw",
            pl.Float64(),
            "GiB/s",
            _NO_WORK,
            "Bytes of all operands and results, each once a call, over that time.",
        ),
    ),
)
