"""`allreduce.arrival`: workers wait for the one that comes last.

Definition: docs/advice/allreduce_arrival.md.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import msgspec

from stepscope.advice.finding import Action, Fact, Finding
from stepscope.advice.item import Item
from stepscope.advice.judging.compared import (
    COMPARED_READS,
    judge_steps,
    most_often,
    workers_of,
)
from stepscope.advice.judging.excess import most_of_excess
from stepscope.advice.rule import Rule
from stepscope.advice.signals.running.processors import processor_signals
from stepscope.advice.signals.several.worker_ops import worker_ops
from stepscope.advice.signals.shares import account_signals
from stepscope.advice.words import WAITING, Words
from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_MS

if TYPE_CHECKING:
    from stepscope.advice.signals.several.workers import WorkerSignals
    from stepscope.advice.signals.signal import Signals
    from stepscope.thresholds import Thresholds

__all__ = ["RULE", "evaluate"]

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
#: Where no worker has more to do, and the cores of its machine are in use.
_FOR_CORES: Final = (
    Action(
        cause="cores",
        framework="any",
        text="Let fewer threads and workers share the cores, or give each worker cores "
        "of its own: whose turn it is decides who comes late.",
        code="taskset --cpu-list 0-3 …  # and OMP_NUM_THREADS=4",
    ),
)
_CORES: Final = "waiting_for_cores"
#: Who runs so small a part of ops that the others do not run has no more to do.
_ALIKE: Final = 1.0
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
        facts=(last_in, Fact(name=_CORES, value=None, unit="percent")),
    )
    if judged.status != "fail" or last is None or not same:
        return judged
    waiting = _for_cores(signals, thresholds, found, last)
    if waiting is None or waiting < (judged.share_percent or 0.0):
        return judged
    # In another run it may be another worker.
    return msgspec.structs.replace(
        judged,
        severity="info",
        note="cores",
        because=("cores",),
        facts=(last_in, Fact(name=_CORES, value=waiting, unit="percent")),
        actions=_FOR_CORES,
    )


def _for_cores(
    signals: Signals, thresholds: Thresholds, found: WorkerSignals, last: str
) -> float | None:
    """Return in how much of the time threads wait for a core where the last worker is.

    None where a core need not be what it lacks: where it has work that the others do
    not have, by the ops that it runs or by what its time is named, or where cores of
    its machine are free.
    """
    hosts, accounted = signals.of(processor_signals), signals.of(account_signals)
    if isinstance(hosts, Unavailable) or isinstance(accounted, Unavailable):
        return None
    cores = hosts.get(last)
    if cores is None or not cores.are_full(thresholds):
        return None
    ops = signals.of(worker_ops)
    more = ops.beyond_others(last)
    if more is None or more > _ALIKE:
        return None
    excess = [step.excess_ps or 0 for step in found.steps]
    mean_ms = sum(excess) / len(excess) / PS_PER_MS
    more_of = most_of_excess(accounted, last, mean_ms)
    if more_of is not None and not ops.runs_op(last, more_of):
        return None
    return math.fsum(cores.waiting_percent) / max(len(cores.waiting_percent), 1)


_UNMATCHED: Final = Unavailable(
    code="NO_SAMPLES",
    reason="The collectives of the workers could not be matched with each other, so "
    "that waiting and transfer cannot be told apart.",
    remedy="Record all workers over the same steps.",
)
RULE: Final = Rule(
    _ITEM,
    evaluate,
    (*COMPARED_READS, account_signals, processor_signals, worker_ops),
    advises=_FOR_CORES,
)
