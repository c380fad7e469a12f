"""Tool results with the numbers that TensorFlow itself computed at capture time.

TensorFlow uses the steps stored in the file. On the host, TensorFlow counts only
iterators and infeeds, because it recognises copies under one name only. Readers that
prefetch are recognised by parts of their names.

Definition: docs/definitions/compatibility.md#its-input-analysis.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np
import polars as pl

from stepscope.analysis.compat_tensorflow.steps import compat_steps
from stepscope.analysis.input_pipeline_analyzer.analyzer import HostInput, combine_sides
from stepscope.analysis.input_pipeline_analyzer.device_side import (
    PERCENTS,
    STEP_TIMES,
    DeviceSide,
)
from stepscope.analysis.input_pipeline_analyzer.host_side import host_side
from stepscope.analysis.input_pipeline_analyzer.steps import DEVICE_ROWS, InputStep
from stepscope.analysis.overview_page.ops import Eager, Placement, op_placements
from stepscope.analysis.overview_page.page import compose_page
from stepscope.analysis.results.statistics import percent_of, sample_statistics
from stepscope.analysis.results.tables import package_reasons
from stepscope.analysis.steps.input_share import verdict_on_share
from stepscope.analysis.steps.measured_hosts import measured_run
from stepscope.analysis.steps.summary import (
    Step,
    StepSummary,
    StepTimes,
    bottleneck_side,
)
from stepscope.derive.columns.arrays import handles
from stepscope.derive.columns.dense_codes import number_rows, totals_by_code
from stepscope.derive.device.attribution import OpEvidence
from stepscope.derive.host.op_events import host_op_events
from stepscope.derive.input_pipeline.input_ops import INPUT_OP_ROWS
from stepscope.derive.names.event_kinds import OpCategory
from stepscope.derive.ops.database import device_ops, host_ops, op_placement
from stepscope.derive.step_time.owners import CATEGORIES
from stepscope.thresholds import THRESHOLDS
from stepscope.unavailable import Missing, Unavailable
from stepscope.units import PS_PER_MS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

    from stepscope.analysis.compat_tensorflow.steps import CompatStep
    from stepscope.analysis.input_pipeline_analyzer import InputPipelineResult
    from stepscope.analysis.options import InputPipelineOptions, OverviewPageOptions
    from stepscope.analysis.overview_page import OverviewPageResult
    from stepscope.analysis.results.statistics import Statistics
    from stepscope.derive.profile_data import ProfileData

_WHY: Final = package_reasons("compat_tensorflow")

#: Minimum percentage of `other` for the verdict POTENTIALLY on TensorFlow's page.
_POTENTIALLY_PERCENT: Final = 3.0

_READER: Final = r"::(?:TFRecord|TextLine|FixedLengthRecord|SSTable|RecordIO)$"
_READS_AHEAD: Final = r"::(?:MemoryReader|MemoryWriter|Interleave|Prefetch)"
_INFEED: Final = r"^InfeedEnqueue"

#: Value of the option `compat` that asks for TensorFlow's numbers.
PRODUCER: Final = "tensorflow"

#: Categories that TensorFlow counts as device time.
_ON_DEVICE: Final = (
    "device_compute_16",
    "device_compute_32",
    "device_collectives",
    "device_to_device",
    "output",
)


def _own_statistics(
    values: ArrayLike, *, field: str, scale: float = 1.0
) -> tuple[Statistics, tuple[Missing, ...]]:
    """Return statistics of a sample; a single value above 0 has the deviation 0.

    TensorFlow's deviation of a single 0 is not a number.
    """
    statistics, missing = sample_statistics(values, field=field, scale=scale)
    if statistics.std is None and statistics.max:
        return msgspec.structs.replace(statistics, std=0.0), ()
    return statistics, missing


def compat_summary(steps: Sequence[CompatStep]) -> StepTimes:
    """Return TensorFlow's steps as a tool's result has them, with their statistics."""
    frame = pl.DataFrame(
        [{"step_ps": step.duration_ps, **step.category_ps} for step in steps]
    )
    times, missing = _own_statistics(
        frame["step_ps"], field="step_time_ms", scale=PS_PER_MS
    )
    total = int(frame["step_ps"].sum())
    sums = {name: int(frame[name].sum()) for name in CATEGORIES}
    shares = {name: percent_of(ps, total) for name, ps in sums.items()}
    busy_percent = percent_of(sum(sums[name] for name in _ON_DEVICE), total)
    summary = StepSummary(
        step_count=len(steps),
        row_count=len(steps),
        step_time_ms=times,
        device_step_time_ms=times,
        breakdown_ms={name: ps / len(steps) / PS_PER_MS for name, ps in sums.items()},
        breakdown_std_ms={
            name: _own_statistics(frame[name], field=name, scale=PS_PER_MS)[0].std
            for name in CATEGORIES
        },
        breakdown_percent=shares,
        device_execution_percent=busy_percent,
        kernel_launch_percent=shares["kernel_launch"],
        input_percent=shares["input"],
        idle_percent=None if busy_percent is None else 100.0 - busy_percent,
        bottleneck=bottleneck_side(verdict_on_share(shares["input"])),
    )
    absent = tuple(
        _WHY["not_in_compat"].missing_field(field)
        for field in (
            *("breakdown_detail_ms", "host_period_ms", "overlapped_ms", "any_device"),
            "op_placement.host_self_time_percent",
            "op_placement.device_self_time_percent",
            *("op_placement.dataset_executions", "steps.device_working_ms"),
            *("steps.idle_input_ms", "batch_time_ms", "steps.batches", "steps.gap_ms"),
            "steps.device_busy_ms",
        )
    )
    listed = tuple(
        Step(
            step=step.group,
            name=step.name,
            host=step.host,
            start_ms=step.start_ps / PS_PER_MS,
            duration_ms=step.duration_ps / PS_PER_MS,
            device_step_time_ms=step.duration_ps / PS_PER_MS,
            breakdown_ms={
                name: step.category_ps[name] / PS_PER_MS for name in CATEGORIES
            },
        )
        for step in steps
    )
    return StepTimes(listed, summary, (*missing, *absent))


_ANNOTATED: Final = [
    int(evidence)
    for evidence in (OpEvidence.HLO, OpEvidence.HLO_NAME, OpEvidence.ANNOTATION)
]


def compat_placement(
    profile: ProfileData, hosts: Sequence[str]
) -> tuple[Placement, Eager] | Unavailable:
    """Count op executions on hosts and on devices, as TensorFlow does.

    TensorFlow counts input pipeline ops as host ops, and counts an op that launches
    device work both on the host and on the device. On the device, TensorFlow counts
    only work with an annotation.
    """
    executions = device_executions = 0
    time = eager = device_time = device_eager = 0
    for host in hosts:
        on_host = profile.derived(host, host_ops)
        on_device = profile.derived(host, device_ops)
        placed = profile.derived(host, op_placement)
        if isinstance(on_host, Unavailable):
            return on_host
        if isinstance(on_device, Unavailable):
            return on_device
        if isinstance(placed, Unavailable):
            return placed
        annotated = on_device.rows.filter(pl.col("evidence").is_in(_ANNOTATED))
        executions += int(on_host.rows["occurrences"].sum())
        device_executions += int(annotated["occurrences"].sum())
        time += int(on_host.rows["self_ps"].sum())
        eager += int(on_host.rows["eager_self_ps"].sum())
        device_time += placed.device_self_ps or 0
        device_eager += placed.device_eager_self_ps or 0
    both = executions + device_executions
    placement = Placement(
        host_op_percent=percent_of(executions, both),
        device_op_percent=percent_of(device_executions, both),
        host_self_time_percent=None,
        device_self_time_percent=None,
        host_executions=executions,
        device_executions=device_executions,
        dataset_executions=None,
    )
    return placement, Eager(
        host_percent=percent_of(eager, time),
        device_percent=percent_of(device_eager, device_time),
    )


def overview_page(
    profile: ProfileData, options: OverviewPageOptions
) -> OverviewPageResult | Unavailable:
    """Return the overview page of a run with TensorFlow's numbers for its steps.

    The summaries by host, the phases and the op counts follow stepscope's rules; only
    the placement of ops follows TensorFlow's rules.
    """
    measured = measured_run(profile, host=options.host, marker=options.marker)
    if isinstance(measured, Unavailable):
        return measured
    steps = compat_steps(measured.run, measured.names)
    if isinstance(steps, Unavailable):
        return steps
    placed = op_placements(measured.run)
    counted = compat_placement(measured.run, measured.names)
    if not isinstance(counted, Unavailable):
        placement, eager = counted
        placed = msgspec.structs.replace(placed, placement=placement, eager=eager)
    page = compose_page(
        measured, options, times=compat_summary(steps), account=(), placed=placed
    )
    return msgspec.structs.replace(page, compat=PRODUCER)


def compat_input_ops(profile: ProfileData, host: str) -> pl.DataFrame | Unavailable:
    """Return the input ops of a host by TensorFlow's rules; columns `INPUT_OP_ROWS`."""
    executions = profile.derived(host, host_op_events)
    if isinstance(executions, Unavailable):
        return executions
    events = profile.table(host, "events")
    if isinstance(events, Unavailable):
        return events
    ops = executions.ops
    dataset = (ops["category"] == int(OpCategory.DATASET)) & (ops["type"] == "Dataset")
    infeed = ops["type"].str.contains(_INFEED)
    chosen = (dataset | infeed).fill_null(value=False).to_numpy()
    count = len(ops)
    own = totals_by_code(executions.op, executions.self_ps, count=count)
    outer = totals_by_code(
        executions.op, executions.dur_ps, count=count, where=executions.outermost
    )
    pairs = number_rows([executions.op, handles(events, "track")[executions.event]])
    threads = np.bincount(executions.op[pairs.first], minlength=count)
    name = pl.col("name")
    category = (
        pl.when(pl.col("type").str.contains(_INFEED))
        .then(pl.lit("enqueue"))
        .when(~name.str.contains(_READER))
        .then(pl.lit("preprocessing"))
        .when(name.str.contains(_READS_AHEAD))
        .then(pl.lit("advanced_file_read"))
        .otherwise(pl.lit("demanded_file_read"))
    )
    rows = (
        ops.with_columns(
            pl.Series("count", own.count),
            pl.Series("total_ps", outer.total),
            pl.Series("self_ps", own.total),
            pl.Series("threads", threads),
            category.alias("category"),
            source=pl.lit("iterator"),
        )
        .filter(pl.Series(chosen))
        .select(pl.col(name).cast(kind) for name, kind in INPUT_OP_ROWS.items())
        .sort("self_ps", "name", descending=[True, False])
    )
    return rows if len(rows) else _WHY["no_ops"]


