"""`allreduce.arrival`: workers wait for the one that comes last.

Definition: docs/advice/allreduce_arrival.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.advice.finding import Action, Finding
from stepscope.advice.item import Item
from stepscope.advice.judging.compared import (
    COMPARED_READS,
    judge_steps,
    most_often,
    workers_of,
)
from stepscope.advice.judging.excess import CORE_READS, FOR_CORES, without_a_core
from stepscope.advice.rule import Rule
from stepscope.advice.words import WAITING, Words
from stepscope.derive.facts.evidence import Fact
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.advice.signals import Signals
    from stepscope.thresholds import Thresholds

_ACTIONS: Final = (
    Action(
        cause="any",
        framework="any",
        text="Find out what the last worker does longer than the others (its input, "
        "extra work, a slower clock), and mend that first.",
    ),
    Action(
        cause="any",
        framework="any",
        text="Where another worker is the last in each step, give all the same amount "
        "of work: batches of equal length, no work on one of them alone.",
    ),
)
_WORDS: Final = Words(
    passed="workers arrive at their exchanges together",
    lead=(
        (
            "The others wait for {named}: {share_percent} of the time, {ms_per_step} a "
            "step."
        ),
        (
            "Workers wait for each other {share_percent} of the time, {ms_per_step} a "
            "step."
        ),
    ),
    texts={
        **WAITING,
        ("fail", None): (
            (
                (
                    "The others wait for {named}, {ms_per_step} a step: it is the last "
                    "in {last_in} of the steps."
                ),
                "Workers wait for each other, {ms_per_step} a step.",
                "{title}: {share_percent} of the time.",
            ),
            ("{pattern}",),
        ),
        ("fail", "cores"): (
            (
                (
                    "The others wait for {named}, {ms_per_step} a step, and it runs "
                    "the same ops as often as they: the cores of its machine are in "
                    "use, and for {waiting_for_cores} of the time threads wait for one."
                ),
                (
                    "Workers wait for each other, {ms_per_step} a step, and run the "
                    "same ops, as often: the cores of their machine are in use, and "
                    "for {waiting_for_cores} of the time threads wait for one."
                ),
            ),
            ("{pattern}",),
        ),
    },
    causes={
        "waiting": "waiting for a later worker",
        "cores": "threads wait for a core on its machine",
    },
)
_ITEM: Final = Item(
    id="allreduce.arrival",
    stage=8,
    title="workers wait for the one that comes last",
    words=_WORDS,
    pages=("pod_viewer",),
    confirm="Look at the exchange on all workers: it begins at different times and "
    "ends at one.",
    refute="If the exchange takes as long on the worker that comes last, it is the "
    "transfer that is slow.",
    actions=_ACTIONS,
    explains=("comm.exposed", "multi.stagger"),
)


def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
    """Judge the time in which the typical worker waits inside its collectives."""
    found = workers_of(_ITEM, signals)
    if isinstance(found, Finding):
        return found
    waits = [step.waiting_ps for step in found.steps]
    known = [wait for wait in waits if wait is not None]
    if len(known) < len(waits):
        return _ITEM.cannot_tell(_UNMATCHED)
    last, percent = most_often(found.steps, [step.last for step in found.steps])
    same = last is not None and percent >= thresholds.same_worker.value
    last_in = Fact(name="last_in", value=percent if same else None, unit="percent")
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


_UNMATCHED: Final = Unavailable(
    code="NO_SAMPLES",
    reason="The collectives of the workers could not be matched with each other, so "
    "that waiting and transfer cannot be told apart.",
    remedy="Record all workers over the same steps.",
)
RULE: Final = Rule(
    _ITEM,
    evaluate,
    (*COMPARED_READS, *CORE_READS),
    advises=FOR_CORES,
)
