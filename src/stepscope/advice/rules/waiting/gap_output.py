"""`gap.output`: checkpoints and results are written while nothing computes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from stepscope.advice.catalogue import rule_item
from stepscope.advice.finding import Action, Finding
from stepscope.advice.judging.owned import OWNED_READS, Owned, owned_finding, shares_of
from stepscope.advice.rule import Rule
from stepscope.advice.verdict import judge

if TYPE_CHECKING:
    from stepscope.advice.signals import Signals
    from stepscope.advice.verdict import Verdict
    from stepscope.thresholds import Thresholds
    from stepscope.unavailable import Unavailable

_ITEM: Final = rule_item("gap.output")

_ON_HOST: Final = Owned(
    parts={"writing": ("writing",)}, host=True, steps=True, seen=("writing", "output")
)
_ON_DEVICE: Final = msgspec.structs.replace(
    _ON_HOST, parts={**_ON_HOST.parts, "copies": ("copy_out",)}, lost=True
)
#: Written on another thread, what is written must still be copied.
_LEAST: Final = 0.7


def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
    shares = shares_of(_ITEM, _ON_HOST, signals, thresholds)
    if isinstance(shares, Finding):
        return shares
    owned = _ON_HOST
    if shares.device is not None:
        owned = _ON_DEVICE
        if "copy_out" in shares.missing:
            return _ITEM.cannot_tell(shares.missing["copy_out"])
    series = owned.series(shares, thresholds)
    # What nothing names may be the writing of a file.
    unnamed = sum(shares.times("unnamed", "unexplained", place="between"))
    series = msgspec.structs.replace(series, unknown_ps=unnamed)
    warn = thresholds.output_warn
    verdict = judge(
        series, warn=warn, critical=thresholds.output_critical, thresholds=thresholds
    )
    if verdict.status == "cannot_tell" and verdict.share_percent < warn.value:
        verdict = msgspec.structs.replace(verdict, unavailable=_unnamed(verdict))
    nothing = verdict.status == "pass" and not sum(series.effect_ps)
    found = owned_finding(
        _ITEM,
        owned,
        signals,
        shares=shares,
        verdict=verdict,
        thresholds=thresholds,
        warn=warn,
        note="none" if nothing else None,
        actions=_actions(verdict),
    )
    if found.saving_ms is None or found.ms_per_step is None:
        return found
    saving = found.saving_ms
    low = max(saving.low, _LEAST * found.ms_per_step)
    return msgspec.structs.replace(
        found, saving_ms=msgspec.structs.replace(saving, low=low)
    )


def _actions(verdict: Verdict) -> tuple[Action, ...]:
    """Return what removes the larger cause."""
    if verdict.status != "fail":
        return ()
    largest = verdict.causes[0].cause
    return _ITEM.actions_for(largest)


def _unnamed(verdict: Verdict) -> Unavailable:
    return _ITEM.reason("unnamed", resolution_percent=verdict.resolution_percent)


RULE: Final = Rule(_ITEM, evaluate, OWNED_READS)
