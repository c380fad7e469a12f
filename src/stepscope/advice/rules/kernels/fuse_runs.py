"""`fuse.runs`: small kernels in a row could be one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.advice.catalogue import rule_item
from stepscope.advice.finding import Finding
from stepscope.advice.judging.fitting_actions import fitting
from stepscope.advice.judging.worked import (
    WORKED_READS,
    Worked,
    judge_kernels,
    kernels_of,
)
from stepscope.advice.rule import Rule
from stepscope.derive.facts.devices.kernel_kinds import SHORTEST
from stepscope.derive.facts.devices.kernel_work import kernel_work
from stepscope.derive.facts.program_traits import program_traits
from stepscope.derive.facts.replaying.edits import Joined
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.advice.signals import Signals
    from stepscope.derive.facts.replaying.edits import Change
    from stepscope.thresholds import Thresholds

_ITEM: Final = rule_item("fuse.runs")

#: Without the bytes: half of the time of a run goes at least a little, at most most.
_GAIN: Final = (0.25, 0.75)


def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
    work = kernels_of(_ITEM, signals, thresholds)
    if isinstance(work, Finding):
        return work
    runs = work.runs
    return judge_kernels(
        _ITEM,
        signals,
        thresholds,
        work,
        Worked(runs.rows, _GAIN),
        warn=thresholds.fusable_warn,
        critical=thresholds.fusable_critical,
        actions=fitting(_ITEM.actions, signals),
        facts=_ITEM.facts(
            runs=runs.count if work.stepped else None,
            runs_in_all=None if work.stepped else runs.count,
        ),
    )


def changes(signals: Signals, _: Thresholds) -> tuple[Change, ...]:
    """Let the kernels of each run be one, which takes a part of their time."""
    work = signals.of(kernel_work)
    if isinstance(work, Unavailable):
        return ()
    low, high = _GAIN
    classes = work.runs.rows["class"].to_list()
    return (Joined(classes, SHORTEST, (1 - low, 1 - high)),)


RULE: Final = Rule(_ITEM, evaluate, (*WORKED_READS, program_traits), changes)
