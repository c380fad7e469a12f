"""`gap.gc`: Python collects garbage while nothing else is done.

Definition: docs/advice/gap_gc.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.advice.finding import Action, Finding
from stepscope.advice.item import Item
from stepscope.advice.judging.owned import (
    OWNED_READS,
    Owned,
    judge_shares,
    owned_finding,
    shares_of,
)
from stepscope.advice.judging.work_actions import BY_HAND, FEWER_OBJECTS, FREEZE
from stepscope.advice.rule import Rule
from stepscope.advice.words import WAITING, Words
from stepscope.derive.facts.hosts.function_runs import function_runs
from stepscope.derive.facts.program_traits import collected_by_hand

if TYPE_CHECKING:
    from stepscope.advice.signals import Signals
    from stepscope.advice.verdict import Verdict
    from stepscope.derive.facts.evidence import Part
    from stepscope.derive.facts.step_shares import StepShares
    from stepscope.thresholds import Thresholds

_OWNED: Final = Owned(
    parts={"collections": ("garbage",)},
    host=True,
    seen=("garbage",),
    unknown=False,
    lost=True,
)
_ACTIONS: Final = (
    FREEZE,
    Action(
        cause="any",
        framework="any",
        text="Collect by hand every n-th step, in the same step on all workers.",
        code="gc.disable()  # then gc.collect() if step % 1000 == 0",
    ),
    FEWER_OBJECTS,
)
_WORDS: Final = Words(
    passed="collecting garbage hardly holds up the steps",
    lead=(
        (
            "Python collects garbage, most of it in {function}, while nothing else is "
            "done: {share_percent} of the time, {ms_per_step} a step on average."
        ),
        (
            "Python collects garbage while nothing else is done: {share_percent} of "
            "the time, {ms_per_step} a step on average."
        ),
    ),
    texts=WAITING,
    causes={"collections": "garbage collections"},
)
_ITEM: Final = Item(
    id="gap.gc",
    stage=2,
    title="garbage collections hold up the steps",
    words=_WORDS,
    pages=("overview_page", "trace_viewer"),
    confirm="Look at the ranges: a collection runs, and nothing computes meanwhile.",
    refute="Run once with `gc.disable()`: if the steps take as long, collections are "
    "not what they wait for.",
    actions=_ACTIONS,
    explains=("gaps.between", "host.work"),
)


def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
    """Judge the time in which Python collects garbage and nothing else is done."""
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
    return (BY_HAND, *_ACTIONS) if by_hand else _ACTIONS


def _parts(signals: Signals, shares: StepShares, verdict: Verdict) -> tuple[Part, ...]:
    """Return the time by name, after the function in which most of it passes."""
    parts = shares.parts(*_OWNED.owners)
    if verdict.status != "fail" or shares.device is not None:
        return parts
    runs = signals.of(function_runs).get(shares.host)
    function = None if runs is None else runs.collector
    return parts if function is None else (function, *parts)


RULE: Final = Rule(_ITEM, evaluate, (*OWNED_READS, collected_by_hand, function_runs))
