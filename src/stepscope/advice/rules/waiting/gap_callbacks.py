"""`gap.callbacks`: callbacks, metrics and logging hold up the next step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from stepscope.advice.catalogue import rule_item
from stepscope.advice.finding import Finding
from stepscope.advice.judging.owned import OWNED_READS, Owned, owned_finding, shares_of
from stepscope.advice.rule import Rule
from stepscope.advice.verdict import judge
from stepscope.derive.facts.hosts.function_runs import function_runs
from stepscope.derive.host.function_frames import FEW_LOOKS
from stepscope.units import PS_PER_MS, PS_PER_S

if TYPE_CHECKING:
    from stepscope.advice.signals import Signals
    from stepscope.advice.verdict import Verdict
    from stepscope.derive.facts.step_shares import StepShares
    from stepscope.thresholds import Thresholds
    from stepscope.unavailable import Unavailable

_ITEM: Final = rule_item("gap.callbacks")

_OWNED: Final = Owned(
    parts={"callbacks": ("callback",)},
    place="between",
    steps=True,
    seen=("callback",),
    host=True,
    lost=True,
)


def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
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
    return _ITEM.reason("unnamed", resolution_percent=verdict.resolution_percent)


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
    return _ITEM.reason(
        "blurred", ms=time_ps / PS_PER_MS, every_ms=1000 / runs.frames.hz
    )


RULE: Final = Rule(_ITEM, evaluate, (*OWNED_READS, function_runs))
