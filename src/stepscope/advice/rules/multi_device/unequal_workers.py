"""Rules that compare the workers of a run with each other."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np

from stepscope.advice.catalogue import rule_item, shared_texts
from stepscope.advice.item import rule
from stepscope.advice.judging.worker_comparison import (
    COMPARED_READS,
    HOST_WORK,
    ONE_EACH,
    compared_workers,
    has_pipeline_stages,
    judge_steps,
    most_frequent_share,
)
from stepscope.derive.facts.hosts.worker_processes import worker_ops
from stepscope.derive.facts.processors import processor_signals
from stepscope.derive.facts.savings.what_if_changes import Levelled
from stepscope.derive.facts.step_shares import account_signals
from stepscope.derive.step_time.owners import OWNERS
from stepscope.thresholds import THRESHOLDS
from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_MS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.advice.finding import Finding
    from stepscope.advice.judging.worker_comparison import WorkerSignals
    from stepscope.advice.signals import Signals
    from stepscope.derive.facts.savings.what_if_changes import Changes
    from stepscope.derive.facts.step_shares import AccountSignals, StepShares
    from stepscope.derive.run_derivation import RunDerivation

_TEXTS: Final = shared_texts("excess")

#: The signals that `without_a_core` reads.
CORE_READS: Final[tuple[RunDerivation[Any], ...]] = (
    *(account_signals, processor_signals, worker_ops),
)
#: A worker with at most this percentage of extra op executions has equal work.
_ALIKE: Final = 1.0

_OWNERS: Final = frozenset(one.name for one in OWNERS if one.category in HOST_WORK)
#: Minimum share of a worker's excess work that an op or function must take to be named.
_MIN_PART_OF_EXCESS: Final = 0.5


def largest_excess_name(
    accounted: AccountSignals, busiest: str, excess_ms: float
) -> str | None:
    """Return the name that takes most of a worker's excess; None if no name does.

    Only workers without devices are compared, because only host time has names.

    Args:
        busiest: Label of the worker.
        excess_ms: Work per step beyond the median of the other workers.
    """
    by_worker = {
        shares.label: _named_ms(shares)
        for shares in accounted.shares
        if shares.device is None
    }
    other_workers = [named for label, named in by_worker.items() if label != busiest]
    if busiest not in by_worker or not other_workers:
        return None
    beyond = {
        name: ms
        - float(np.median([worker_ms.get(name, 0.0) for worker_ms in other_workers]))
        for name, ms in by_worker[busiest].items()
    }
    most = max(beyond, key=beyond.__getitem__, default=None)
    return (
        most
        if most is not None and beyond[most] >= _MIN_PART_OF_EXCESS * excess_ms
        else None
    )


def _named_ms(shares: StepShares) -> dict[str, float]:
    """Return a host's own work by name, in milliseconds per step."""
    named_ps: Counter[str] = Counter()
    for work in shares.names:
        if work.owner in _OWNERS and work.name is not None and not work.loop:
            named_ps[work.name] += work.time_ps
    steps = len(shares.window_ps)
    return {name: ps / PS_PER_MS / steps for name, ps in named_ps.items()}


def without_a_core(
    finding: Finding, signals: Signals, compared: WorkerSignals, workers: Sequence[str]
) -> Finding:
    """Turn a failing finding into a note if the workers are late for lack of a core.

    In another recording a different worker may be late.

    Args:
        workers: The workers that are late, or have more work.
    """
    excess = [step.excess_ps or 0 for step in compared.steps if step.busiest in workers]
    mean_ms = sum(excess) / max(len(compared.steps), 1) / PS_PER_MS
    # If a worker waits for its batch, it is late although it has no more work.
    failed = finding.status == "fail" and 2 * mean_ms >= (finding.ms_per_step or 0.0)
    waits = [_wait_percent(signals, worker, mean_ms) for worker in workers]
    known = [wait for wait in waits if wait is not None]
    waiting = min(known) if failed and known and len(known) == len(waits) else None
    enough = waiting is not None and waiting >= (finding.share_percent or 0.0)
    facts = (
        *finding.facts,
        _TEXTS.fact("waiting_for_cores", waiting if enough else None),
    )
    if not enough:
        return msgspec.structs.replace(finding, facts=facts)
    return msgspec.structs.replace(
        finding,
        severity="info",
        note="cores",
        because=("cores",),
        facts=facts,
        actions=_TEXTS.chosen("for_cores"),
    )


def _wait_percent(signals: Signals, worker: str, excess_ms: float) -> float | None:
    """Return the share of time in which a worker's threads wait for a core.

    The share is None if lack of a core may not be the only cause: the worker has work
    that others do not have (ops, or functions that only it runs), or free cores.
    """
    hosts, accounted = signals.of(processor_signals), signals.of(account_signals)
    if isinstance(hosts, Unavailable) or isinstance(accounted, Unavailable):
        return None
    cores = hosts.get(worker)
    if cores is None or not cores.are_full(THRESHOLDS):
        return None
    ops = signals.of(worker_ops)
    more = ops.extra_ops_percent(worker)
    if more is None or more > _ALIKE:
        return None
    more_of = largest_excess_name(accounted, worker, excess_ms)
    if more_of is not None and not ops.runs_op(worker, more_of):
        return None
    return math.fsum(cores.waiting_percent) / max(len(cores.waiting_percent), 1)


_BALANCE_ITEM: Final = rule_item("multi.balance")


