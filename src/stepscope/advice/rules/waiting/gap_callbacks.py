"""`gap.callbacks`: callbacks, metrics and logging hold up the next step.

Definition: docs/advice/gap_callbacks.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from stepscope.advice.finding import Action, Finding
from stepscope.advice.item import Item
from stepscope.advice.judging.owned import OWNED_READS, Owned, owned_finding, shares_of
from stepscope.advice.rule import Rule
from stepscope.advice.signals.running.function_runs import function_runs
from stepscope.advice.verdict import judge
from stepscope.advice.words import WAITING, Words
from stepscope.derive.host.function_frames import FEW_LOOKS
from stepscope.remedies import Remedy
from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_MS, PS_PER_S

if TYPE_CHECKING:
    from stepscope.advice.signals.shares import StepShares
    from stepscope.advice.signals.signal import Signals
    from stepscope.advice.verdict import Verdict
    from stepscope.thresholds import Thresholds

_OWNED: Final = Owned(
    parts={"callbacks": ("callback",)},
    place="between",
    steps=True,
    seen=("callback",),
    host=True,
    lost=True,
)
_ACTIONS: Final = (
    Action(
        cause="any",
        framework="TensorFlow",
        text="Run several steps per call of the training loop: callbacks then come "
        "once for all of them.",
        code="model.compile(…, steps_per_execution=10)",
    ),
    Action(
        cause="any",
        framework="TensorFlow",
        text="Move what the step itself needs into `train_step`, so that it runs in "
        "the graph.",
    ),
    Action(
        cause="any",
        framework="JAX",
        text="Keep metrics on the device, and fetch those of many steps at once.",
    ),
    Action(
        cause="any",
        framework="PyTorch",
        text="Log every n-th step, and keep tensors on the device until then.",
        code="if step % 10 == 0: writer.add_scalar('loss', loss.item(), step)",
    ),
    Action(
        cause="any",
        framework="any",
        text="Do what is named every n-th step only, or on another thread.",
    ),
)
_NAMED: Final = (
    "{title}: {share_percent} of the time, {ms_per_step} a step; most of it {named}.",
    "{title}: {share_percent} of the time, {ms_per_step} a step.",
)
_WORDS: Final = Words(
    passed="what the program does between steps is short",
    lead=(
        (
            "Between steps the program is busy with itself: {named}, {share_percent} "
            "of the time."
        ),
    ),
    texts={**WAITING, ("fail", None): (_NAMED, ("{pattern}",))},
    causes={"callbacks": "callbacks, metrics and other work between steps"},
)
_ITEM: Final = Item(
    id="gap.callbacks",
    stage=2,
    title="callbacks and other work between steps hold up the next one",
    words=_WORDS,
    pages=("overview_page", "trace_viewer"),
    confirm="Look at the ranges: the named function runs, and the next step has not "
    "begun.",
    refute="Run once without what is named: if the step takes as long, it only fills a "
    "gap that has another cause.",
    actions=_ACTIONS,
    explains=("gaps.between",),
)


def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
    """Judge the named work of the program between its steps."""
    shares = shares_of(_ITEM, _OWNED, signals, thresholds)
    if isinstance(shares, Finding):
        return shares
    series = _OWNED.series(shares, thresholds)
    # What nothing names may be callbacks too.
    unnamed = sum(shares.times("unnamed", "unexplained", place="between"))
    series = msgspec.structs.replace(series, unknown_ps=unnamed)
    warn = thresholds.callbacks_warn
    verdict = judge(
        series, warn=warn, critical=thresholds.callbacks_critical, thresholds=thresholds
    )
    if verdict.status == "cannot_tell" and verdict.share_percent < warn.value:
        why = _unnamed(verdict)
        verdict = msgspec.structs.replace(verdict, unavailable=why)
    blurred = _blurred(signals, shares) if verdict.status == "fail" else None
    if blurred is not None:
        return _ITEM.cannot_tell(blurred)
    return owned_finding(
        _ITEM,
        _OWNED,
        signals,
        shares=shares,
        verdict=verdict,
        thresholds=thresholds,
        warn=warn,
    )


def _unnamed(verdict: Verdict) -> Unavailable:
    return Unavailable(
        code="NOT_RECORDED",
        reason=f"{verdict.resolution_percent:.1f} % of the time lies between steps, "
        "and nothing names what the program did in it.",
        remedy=Remedy.RECORD_CALLS,
    )


def _blurred(signals: Signals, shares: StepShares) -> Unavailable | None:
    """Return why samples do not say what ran between steps; None where they do."""
    runs = signals.of(function_runs).get(shares.host)
    named = shares.named("callback", place="between")
    if runs is None or runs.frames.hz is None:
        return None
    if any(part.function is None for part in named):
        # Ranges are exact.
        return None
    time_ps = sum(shares.times("callback", place="between"))
    # A function of the step seems to last until halfway to the next look.
    if time_ps >= FEW_LOOKS * PS_PER_S / runs.frames.hz:
        return None
    return Unavailable(
        code="NOT_RECORDED",
        reason=f"In all, {time_ps / PS_PER_MS:.1f} ms lie between the steps, and looks "
        f"at functions came every {1000 / runs.frames.hz:.0f} ms: what ran there is "
        "not known.",
        remedy=Remedy.RECORD_FRAMES,
    )


RULE: Final = Rule(_ITEM, evaluate, (*OWNED_READS, function_runs))
