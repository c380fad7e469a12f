"""`gap.gc`: Python collects garbage while nothing else is done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.advice.catalogue import rule_item
from stepscope.advice.finding import Action, Finding
from stepscope.advice.judging.owned import (
    OWNED_READS,
    Owned,
    judge_shares,
    owned_finding,
    shares_of,
)
from stepscope.advice.rule import Rule
from stepscope.derive.facts.hosts.function_runs import function_runs
from stepscope.derive.facts.program_traits import collected_by_hand

if TYPE_CHECKING:
    from stepscope.advice.signals import Signals
    from stepscope.advice.verdict import Verdict
    from stepscope.derive.facts.evidence import Part
    from stepscope.derive.facts.step_shares import StepShares
    from stepscope.thresholds import Thresholds

_ITEM: Final = rule_item("gap.gc")

_OWNED: Final = Owned(
    parts={"collections": ("garbage",)},
    host=True,
    seen=("garbage",),
    unknown=False,
    lost=True,
)


def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
    shares = shares_of(_ITEM, _OWNED, signals, thresholds)
    if isinstance(shares, Finding):
        return shares
    warn = thresholds.collections_warn
    verdict = judge_shares(
        _OWNED, shares, thresholds, warn=warn, critical=thresholds.collections_critical
    )
    return owned_finding(
        _ITEM,
        _OWNED,
        signals,
        shares=shares,
        verdict=verdict,
        thresholds=thresholds,
        warn=warn,
        parts=_parts(signals, shares, verdict),
        actions=_actions(signals, shares) if verdict.status == "fail" else (),
    )


def _actions(signals: Signals, shares: StepShares) -> tuple[Action, ...]:
    by_hand = signals.of(collected_by_hand).get(shares.host)
    return (
        (_ITEM.action("do_not_collect_by_hand"), *_ITEM.actions)
        if by_hand
        else _ITEM.actions
    )


def _parts(signals: Signals, shares: StepShares, verdict: Verdict) -> tuple[Part, ...]:
    """Return the time by name, after the function in which most of it passes."""
    parts = shares.parts(*_OWNED.owners)
    if verdict.status != "fail" or shares.device is not None:
        return parts
    runs = signals.of(function_runs).get(shares.host)
    function = None if runs is None else runs.collector
    return parts if function is None else (function, *parts)


RULE: Final = Rule(_ITEM, evaluate, (*OWNED_READS, collected_by_hand, function_runs))
