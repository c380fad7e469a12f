"""The input pipeline analyzer with the shares and the op times of TensorFlow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from stepscope.analysis.compat_tensorflow.input_pipeline import (
    compat_device_side,
    compat_input_ops,
)
from stepscope.analysis.compat_tensorflow.steps import compat_steps
from stepscope.analysis.compat_tensorflow.summary import PRODUCER, compat_summary
from stepscope.analysis.input_pipeline_analyzer.analyzer import HostInput, result_of
from stepscope.analysis.input_pipeline_analyzer.host_side import host_side
from stepscope.analysis.steps.input_share import verdict_of
from stepscope.analysis.steps.measured_hosts import measured_run
from stepscope.thresholds import THRESHOLDS
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.analysis.input_pipeline_analyzer import InputPipelineResult, Options
    from stepscope.analysis.input_pipeline_analyzer.device_side import DeviceSide
    from stepscope.analysis.input_pipeline_analyzer.host_side import HostSide
    from stepscope.derive.profile_data import ProfileData

#: From this share on TensorFlow's page blames unexplained time on input.
_POTENTIALLY_PERCENT: Final = 3.0


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
