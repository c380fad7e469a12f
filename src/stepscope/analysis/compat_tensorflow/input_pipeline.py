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

from stepscope.analysis.compat_tensorflow.summary import NOT_IN_COMPAT
from stepscope.analysis.input_pipeline_analyzer.columns import DEVICE_ROWS
from stepscope.analysis.input_pipeline_analyzer.device_side import (
    PERCENTS,
    STEP_TIMES,
    DeviceSide,
)
from stepscope.analysis.input_pipeline_analyzer.steps import InputStep
from stepscope.analysis.results.statistics import statistics_of
from stepscope.analysis.steps.input_share import verdict_of
from stepscope.analysis.steps.summary import Step
from stepscope.derive.columns.arrays import handles
from stepscope.derive.columns.dense_codes import combined, totals_by
from stepscope.derive.host.op_events import host_op_events
from stepscope.derive.input_pipeline.input_ops import INPUT_OP_ROWS
from stepscope.derive.names.event_kinds import OpCategory
from stepscope.remedies import Remedy
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.analysis.steps.summary import StepTimes
    from stepscope.derive.host.op_events import HostOpEvents
    from stepscope.derive.profile_data import ProfileData

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
