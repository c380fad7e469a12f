"""`multi.balance`: one worker has more to do than the others.

Definition: docs/advice/multi_balance.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.advice.finding import Action, Fact, Finding
from stepscope.advice.item import Item
from stepscope.advice.judging.compared import (
    COMPARED_READS,
    hands_on,
    judge_steps,
    most_often,
    workers_of,
)
from stepscope.advice.judging.excess import (
    CORE_READS,
    FOR_CORES,
    most_of_excess,
    without_a_core,
)
from stepscope.advice.rule import Rule
from stepscope.advice.signals.replaying.change import Levelled
from stepscope.advice.signals.shares import account_signals
from stepscope.advice.words import WAITING, Words
from stepscope.remedies import Remedy
from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_MS

if TYPE_CHECKING:
    from stepscope.advice.signals.replaying.change import Change
    from stepscope.advice.signals.signal import Signals
    from stepscope.thresholds import Thresholds

_ACTIONS: Final = (
    Action(
        cause="any",
        framework="any",
        text="Move what only this worker does (metrics, logging, the optimizer) off "
        "the step, or divide it among all.",
    ),
    Action(
        cause="any",
        framework="any",
        text="Give all workers batches of equal size and length, sorted into buckets.",
    ),
    Action(
        cause="any",
        framework="any",
        text="If the same kernels take longer on it, compare clocks, temperature and "
        "neighbours of the device.",
    ),
)
_WORDS: Final = Words(
    passed="all workers have the same amount of work",
    lead=(
        (
            "More work falls to {named} than to the others, most of it in {detail}: "
            "{ms_per_step} a step beyond their median."
        ),
        (
            "More work falls to {named} than to the others: {ms_per_step} a step "
            "beyond their median."
        ),
        "One worker has more to do than the others: {ms_per_step} a step.",
    ),
    texts={
        **WAITING,
        ("fail", None): (
            (
                (
                    "{ms_per_step} more work a step falls to {named} than to the "
                    "median of the others, most of it in {detail}; it is the busiest "
                    "in {busiest_in} of the steps."
                ),
                (
                    "{ms_per_step} more work a step falls to {named} than to the "
                    "median of the others; it is the busiest in {busiest_in} of the "
                    "steps."
                ),
                "One worker has {ms_per_step} more work than the median of the others.",
                "{title}: {share_percent} of the time.",
            ),
            ("{pattern}",),
        ),
        ("fail", "cores"): (
            (
                (
                    "{ms_per_step} more work a step falls to {named} than to the "
                    "median of the others, in the same ops, as often: the cores of its "
                    "machine are in use, and for {waiting_for_cores} of the time "
                    "threads wait for one."
                ),
            ),
            ("{pattern}",),
        ),
        ("pass", "changing"): (
            (
                (
                    "The work differs between workers, by {share_percent} of the step, "
                    "but another one has most in each step."
                ),
            ),
        ),
    },
    causes={
        "excess": "work beyond the median of the others",
        "cores": "threads wait for a core on its machine",
    },
)
_ITEM: Final = Item(
    id="multi.balance",
    stage=8,
    title="one worker has more to do than the others",
    words=_WORDS,
    pages=("pod_viewer", "kernel_stats"),
    confirm="Compare the kernels of this worker with those of another one: it runs "
    "more of them, or longer ones.",
    refute="If exchanging the two devices moves the excess to the other one, the "
    "device is slow, not its work large.",
    actions=_ACTIONS,
    explains=("allreduce.arrival",),
)


def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
    """Judge the work of the busiest worker beyond the median of the others."""
    found = workers_of(_ITEM, signals)
    if isinstance(found, Finding):
        return found
    if hands_on(signals):
        return _ITEM.not_applicable(_PIPELINE)
    excess = [step.excess_ps for step in found.steps]
    known = [one for one in excess if one is not None]
    if len(known) < len(excess):
        return _ITEM.cannot_tell(_UNKNOWN)
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
        facts=(
            Fact(name="busiest_in", value=percent if same else None, unit="percent"),
        ),
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


_UNKNOWN: Final = Unavailable(
    code="NO_DEVICE_EVENTS",
    reason="The device work of some workers was not recorded.",
    remedy=Remedy.RECORD_DEVICE_OF_WORKERS,
)
_PIPELINE: Final = Unavailable(
    code="NO_SAMPLES",
    reason="The devices hand their results on to each other, as stages of a pipeline: "
    "they do different work.",
    remedy="Nothing to do.",
)
RULE: Final = Rule(
    _ITEM, evaluate, (*COMPARED_READS, *CORE_READS), changes, advises=FOR_CORES
)
