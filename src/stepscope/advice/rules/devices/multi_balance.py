"""`multi.balance`: one worker has more to do than the others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.advice.catalogue import rule_item
from stepscope.advice.finding import Finding
from stepscope.advice.judging.compared import (
    COMPARED_READS,
    hands_on,
    judge_steps,
    most_often,
    workers_of,
)
from stepscope.advice.judging.excess import (
    CORE_READS,
    most_of_excess,
    without_a_core,
)
from stepscope.advice.rule import Rule
from stepscope.derive.facts.replaying.edits import Levelled
from stepscope.derive.facts.step_shares import account_signals
from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_MS

if TYPE_CHECKING:
    from stepscope.advice.signals import Signals
    from stepscope.derive.facts.replaying.edits import Change
    from stepscope.thresholds import Thresholds

_ITEM: Final = rule_item("multi.balance")


def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
    found = workers_of(_ITEM, signals)
    if isinstance(found, Finding):
        return found
    if hands_on(signals):
        return _ITEM.not_applicable("pipeline")
    excess = [step.excess_ps for step in found.steps]
    known = [one for one in excess if one is not None]
    if len(known) < len(excess):
        return _ITEM.cannot_tell("unknown")
    names = [step.busiest for step in found.steps]
    busiest, percent = most_often(found.steps, names)
    same = percent >= thresholds.same_worker.value
    accounted = signals.of(account_signals)
    mean_ms = sum(known) / len(known) / PS_PER_MS if known else 0.0
    finding = judge_steps(
        _ITEM,
        signals,
        thresholds,
        found,
        cause="excess",
        effect_ps=known,
        warn=thresholds.balance_warn,
        critical=thresholds.balance_critical,
        named=busiest if same else None,
        detail=None
        if busiest is None or isinstance(accounted, Unavailable)
        else most_of_excess(accounted, busiest, mean_ms),
        facts=_ITEM.facts(busiest_in=percent if same else None),
    )
    if finding.status == "fail" and not same:
        # No change of this program's makes the workers' random work equal.
        return _ITEM.finding(
            "pass",
            note="changing",
            confidence=finding.confidence,
            value=finding.value,
            share_percent=finding.share_percent,
            ms_per_step=finding.ms_per_step,
            threshold=finding.threshold,
            steps_clean=finding.steps_clean,
            devices=finding.devices,
            facts=finding.facts,
            inputs=finding.inputs,
        )
    late = () if busiest is None else (busiest,)
    return without_a_core(finding, signals, thresholds, found, late)


def changes(signals: Signals, _: Thresholds) -> tuple[Change, ...]:
    """Let the worker with most work have as much as the others: half-way at least.

    Where a host drives several devices the others' exchanges would end earlier with it,
    and how long they wait for it is part of their time. Where it drives none, the
    exchange is a wait of its threads that another rank ends.
    """
    found = workers_of(_ITEM, signals)
    if isinstance(found, Finding) or found.devices != 1:
        return ()
    name, _percent = most_often(found.steps, [step.busiest for step in found.steps])
    work_ms = None if name is None else found.work_ms[name]
    if not work_ms:
        return ()
    excess_ms = sum(step.excess_ps or 0 for step in found.steps) / len(found.steps)
    part = min(excess_ms / PS_PER_MS / work_ms, 1.0)
    return (Levelled((1 - part / 2, 1 - part)),)


RULE: Final = Rule(_ITEM, evaluate, (*COMPARED_READS, *CORE_READS), changes)