def compat_device_side(times: StepTimes, percent: float) -> DeviceSide:
    """Compute the device side of the input analysis from the stored steps.

    Definition: docs/definitions/compatibility.md#its-input-analysis.
    """
    written, summary, missing = times
    steps = []
    for step in written:
        spent_percent = percent_of(step.breakdown_ms["input"], step.duration_ms)
        steps.append(
            InputStep(
                **{name: getattr(step, name) for name in Step.__struct_fields__},
                counted=True,
                input_ms=step.breakdown_ms["input"],
                input_percent_avg=spent_percent,
                input_percent_min=spent_percent,
                input_percent_max=spent_percent,
            )
        )
    stats, no_spread = _own_statistics(
        [
            input_step.input_percent_avg
            for input_step in steps
            if input_step.input_percent_avg is not None
        ],
        field="input_percent_stats",
    )
    absent = (
        *("input_wait_percent", "input_transfer_percent", "consumer_wait", "devices"),
        *(f"steps.{name}" for name in _FIELDS_NOT_IN_TENSORFLOW),
        *(f"by_host.{name}" for name in PERCENTS[1:]),
    )
    kept = [
        entry for entry in missing if entry.field.startswith((*STEP_TIMES, "steps."))
    ]
    # TensorFlow's device step time is its step time, so both are null together.
    kept += [
        msgspec.structs.replace(entry, field=f"device_{entry.field}")
        for entry in kept
        if entry.field.startswith(STEP_TIMES[0])
    ]
    return DeviceSide(
        verdict=verdict_on_share(percent),
        input_percent=percent,
        input_at_most_percent=percent,
        step_time_ms=summary.step_time_ms,
        device_step_time_ms=summary.device_step_time_ms,
        input_percent_stats=stats,
        steps=tuple(steps),
        devices=pl.DataFrame(schema=DEVICE_ROWS.dtypes()),
        missing=(
            *kept,
            *no_spread,
            *(_WHY["not_in_compat"].missing_field(field) for field in absent),
        ),
    )


