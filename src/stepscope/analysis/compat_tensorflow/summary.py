"""The steps that TensorFlow would have written as a page shows them; their means."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from stepscope.analysis.results.statistics import statistics_of
from stepscope.analysis.steps.input_share import verdict_of
from stepscope.analysis.steps.summary import (
    Step,
    StepSummary,
    StepTimes,
    bottleneck_of,
)
from stepscope.derive.step_time.owners import CATEGORIES
from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_MS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.analysis.compat_tensorflow.steps import CompatStep

#: Whose numbers these are, as the option `compat` names it.
PRODUCER: Final = "tensorflow"

NOT_IN_COMPAT: Final = Unavailable(
    code="NOT_RECORDED",
    reason="TensorFlow's own results do not have this.",
    remedy="Use the tool without compat.",
)
#: Categories that are device time by TensorFlow's rules.
_ON_DEVICE: Final = (
    "device_compute_16",
    "device_compute_32",
    "device_collectives",
    "device_to_device",
    "output",
)


def compat_summary(steps: Sequence[CompatStep]) -> StepTimes:
    """Return the steps as a page shows them, and their means."""
    frame = pl.DataFrame(
        [{"step_ps": step.duration_ps, **step.category_ps} for step in steps]
    )
    times, missing = statistics_of(
        frame["step_ps"], field="step_time_ms", scale=PS_PER_MS
    )
    total = int(frame["step_ps"].sum())
    sums = {name: int(frame[name].sum()) for name in CATEGORIES}
    shares = {
        name: 100.0 * value / total if total else None for name, value in sums.items()
    }
    busy = sum(sums[name] for name in _ON_DEVICE)
    busy_percent = 100.0 * busy / total if total else None
    summary = StepSummary(
        step_count=len(steps),
        row_count=len(steps),
        left_out={},
        step_time_ms=times,
        host_period_ms=None,
        batch_time_ms=None,
        device_step_time_ms=times,
        breakdown_ms={
            name: value / len(steps) / PS_PER_MS for name, value in sums.items()
        },
        breakdown_std_ms={
            name: statistics_of(frame[name], field=name, scale=PS_PER_MS)[0].std
            for name in CATEGORIES
        },
        breakdown_percent=shares,
        breakdown_detail_ms={},
        overlapped_ms=None,
        device_execution_percent=busy_percent,
        kernel_launch_percent=shares["kernel_launch"],
        input_percent=shares["input"],
        idle_percent=None if busy_percent is None else 100.0 - busy_percent,
        any_device=None,
        bottleneck=bottleneck_of(verdict_of(shares["input"])),
    )
    absent = tuple(
        NOT_IN_COMPAT.for_field(field)
        for field in (
            "breakdown_detail_ms",
            "host_period_ms",
            "overlapped_ms",
            "any_device",
            "op_placement.host_self_time_percent",
            "op_placement.device_self_time_percent",
            "op_placement.dataset_executions",
            "steps.device_working_ms",
            "steps.idle_input_ms",
            "batch_time_ms",
            "steps.batches",
            "steps.gap_ms",
            "steps.device_busy_ms",
        )
    )
    return StepTimes(tuple(map(_step, steps)), summary, (*missing, *absent))


def _step(step: CompatStep) -> Step:
    return Step(
        step=step.group,
        name=step.name,
        host=step.host,
        batches=None,
        start_ms=step.start_ps / PS_PER_MS,
        duration_ms=step.duration_ps / PS_PER_MS,
        device_step_time_ms=step.duration_ps / PS_PER_MS,
        flags=(),
        breakdown_ms={name: step.category_ps[name] / PS_PER_MS for name in CATEGORIES},
        device_working_ms=None,
        idle_input_ms=None,
        gap_ms=None,
        device_busy_ms=None,
        device_busy_least_ms=None,
        device_busy_most_ms=None,
    )
