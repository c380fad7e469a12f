"""`input.bound`: the step waits for its data.

Definition: docs/advice/input_bound.md.
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Final

import msgspec

from stepscope.advice.finding import Action, Fact, Finding
from stepscope.advice.rule import Rule
from stepscope.advice.signals.device import device_signals
from stepscope.advice.signals.input import input_signals
from stepscope.advice.signals.record import record_grade
from stepscope.advice.signals.shares import account_signals
from stepscope.advice.verdict import Verdict, judge, judged_finding
from stepscope.advice.words import WAITING, Words
from stepscope.tracer_remedies import RECORD_FETCHES
from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_US

if TYPE_CHECKING:
    from stepscope.advice.signals.input import InputSignals
    from stepscope.advice.signals.shares import StepShares
    from stepscope.advice.signals.signal import Signals
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
#: What remains where elements are made in parallel and ahead.
_REMAINING: Final = (
    Action(
        cause="fetch",
        framework="any",
        text="The batches are made in parallel and ahead already, and still come late: "
        "make each cheaper (fewer bytes, cheaper transformations, a faster store), or "
        "give the making more cores.",
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
    lead=(
        "Input-bound, in bursts: {bursts} for a batch ({share_percent} of the time).",
        "Copies of the batch hold the step up: {mostly_transfer} of the time.",
        (
            "Input-bound: waiting for data takes {share_percent} of the time, "
            "{ms_per_step} a step."
        ),
    ),
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


#: Cause → owners of its time.
_PARTS: Final = {"fetch": ("input",), "transfer": ("copy_in",)}
_OWNERS: Final = ("input", "copy_in")


def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
    """Judge the time in which the step did nothing but wait for data."""
    found, fetching = signals.of(account_signals), signals.of(input_signals)
    if isinstance(found, Unavailable):
        return _cannot_tell(found)
    if isinstance(fetching, Unavailable):
        return _cannot_tell(fetching)
    shares = found.judged(*_OWNERS)
    if shares.step_confidence < thresholds.medium_confidence.value:
        return _cannot_tell(_NO_STEPS)
    series = shares.series(
        _PARTS, unknown_from=thresholds.unexplained_warn.value, lost=True
    )
    if not fetching.consumer_recorded:
        # What nobody saw, and what lies between the steps, may be the making of one.
        untold = shares.times("unexplained", "between")
        series = msgspec.structs.replace(series, unknown_ps=sum(untold))
    verdict = judge(
        series,
        warn=thresholds.input_warn,
        critical=thresholds.input_critical,
        thresholds=thresholds,
    )
    if signals.of(device_signals).recorded == "silent" and verdict.status == "fail":
        return _cannot_tell(_device_unseen(signals, verdict))
    if verdict.status == "cannot_tell" and not fetching.consumer_recorded:
        verdict = msgspec.structs.replace(verdict, unavailable=_fetches_unseen(verdict))
    return _finding(
        fetching,
        shares,
        verdict,
        devices=found.ranked(*_OWNERS),
        grade=signals.of(record_grade),
        thresholds=thresholds,
    )


def _finding(
    fetching: InputSignals,
    shares: StepShares,
    verdict: Verdict,
    *,
    devices: tuple[str, ...],
    grade: float,
    thresholds: Thresholds,
) -> Finding:
    hidden = _hidden(fetching, shares, verdict, thresholds)
    failed = verdict.status == "fail"
    return judged_finding(
        verdict,
        id=_ID,
        title=_TITLE,
        stage=_STAGE,
        grade=grade,
        threshold=thresholds.input_warn,
        smallest=thresholds.smallest_effect,
        owners=_OWNERS,
        place="any",
        devices=devices,
        note=_note(fetching, verdict, hidden=hidden),
        facts=_facts(fetching, shares, verdict),
        evidence=shares.evidence("input", "copy_in") if failed else (),
        inputs=("account", "host_classes"),
        confirm=_CONFIRM,
        refute=_REFUTE,
        floors=("service time of the slowest input stage: not measured here",),
        actions=_actions(fetching, verdict, least=thresholds.input_warn.value)
        if failed
        else _missing_actions(fetching)
        if hidden
        else (),
    )


def _actions(
    fetching: InputSignals, verdict: Verdict, *, least: float
) -> tuple[Action, ...]:
    """Return what removes the causes that matter, the larger cause first.

    A cause matters by itself from a share of `least` percent on.
    """
    largest = verdict.causes[0].share_percent if verdict.causes else 0.0
    found: tuple[Action, ...] = ()
    for cause in verdict.causes:
        if cause.share_percent < min(largest / 4, least):
            continue
        if cause.cause == "fetch":
            found += _missing_actions(fetching)
        else:
            found += tuple(one for one in _ACTIONS if one.cause == cause.cause)
    return found


def _missing_actions(fetching: InputSignals) -> tuple[Action, ...]:
    """Return what a pipeline does not do yet; where it does all, what remains."""
    if not (fetching.parallel and fetching.ahead):
        return _FETCH
    return (*_REMAINING, *(one for one in _FETCH if one.framework == "any"))


def _note(fetching: InputSignals, verdict: Verdict, *, hidden: bool) -> str | None:
    if verdict.note == "short":
        return verdict.note
    if hidden:
        return "hidden"
    if verdict.status == "pass" and not fetching.consumer_recorded:
        return "no_fetch"
    return verdict.note


def _hidden(
    fetching: InputSignals,
    shares: StepShares,
    verdict: Verdict,
    thresholds: Thresholds,
) -> bool:
    """Return whether fetches find an empty buffer while the device is busy."""
    hidden = fetching.hidden_fetch_ps.get(shares.label, ())
    if verdict.status != "pass" or shares.device is None or not hidden:
        return False
    slow = sum(time > thresholds.slow_fetch.value for time in hidden)
    return 100 * slow >= thresholds.slow_fetch_steps.value * len(hidden)


def _facts(
    fetching: InputSignals, shares: StepShares, verdict: Verdict
) -> tuple[Fact, ...]:
    means = fetching.mean_fetch_ps.get(shares.host, ())
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


def _fetches_unseen(verdict: Verdict) -> Unavailable:
    return Unavailable(
        code="NO_TFDATA_EVENTS",
        reason="No fetch of a batch was recorded, and what the step threads did in "
        f"{verdict.resolution_percent:.0f} % of the step is unknown: it may be the "
        "making of batches.",
        remedy=RECORD_FETCHES,
    )


def _device_unseen(signals: Signals, verdict: Verdict) -> Unavailable:
    cause = signals.of(device_signals).reason
    return Unavailable(
        code=cause.code if cause else "NO_DEVICE_EVENTS",
        reason=f"The host waits for data in {verdict.share_percent:.0f} % of the step, "
        "but whether the device is idle meanwhile was not recorded.",
        remedy=cause.remedy if cause else "Record again with the device tracer on.",
    )


_NO_STEPS: Final = Unavailable(
    code="NO_STEPS",
    reason="Without steps a share of the step cannot be formed.",
    remedy="Mark the training steps, with the fetching of the batch inside the mark.",
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
    reads=(account_signals, device_signals, input_signals, record_grade),
    words=_WORDS,
    pages=("input_pipeline_analyzer", "tf_data_bottleneck_analysis"),
)