#: Fields of a step that TensorFlow does not compute.
_FIELDS_NOT_IN_TENSORFLOW: Final = (
    *("input_wait_ms", "input_transfer_ms", "consumer_wait_ms"),
    *("device_busy_least_ms", "device_busy_most_ms"),
)


def input_pipeline_analyzer(
    profile: ProfileData, options: InputPipelineOptions
) -> InputPipelineResult | Unavailable:
    """Measure how input-bound the hosts are by TensorFlow's steps and op times.

    `compat_verdict` is the verdict on TensorFlow's page. `verdict` compares
    TensorFlow's share of input with stepscope's thresholds.
    """
    measured = measured_run(profile, host=options.host, marker=options.marker)
    if isinstance(measured, Unavailable):
        return measured
    swept = compat_steps(measured.run, measured.names)
    if isinstance(swept, Unavailable):
        return swept
    times = compat_summary(swept)
    percent = times.summary.input_percent
    other_percent = times.summary.breakdown_percent["other"]
    if percent is None or other_percent is None:
        return _WHY["no_step_time"]
    steps = compat_device_side(times, percent)
    work = host_side(measured.run, rows_of=compat_input_ops)
    by_host = []
    for host in measured.names:
        host_steps = [step for step in steps.steps if step.host == host]
        spent = sum(step.input_ms or 0.0 for step in host_steps)
        total_ms = sum(step.duration_ms for step in host_steps)
        share = percent_of(spent, total_ms)
        by_host.append(
            HostInput(
                host=host,
                verdict=verdict_on_share(share),
                input_percent=share,
                largest_category=work.largest_by_host.get(host),
                step_count=len(host_steps),
            )
        )
    result = combine_sides(measured, steps, work, tuple(by_host))
    if isinstance(result, Unavailable):
        return result
    if percent >= THRESHOLDS.input_critical.value:
        word = "HIGHLY"
    elif percent >= THRESHOLDS.input_warn.value:
        word = "MODERATELY"
    else:
        word = "POTENTIALLY" if other_percent >= _POTENTIALLY_PERCENT else "NOT"
    remark = ""
    if word == "POTENTIALLY":
        remark = (
            " TensorFlow's own page calls it POTENTIALLY input-bound, because "
            f"{other_percent:.1f} % of the step has no class there. stepscope does not "
            "count unexplained time as input."
        )
    return msgspec.structs.replace(
        result, compat=PRODUCER, compat_verdict=word, text=result.text + remark
    )
