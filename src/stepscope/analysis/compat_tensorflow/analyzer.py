"""The input analysis as TensorFlow itself wrote it at capture time.

TensorFlow's steps are the stored ones. On the host it counts iterators and infeeds
only, because it knows copies under one spelling alone, takes their self times among all
ops, and recognises readers that work ahead by parts of their names.

Definition: docs/definitions/compatibility.md#its-input-analysis.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np
import polars as pl

from stepscope.analysis.compat_tensorflow.steps import compat_steps
from stepscope.analysis.compat_tensorflow.summary import (
    NOT_IN_COMPAT,
    PRODUCER,
    compat_summary,
)
from stepscope.analysis.input_pipeline_analyzer.analyzer import HostInput, result_of
from stepscope.analysis.input_pipeline_analyzer.device_side import (
    PERCENTS,
    STEP_TIMES,
    DeviceSide,
)
from stepscope.analysis.input_pipeline_analyzer.host_side import host_side
from stepscope.analysis.input_pipeline_analyzer.steps import DEVICE_ROWS, InputStep
from stepscope.analysis.results.statistics import statistics_of
from stepscope.analysis.steps.input_share import verdict_of
from stepscope.analysis.steps.measured_hosts import measured_run
from stepscope.analysis.steps.summary import Step
from stepscope.derive.columns.arrays import handles
from stepscope.derive.columns.dense_codes import combined, totals_by
from stepscope.derive.host.op_events import host_op_events
from stepscope.derive.input_pipeline.input_ops import INPUT_OP_ROWS
from stepscope.derive.names.event_kinds import OpCategory
from stepscope.remedies import Remedy
from stepscope.thresholds import THRESHOLDS
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.analysis.input_pipeline_analyzer import InputPipelineResult, Options
    from stepscope.analysis.input_pipeline_analyzer.host_side import HostSide
    from stepscope.analysis.steps.summary import StepTimes
    from stepscope.derive.host.op_events import HostOpEvents
    from stepscope.derive.profile_data import ProfileData

#: From this share on TensorFlow's page blames unexplained time on input.
_POTENTIALLY_PERCENT: Final = 3.0

_READER: Final = r"::(?:TFRecord|TextLine|FixedLengthRecord|SSTable|RecordIO)$"
_AHEAD: Final = r"::(?:MemoryReader|MemoryWriter|Interleave|Prefetch)"
_INFEED: Final = r"^InfeedEnqueue"
_NO_OPS: Final = Unavailable(
    code="NO_TFDATA_EVENTS",
    reason="No event of an input pipeline was recorded.",
    remedy=Remedy.RECORD_PIPELINE_AT_HOST_LEVEL,
)


def compat_input_ops(profile: ProfileData, host: str) -> pl.DataFrame | Unavailable:
    """Return the input ops of a host by TensorFlow's rules; columns `INPUT_OP_ROWS`."""
    found = profile.derived(host, host_op_events)
    if isinstance(found, Unavailable):
        return found
    events = profile.table(host, "events")
    if isinstance(events, Unavailable):
        return events
    rows = _summed(found, handles(events, "track"))
    return rows if len(rows) else _NO_OPS


