"""`allreduce.arrival`: workers wait for the one that comes last."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.advice.catalogue import rule_item
from stepscope.advice.finding import Finding
from stepscope.advice.judging.compared import (
    COMPARED_READS,
    judge_steps,
    most_often,
    workers_of,
)
from stepscope.advice.judging.excess import CORE_READS, without_a_core
from stepscope.advice.rule import Rule

if TYPE_CHECKING:
    from stepscope.advice.signals import Signals
    from stepscope.thresholds import Thresholds

_ITEM: Final = rule_item("allreduce.arrival")


def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
    found = workers_of(_ITEM, signals)
    if isinstance(found, Finding):
        return found
    waits = [step.waiting_ps for step in found.steps]
    known = [wait for wait in waits if wait is not None]
    if len(known) < len(waits):
        return _ITEM.cannot_tell("unmatched")
    last, percent = most_often(found.steps, [step.last for step in found.steps])
    same = last is not None and percent >= thresholds.same_worker.value
    last_in = _ITEM.fact("last_in", percent if same else None)
    judged = judge_steps(
        _ITEM,
        signals,
        thresholds,
        found,
        cause="waiting",
        effect_ps=known,
        warn=thresholds.arrival_warn,
        critical=thresholds.arrival_critical,
        named=last if same else None,
        facts=(last_in,),
    )
    late = found.workers if last is None or not same else (last,)
    return without_a_core(judged, signals, thresholds, found, late)


RULE: Final = Rule(
    _ITEM,
    evaluate,
    (*COMPARED_READS, *CORE_READS),
)