def balance_changes(signals: Signals) -> Changes:
    """Return what-if edits that give the busiest worker as much work as the others.

    The edits remove at least half of the excess work. Edits exist only for hosts with
    one device: with several devices, their waits in collectives depend on each other;
    without devices, another rank ends a thread's wait in a collective.
    """
    workers = compared_workers(signals)
    if workers.devices != 1:
        return ()
    name, _ = most_frequent_share([step.busiest for step in workers.steps])
    work_ms = None if name is None else workers.work_ms[name]
    if not work_ms:
        return ()
    excess_ms = sum(step.excess_ps or 0 for step in workers.steps) / len(workers.steps)
    part = min(excess_ms / PS_PER_MS / work_ms, 1.0)
    return (Levelled((1 - part / 2, 1 - part)),)


@rule(_BALANCE_ITEM, *COMPARED_READS, *CORE_READS, change=balance_changes)
def judge_balance(signals: Signals) -> Finding:
    comparison = compared_workers(signals)
    if has_pipeline_stages(signals):
        return _BALANCE_ITEM.not_applicable("pipeline")
    excess = [step.excess_ps for step in comparison.steps]
    known = [excess_ps for excess_ps in excess if excess_ps is not None]
    if len(known) < len(excess):
        return _BALANCE_ITEM.cannot_tell("unknown")
    busiest, percent = most_frequent_share([step.busiest for step in comparison.steps])
    same = percent >= THRESHOLDS.same_worker.value
    accounted = signals.of(account_signals)
    mean_ms = sum(known) / len(known) / PS_PER_MS
    finding = judge_steps(
        _BALANCE_ITEM,
        signals,
        comparison,
        cause="excess",
        effect_ps=known,
        named=busiest if same else None,
        detail=None
        if busiest is None or isinstance(accounted, Unavailable)
        else largest_excess_name(accounted, busiest, mean_ms),
        facts=_BALANCE_ITEM.facts(busiest_in=percent if same else None),
    )
    if finding.status == "fail" and not same:
        # If the busiest worker changes between steps, no program change helps.
        return _BALANCE_ITEM.finding(
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
    return without_a_core(finding, signals, comparison, late)


_TURNS_ITEM: Final = rule_item("multi.sequential")


@rule(_TURNS_ITEM, *COMPARED_READS)
def judge_turns(signals: Signals) -> Finding:
    comparison = compared_workers(signals)
    if comparison.devices < _MIN_DEVICES:
        return _TURNS_ITEM.not_applicable(ONE_EACH)
    if not comparison.alike(THRESHOLDS.alike_work.value):
        return _TURNS_ITEM.not_applicable("unlike")
    together = [step.concurrency for step in comparison.steps]
    known = [concurrency for concurrency in together if concurrency is not None]
    if len(known) < len(together):
        return _TURNS_ITEM.cannot_tell("unknown")
    return judge_steps(
        _TURNS_ITEM,
        signals,
        comparison,
        cause="turns",
        effect_ps=[
            round(step.window_ps * max(1 - concurrency / comparison.devices, 0.0))
            for step, concurrency in zip(comparison.steps, known, strict=True)
        ],
        note="pipeline" if has_pipeline_stages(signals) else None,
        facts=_TURNS_ITEM.facts(
            at_a_time=round(sum(known) / len(known), 1),
            devices_of_host=comparison.devices,
        ),
    )


_MIN_DEVICES: Final = 2


_ARRIVAL_ITEM: Final = rule_item("allreduce.arrival")


@rule(_ARRIVAL_ITEM, *COMPARED_READS, *CORE_READS)
def judge_arrival(signals: Signals) -> Finding:
    comparison = compared_workers(signals)
    waits = [step.waiting_ps for step in comparison.steps]
    known = [wait for wait in waits if wait is not None]
    if len(known) < len(waits):
        return _ARRIVAL_ITEM.cannot_tell("unmatched")
    last, percent = most_frequent_share([step.last for step in comparison.steps])
    same = last is not None and percent >= THRESHOLDS.same_worker.value
    judged = judge_steps(
        _ARRIVAL_ITEM,
        signals,
        comparison,
        cause="waiting",
        effect_ps=known,
        named=last if same else None,
        facts=(_ARRIVAL_ITEM.fact("last_in", percent if same else None),),
    )
    late = comparison.workers if last is None or not same else (last,)
    return without_a_core(judged, signals, comparison, late)


_STAGGER_ITEM: Final = rule_item("multi.stagger")


@rule(_STAGGER_ITEM, *COMPARED_READS)
def judge_stagger(signals: Signals) -> Finding:
    comparison = compared_workers(signals)
    if has_pipeline_stages(signals):
        return _STAGGER_ITEM.not_applicable("pipeline")
    if not comparison.alike(THRESHOLDS.alike_work.value):
        return _STAGGER_ITEM.not_applicable("unlike")
    skews = [step.skew_ps for step in comparison.steps]
    known = [skew for skew in skews if skew is not None]
    doubt = sum(step.skew_doubt_ps for step in comparison.steps)
    window = sum(step.window_ps for step in comparison.steps)
    limit = THRESHOLDS.stagger_warn.value * window
    matters = 100 * max(sum(known), doubt) >= limit
    # The measured skew may be an error of the clocks.
    doubtful = matters and sum(known) < THRESHOLDS.clock_margin.value * doubt
    if len(known) < len(skews) or doubtful:
        return _STAGGER_ITEM.cannot_tell("clocks")
    return judge_steps(
        _STAGGER_ITEM,
        signals,
        comparison,
        cause="skew",
        effect_ps=known,
        doubt_ps=doubt,
    )