def _summed(found: HostOpEvents, track: NDArray[np.int32]) -> pl.DataFrame:
    ops = found.ops
    dataset = (ops["category"] == int(OpCategory.DATASET)) & (ops["type"] == "Dataset")
    infeed = ops["type"].str.contains(_INFEED)
    chosen = (dataset | infeed).fill_null(value=False).to_numpy()
    count = len(ops)
    own = totals_by(found.op, found.self_ps, count=count)
    outer = totals_by(found.op, found.dur_ps, count=count, where=found.outermost)
    pairs = combined([found.op, track[found.event]])
    threads = np.bincount(found.op[pairs.first], minlength=count)
    name = pl.col("name")
    category = (
        pl.when(pl.col("type").str.contains(_INFEED))
        .then(pl.lit("enqueue"))
        .when(~name.str.contains(_READER))
        .then(pl.lit("preprocessing"))
        .when(name.str.contains(_AHEAD))
        .then(pl.lit("advanced_file_read"))
        .otherwise(pl.lit("demanded_file_read"))
    )
    return (
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


def compat_device_side(times: StepTimes, percent: float) -> DeviceSide:
    """Measure the stored steps, swept as TensorFlow swept them.

    Definition: docs/definitions/compatibility.md#its-input-analysis.

    Args:
        times: The steps by TensorFlow's rules.
        percent: Share of the steps that is input.
    """
    written, summary, missing = times
    steps = tuple(map(_compat_step, written))
    stats, few = statistics_of(
        [
            step.input_percent_avg
            for step in steps
            if step.input_percent_avg is not None
        ],
        field="input_percent_stats",
    )
    absent = (
        *("input_wait_percent", "input_transfer_percent", "consumer_wait", "devices"),
        *(f"steps.{name}" for name in _NOT_OF_THEIRS),
        *(f"by_host.{name}" for name in PERCENTS[1:]),
    )
    kept = [one for one in missing if one.field.startswith((*STEP_TIMES, "steps."))]
    # The device's time is the step's, and so are the reasons of its nulls.
    kept += [
        msgspec.structs.replace(one, field=f"device_{one.field}")
        for one in kept
        if one.field.startswith(STEP_TIMES[0])
    ]
    return DeviceSide(
        verdict=verdict_of(percent),
        input_percent=percent,
        input_at_most_percent=percent,
        input_wait_percent=None,
        input_transfer_percent=None,
        step_time_ms=summary.step_time_ms,
        device_step_time_ms=summary.device_step_time_ms,
        input_percent_stats=stats,
        steps=steps,
        devices=pl.DataFrame(schema=DEVICE_ROWS.dtypes()),
        consumer_wait=None,
        shares={},
        missing=(
            *kept,
            *few,
            *(NOT_IN_COMPAT.for_field(field) for field in absent),
        ),
    )


#: Fields of a step that TensorFlow's rules do not fill.
_NOT_OF_THEIRS: Final = (
    *("input_wait_ms", "input_transfer_ms", "consumer_wait_ms"),
    *("device_busy_least_ms", "device_busy_most_ms"),
)


def _compat_step(step: Step) -> InputStep:
    percent = None
    if step.duration_ms:
        percent = 100.0 * step.breakdown_ms["input"] / step.duration_ms
    return InputStep(
        **{name: getattr(step, name) for name in Step.__struct_fields__},
        counted=True,
        input_ms=step.breakdown_ms["input"],
        input_wait_ms=None,
        input_transfer_ms=None,
        input_percent_avg=percent,
        input_percent_min=percent,
        input_percent_max=percent,
        consumer_wait_ms=None,
    )


def input_pipeline_analyzer(
    profile: ProfileData, options: Options
) -> InputPipelineResult | Unavailable:
    """Say how input-bound the hosts are by the steps and op times of TensorFlow.

    `compat_verdict` is the word on TensorFlow's page; `verdict` judges TensorFlow's
    share by stepscope's thresholds.
    """
    measured = measured_run(profile, host=options.host, marker=options.marker)
    if isinstance(measured, Unavailable):
        return measured
    swept = compat_steps(measured.run, measured.names)
    if isinstance(swept, Unavailable):
        return swept
    times = compat_summary(swept)
    percent = times.summary.input_percent
    other = times.summary.breakdown_percent["other"]
    if percent is None or other is None:
        return _NO_STEP_TIME
    steps = compat_device_side(times, percent)
    work = host_side(measured.run, rows_of=compat_input_ops)
    by_host = tuple(_alone(name, steps, work) for name in measured.names)
    result = result_of(measured, steps, work, by_host)
    if isinstance(result, Unavailable):
        return result
    word = _word(percent, other)
    return msgspec.structs.replace(
        result,
        compat=PRODUCER,
        compat_verdict=word,
        text=result.text + _remark(word, other),
    )


_NO_STEP_TIME: Final = Unavailable(
    code="ZERO_DENOMINATOR",
    reason="The stored steps take no time at all, so nothing is a share of them.",
    remedy="Record some complete steps.",
)


def _alone(host: str, steps: DeviceSide, work: HostSide) -> HostInput:
    mine = [step for step in steps.steps if step.host == host]
    spent = sum(step.input_ms or 0.0 for step in mine)
    whole = sum(step.duration_ms for step in mine)
    percent = 100.0 * spent / whole if whole else None
    return HostInput(
        host=host,
        verdict=verdict_of(percent),
        input_percent=percent,
        input_at_most_percent=None,
        input_wait_percent=None,
        input_transfer_percent=None,
        largest_category=work.largest_by_host.get(host),
        step_count=len(mine),
    )


def _word(input_percent: float, unexplained_percent: float) -> str:
    """Return the word that TensorFlow's page has for the program.

    Args:
        input_percent: Share of the steps that is input.
        unexplained_percent: Share that has no class.
    """
    if input_percent >= THRESHOLDS.input_critical.value:
        return "HIGHLY"
    if input_percent >= THRESHOLDS.input_warn.value:
        return "MODERATELY"
    return "POTENTIALLY" if unexplained_percent >= _POTENTIALLY_PERCENT else "NOT"


def _remark(word: str, unexplained_percent: float) -> str:
    """Say what TensorFlow's page calls the program where the verdict differs."""
    if word != "POTENTIALLY":
        return ""
    return (
        " TensorFlow's own page calls it POTENTIALLY input-bound, because "
        f"{unexplained_percent:.1f} % of the step has no class there; time that nobody "
        "explains is no evidence of input."
    )
