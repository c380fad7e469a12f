"""`input.bound`: the step waits for its data.

Definition: docs/advice/input_bound.md.
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Final

from stepscope.advice.finding import Action, Fact, Finding, Saving
from stepscope.advice.rule import Rule
from stepscope.advice.signals.device import device_signals
from stepscope.advice.signals.input import input_signals
from stepscope.advice.signals.record import record_grade
from stepscope.advice.verdict import Verdict, busiest, judge, worst
from stepscope.advice.words import WAITING, Words
from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_MS, PS_PER_US

if TYPE_CHECKING:
    from stepscope.advice.signals.input import InputSignals
    from stepscope.advice.signals.signal import Signals
    from stepscope.advice.signals.step_series import StepSeries
    from stepscope.thresholds import Thresholds

__all__ = ["RULE", "evaluate"]

_ID: Final = "input.bound"
_TITLE: Final = "the step waits for its data"
_STAGE: Final = 1

_ACTIONS: Final = (
    Action(
        cause="fetch",
        framework="TensorFlow",
        text="Transform in parallel and fetch ahead.",
        code="dataset.map(f, num_parallel_calls=tf.data.AUTOTUNE)"
        ".prefetch(tf.data.AUTOTUNE)",
    ),
    Action(
        cause="fetch",
        framework="PyTorch",
        text="Load in worker processes and fetch ahead.",
        code="DataLoader(dataset, num_workers=8, prefetch_factor=4, "
        "persistent_workers=True)",
    ),
    Action(
        cause="fetch",
        framework="JAX",
        text="Build batches in other threads and keep two ahead.",
        code="grain.DataLoader(…, worker_count=8, worker_buffer_size=2)",
    ),
    Action(
        cause="fetch",
        framework="any",
        text="Cache what does not change between epochs, and move work that can be "
        "done once out of the pipeline.",
    ),
    Action(
        cause="transfer",
        framework="TensorFlow",
        text="Copy the next batch while this step computes.",
        code="dataset.apply(tf.data.experimental.prefetch_to_device('/gpu:0'))",
    ),
    Action(
        cause="transfer",
        framework="PyTorch",
        text="Pin the batch and copy it without waiting.",
        code="DataLoader(…, pin_memory=True); batch.to(device, non_blocking=True)",
    ),
    Action(
        cause="transfer",
        framework="JAX",
        text="Put the next batch on the device before this step is waited for.",
        code="next_batch = jax.device_put(next(it))",
    ),
    Action(
        cause="transfer",
        framework="any",
        text="Send fewer bytes: keep images as uint8 and convert them on the device.",
    ),
)
_FETCH: Final = tuple(action for action in _ACTIONS if action.cause == "fetch")
_CONFIRM: Final = (
    "Look at the ranges: the fetch runs while the device has nothing to do."
)
_REFUTE: Final = (
    "Run with one synthetic batch repeated: if the step takes as long, the input is "
    "not what it waits for."
)
_NO_FETCH: Final = (
    "No fetch of a batch was recorded, and a typical step is almost wholly accounted "
    "for by other work."
)
_HIDDEN: Final = (
    "But fetches find no batch ready ({mean_fetch} each): they stay hidden only as "
    "long as the device is the slower one."
)
_WORDS: Final = Words(
    passed="data arrives in time",
    texts={
        **WAITING,
        ("pass", "no_fetch"): ((_NO_FETCH,),),
        ("pass", "hidden"): (*WAITING["pass", None], (_HIDDEN,)),
    },
    causes={
        "fetch": "fetching the batch",
        "transfer": "copying the batch to the device",
    },
)


def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
    """Judge the time in which the step did nothing but wait for data."""
    found = signals.of(input_signals)
    if isinstance(found, Unavailable):
        return _cannot_tell(found)
    series = _judged(found)
    if series.step_confidence < thresholds.medium_confidence.value:
        return _cannot_tell(
            Unavailable(
                code="NO_STEPS",
                reason="Without steps a share of the step cannot be formed.",
                remedy="Mark the training steps, with the fetching of the batch "
                "inside the mark.",
            )
        )
    verdict = judge(
        series,
        warn=thresholds.input_warn,
        critical=thresholds.input_critical,
        thresholds=thresholds,
    )
    if signals.of(device_signals).recorded == "silent" and verdict.status == "fail":
        return _cannot_tell(_device_unseen(signals, verdict))
    return _finding(signals, found, series, verdict, thresholds)


def _judged(found: InputSignals) -> StepSeries:
    """Choose the busiest device; without devices the host that waits most."""
    if any(one.device is not None for one in found.series):
        return busiest([one for one in found.series if one.device is not None])
    return worst(found.series)


def _finding(
    signals: Signals,
    found: InputSignals,
    series: StepSeries,
    verdict: Verdict,
    thresholds: Thresholds,
) -> Finding:
    status, unavailable = verdict.status, verdict.unavailable
    if status == "cannot_tell" and not found.consumer_recorded:
        unavailable = _fetches_unseen(verdict)
    hidden = _hidden(found, series, verdict, thresholds)
    failed = status == "fail"
    saving = verdict.effect_ps / PS_PER_MS
    return Finding(
        id=_ID,
        title=_TITLE,
        stage=_STAGE,
        status=status,
        severity=verdict.severity,
        note=_note(found, verdict, hidden=hidden),
        confidence=min(verdict.confidence, signals.of(record_grade)),
        value=verdict.typical_percent,
        share_percent=verdict.share_percent,
        ms_per_step=saving,
        threshold=thresholds.input_warn,
        steps_hit=verdict.hit,
        steps_clean=verdict.clean,
        devices=_ranked(found, series),
        causes=verdict.causes,
        facts=(*_facts(found, series, verdict), *verdict.facts(thresholds)),
        evidence=found.evidence.get(series.label, ()) if failed else (),
        inputs=("breakdown", "host_classes"),
        unavailable=unavailable,
        confirm=_CONFIRM if failed else None,
        refute=_REFUTE if failed else None,
        saving_ms=Saving(low=saving / 2, high=saving) if failed else None,
        floors=("service time of the slowest input stage: not measured here",)
        if failed
        else (),
        actions=_actions(verdict) if failed else _FETCH if hidden else (),
    )


def _actions(verdict: Verdict) -> tuple[Action, ...]:
    """Return what removes the causes that matter, the larger cause first."""
    largest = verdict.causes[0].share_percent if verdict.causes else 0.0
    wanted = [
        cause.cause for cause in verdict.causes if cause.share_percent >= largest / 4
    ]
    return tuple(
        action for cause in wanted for action in _ACTIONS if action.cause == cause
    )


def _note(found: InputSignals, verdict: Verdict, *, hidden: bool) -> str | None:
    if verdict.note in ("short", "seldom"):
        return verdict.note
    if hidden:
        return "hidden"
    if verdict.status == "pass" and not found.consumer_recorded:
        return "no_fetch"
    return verdict.note


def _hidden(
    found: InputSignals, series: StepSeries, verdict: Verdict, thresholds: Thresholds
) -> bool:
    """Return whether fetches find an empty buffer while the device is busy."""
    hidden = found.hidden_fetch_ps.get(series.label, ())
    if verdict.status != "pass" or series.device is None or not hidden:
        return False
    slow = sum(time > thresholds.slow_fetch.value for time in hidden)
    return 100 * slow >= thresholds.slow_fetch_steps.value * len(hidden)


def _facts(
    found: InputSignals, series: StepSeries, verdict: Verdict
) -> tuple[Fact, ...]:
    means = found.mean_fetch_ps.get(series.label, ())
    return (
        Fact(
            name="mean_fetch",
            value=statistics.fmean(means) / PS_PER_US if means else None,
            unit="us",
            note=None if means else "no fetch of a batch was recorded",
        ),
        Fact(
            name="smallest_visible_effect",
            value=verdict.resolution_percent,
            unit="percent",
        ),
    )


def _ranked(found: InputSignals, first: StepSeries) -> tuple[str, ...]:
    others = sorted(
        (one for one in found.series if one is not first),
        key=lambda one: -statistics.median(one.effect_ps),
    )
    return (first.label, *(one.label for one in others))


def _fetches_unseen(verdict: Verdict) -> Unavailable:
    return Unavailable(
        code="NO_TFDATA_EVENTS",
        reason="No fetch of a batch was recorded, and what the step threads did in "
        f"{verdict.resolution_percent:.0f} % of the step is unknown: it may be the "
        "making of batches.",
        remedy="Record with the Python tracer on, or annotate the making of the batch "
        "inside the step.",
    )


def _device_unseen(signals: Signals, verdict: Verdict) -> Unavailable:
    cause = signals.of(device_signals).reason
    return Unavailable(
        code=cause.code if cause else "NO_DEVICE_EVENTS",
        reason=f"The host waits for data in {verdict.share_percent:.0f} % of the step, "
        "but whether the device is idle meanwhile was not recorded.",
        remedy=cause.remedy if cause else "Record again with the device tracer on.",
    )


def _cannot_tell(why: Unavailable) -> Finding:
    return Finding(
        id=_ID, title=_TITLE, stage=_STAGE, status="cannot_tell", unavailable=why
    )


RULE: Final = Rule(
    id=_ID,
    stage=_STAGE,
    title=_TITLE,
    evaluate=evaluate,
    reads=(device_signals, input_signals, record_grade),
    words=_WORDS,
    pages=("input_pipeline_analyzer", "tf_data_bottleneck_analysis"),
)
