"""`multi.stagger`: work reaches the workers one after another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.advice.catalogue import rule_item
from stepscope.advice.finding import Finding
from stepscope.advice.judging.compared import (
    COMPARED_READS,
    hands_on,
    judge_steps,
    workers_of,
)
from stepscope.advice.rule import Rule

if TYPE_CHECKING:
    from stepscope.advice.signals import Signals
    from stepscope.advice.worker_comparison import StepWorkers
    from stepscope.thresholds import Thresholds

_ITEM: Final = rule_item("multi.stagger")


def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
    found = workers_of(_ITEM, signals)
    if isinstance(found, Finding):
        return found
    if hands_on(signals):
        return _ITEM.not_applicable("pipeline")
    if not found.alike(thresholds.alike_work.value):
        return _ITEM.not_applicable("unlike")
    skews = [step.skew_ps for step in found.steps]
    known = [one for one in skews if one is not None]
    if len(known) < len(skews) or _drowned(found.steps, thresholds):
        return _ITEM.cannot_tell("clocks")
    return judge_steps(
        _ITEM,
        signals,
        thresholds,
        found,
        cause="skew",
        effect_ps=known,
        warn=thresholds.stagger_warn,
        critical=thresholds.stagger_critical,
        doubt_ps=sum(step.skew_doubt_ps for step in found.steps),
    )


def _drowned(steps: tuple[StepWorkers, ...], thresholds: Thresholds) -> bool:
    """Return whether the skew may be an error of the clocks."""
    skew = sum(step.skew_ps or 0 for step in steps)
    doubt = sum(step.skew_doubt_ps for step in steps)
    window = sum(step.window_ps for step in steps)
    matters = 100 * max(skew, doubt) >= thresholds.stagger_warn.value * window
    return matters and skew < thresholds.clock_margin.value * doubt


RULE: Final = Rule(_ITEM, evaluate, COMPARED_READS)
