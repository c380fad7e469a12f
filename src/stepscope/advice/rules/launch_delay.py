"""`launch.delay`: the device waits for launches.

Definition: docs/advice/launch_delay.md.
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Final

from stepscope.advice.finding import Action, Fact, Finding, Saving, Status
from stepscope.advice.rule import Rule
from stepscope.advice.signals.device import device_signals
from stepscope.advice.signals.launch import launch_signals
from stepscope.advice.signals.record import record_grade
from stepscope.advice.verdict import Verdict, busiest, judge
from stepscope.advice.words import WAITING, Words
from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_MS, PS_PER_US

if TYPE_CHECKING:
    from stepscope.advice.signals.launch import LaunchSignals
    from stepscope.advice.signals.signal import Signals
    from stepscope.advice.signals.step_series import StepSeries
    from stepscope.thresholds import Thresholds

__all__ = ["RULE", "evaluate"]

_ID: Final = "launch.delay"
_TITLE: Final = "the device waits for the host to launch its work"
_STAGE: Final = 3
#: Replayed graphs show no launch per node: beyond this share of the device's time the
#: rule cannot judge.
_GRAPH_SHARE: Final = 50.0

#: What to change, in order: each change launches more work with one call.
_ACTIONS: Final = (
    Action(
        cause="any",
        framework="TensorFlow",
        text="Put the whole training step into one graph, then let the compiler fuse "
        "its ops.",
        code="@tf.function(jit_compile=True)",
    ),
    Action(
        cause="any",
        framework="TensorFlow",
        text="Give the launching threads cores of their own.",
        env="TF_GPU_THREAD_MODE=gpu_private",
    ),
    Action(
        cause="any",
        framework="JAX",
        text="Compile the whole step, outermost function first.",
        code="train_step = jax.jit(train_step)",
    ),
    Action(
        cause="any",
        framework="PyTorch",
        text="Compile the step and replay it as one graph.",
        code="torch.compile(model, mode='reduce-overhead')",
    ),
    Action(
        cause="small_work",
        framework="any",
        text="Give each kernel more to do: a larger batch, or several steps at once.",
    ),
    Action(
        cause="drained_queue",
        framework="any",
        text="Do not read results back inside the step: each read empties the queue.",
    ),
)
_CONFIRM: Final = (
    "Look at the ranges: the kernel starts right after its own launch call."
)
_REFUTE: Final = (
    "Double the batch: if the step takes twice as long, launches are not what it "
    "waits for."
)
_WORDS: Final = Words(
    passed="launches keep up with the device",
    texts=WAITING,
    causes={
        "latency": "launches on their way",
        "launch_call": "the launching code",
        "python": "Python between launches",
        "slow_host": "each launch call takes the host long",
        "small_work": "kernels are shorter than two launches",
        "drained_queue": "waiting for results empties the queue",
    },
)


def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
    """Judge the idle time inside steps that ends with a late launch."""
    if signals.of(device_signals).recorded == "host_only":
        return _without(
            "not_applicable",
            Unavailable(
                code="NO_DEVICE_PLANE",
                reason="Every op ran on the host; there is no device to launch on.",
                remedy="Nothing to do.",
            ),
        )
    found = signals.of(launch_signals)
    if isinstance(found, Unavailable):
        return _without("cannot_tell", found)
    if found.graph_percent >= _GRAPH_SHARE:
        return _without("cannot_tell", _replayed(found))
    series = busiest(found.series)
    verdict = judge(
        series,
        warn=thresholds.launch_warn,
        critical=thresholds.launch_critical,
        thresholds=thresholds,
    )
    return _finding(signals, found, series, verdict, thresholds)


def _finding(
    signals: Signals,
    found: LaunchSignals,
    series: StepSeries,
    verdict: Verdict,
    thresholds: Thresholds,
) -> Finding:
    failed = verdict.status == "fail"
    stepped = series.step_source is not None
    sub_causes = _sub_causes(found, thresholds)
    effect = verdict.effect_ps / PS_PER_MS
    return Finding(
        id=_ID,
        title=_TITLE,
        stage=_STAGE,
        status=verdict.status,
        severity=verdict.severity,
        note=verdict.note,
        confidence=min(verdict.confidence, signals.of(record_grade)),
        value=verdict.typical_percent,
        share_percent=verdict.share_percent,
        ms_per_step=effect if stepped else None,
        threshold=thresholds.launch_warn,
        steps_hit=verdict.hit if stepped else None,
        steps_clean=verdict.clean if stepped else None,
        devices=_ranked(found, series),
        causes=verdict.causes,
        because=sub_causes,
        facts=(*_facts(found), *verdict.facts(thresholds)),
        evidence=found.evidence.get(series.label, ()) if failed else (),
        inputs=("launches", "device_activity", "host_classes"),
        unavailable=verdict.unavailable,
        confirm=_CONFIRM if failed else None,
        refute=_REFUTE if failed else None,
        saving_ms=Saving(low=effect / 2, high=effect) if failed and stepped else None,
        floors=("time the launching thread needs: not measured here",)
        if failed
        else (),
        actions=_actions(sub_causes) if failed else (),
    )


def _sub_causes(found: LaunchSignals, thresholds: Thresholds) -> tuple[str, ...]:
    """Return why launches come late, as far as the numbers show it."""
    call = found.median_call_ps
    drained = found.drained_percent
    tests = (
        ("slow_host", call is not None and call > thresholds.slow_launch_call.value),
        ("small_work", found.median_kernel_ps < 2 * found.latency_ps),
        (
            "drained_queue",
            drained is not None and drained >= thresholds.drained_queue.value,
        ),
    )
    return tuple(name for name, holds in tests if holds)


def _actions(sub_causes: tuple[str, ...]) -> tuple[Action, ...]:
    return tuple(
        action
        for action in _ACTIONS
        if action.cause == "any" or action.cause in sub_causes
    )


def _facts(found: LaunchSignals) -> tuple[Fact, ...]:
    samples = found.latency_samples
    call = found.median_call_ps
    return (
        Fact(
            name="launch_latency",
            value=found.latency_ps / PS_PER_US,
            unit="us",
            note=f"median of {samples:,} launches onto an idle device"
            if samples
            else "assumed: fewer than 30 launches found the device idle",
        ),
        Fact(name="median_kernel", value=found.median_kernel_ps / PS_PER_US, unit="us"),
        Fact(
            name="median_launch_call",
            value=None if call is None else call / PS_PER_US,
            unit="us",
        ),
        Fact(name="kernels_per_step", value=found.kernels_per_step, unit="count"),
        Fact(name="drained_queue", value=found.drained_percent, unit="percent"),
    )


def _ranked(found: LaunchSignals, first: StepSeries) -> tuple[str, ...]:
    others = sorted(
        (one for one in found.series if one is not first),
        key=lambda one: -statistics.median(one.effect_ps),
    )
    return (first.label, *(one.label for one in others))


def _replayed(found: LaunchSignals) -> Unavailable:
    return Unavailable(
        code="NO_KERNEL_DETAILS",
        reason=f"{found.graph_percent:.0f} % of the device's time is replayed from "
        "graphs without a row for each kernel.",
        remedy="Record once with graph replay switched off, or with the tracing of "
        "graph nodes on.",
    )


def _without(status: Status, why: Unavailable) -> Finding:
    return Finding(
        id=_ID,
        title=_TITLE,
        stage=_STAGE,
        status=status,
        unavailable=why,
    )


RULE: Final = Rule(
    id=_ID,
    stage=_STAGE,
    title=_TITLE,
    evaluate=evaluate,
    reads=(device_signals, launch_signals, record_grade),
    words=_WORDS,
    pages=("overview_page", "kernel_stats"),
)
