"""`multi.sequential`: devices of a host work one after another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.advice.catalogue import rule_item
from stepscope.advice.finding import Finding
from stepscope.advice.judging.compared import (
    COMPARED_READS,
    ONE_EACH,
    hands_on,
    judge_steps,
    workers_of,
)
from stepscope.advice.rule import Rule

if TYPE_CHECKING:
    from stepscope.advice.signals import Signals
    from stepscope.thresholds import Thresholds

_ITEM: Final = rule_item("multi.sequential")


def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
    found = workers_of(_ITEM, signals)
    if isinstance(found, Finding):
        return found
    if found.devices < _SEVERAL:
        return _ITEM.not_applicable(ONE_EACH)
    if not found.alike(thresholds.alike_work.value):
        return _ITEM.not_applicable("unlike")
    together = [step.concurrency for step in found.steps]
    known = [one for one in together if one is not None]
    if len(known) < len(together):
        return _ITEM.cannot_tell("unknown")
    return judge_steps(
        _ITEM,
        signals,
        thresholds,
        found,
        cause="turns",
        effect_ps=[
            round(step.window_ps * max(1 - one / found.devices, 0.0))
            for step, one in zip(found.steps, known, strict=True)
        ],
        warn=thresholds.turns_warn,
        critical=thresholds.turns_critical,
        note="pipeline" if hands_on(signals) else None,
        facts=_ITEM.facts(
            at_a_time=round(sum(known) / len(known), 1), devices_of_host=found.devices
        ),
    )


_SEVERAL: Final = 2
RULE: Final = Rule(_ITEM, evaluate, COMPARED_READS)
