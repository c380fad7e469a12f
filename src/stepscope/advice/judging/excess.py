"""What the worker with most work does more of than the others, or lacks."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np

from stepscope.advice.catalogue import shared_texts
from stepscope.advice.worker_comparison import HOST_WORK
from stepscope.derive.facts.hosts.worker_processes import worker_ops
from stepscope.derive.facts.processors import processor_signals
from stepscope.derive.facts.step_shares import account_signals
from stepscope.derive.step_time.owners import OWNERS
from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_MS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.advice.finding import Finding
    from stepscope.advice.signals import Signals
    from stepscope.advice.worker_comparison import WorkerSignals
    from stepscope.derive.facts.step_shares import AccountSignals, StepShares
    from stepscope.derive.run_derivation import RunDerivation
    from stepscope.thresholds import Thresholds

_TEXTS: Final = shared_texts("excess")

#: The signals that `without_a_core` asks for.
CORE_READS: Final[tuple[RunDerivation[Any], ...]] = (
    *(account_signals, processor_signals, worker_ops),
)
#: Who runs so small a part of ops that the others do not run has no more to do.
_ALIKE: Final = 1.0

_OWNERS: Final = frozenset(one.name for one in OWNERS if one.category in HOST_WORK)
#: The part of the excess that a name has to hold.
_MOST: Final = 0.5


def most_of_excess(
    accounted: AccountSignals, busiest: str, excess_ms: float
) -> str | None:
    """Return the name that takes most of a worker's excess; None where none does.

    Only workers without devices are compared: the account does not name the work of a
    device.

    Args:
        accounted: The account of all workers.
        busiest: Label of the worker.
        excess_ms: What it has to do beyond the median of the others, in a step.
    """
    by_worker = {
        one.label: _named_ms(one) for one in accounted.shares if one.device is None
    }
    others = [named for label, named in by_worker.items() if label != busiest]
    if busiest not in by_worker or not others:
        return None
    beyond = {
        name: ms - float(np.median([other.get(name, 0.0) for other in others]))
        for name, ms in by_worker[busiest].items()
    }
    most = max(beyond, key=beyond.__getitem__, default=None)
    return most if most is not None and beyond[most] >= _MOST * excess_ms else None


def _named_ms(shares: StepShares) -> dict[str, float]:
    """Return the named parts of a host's own work in a step, in milliseconds."""
    found: Counter[str] = Counter()
    for one in shares.names:
        if one.owner in _OWNERS and one.name is not None and not one.loop:
            found[one.name] += one.time_ps
    steps = len(shares.window_ps)
    return {name: ps / PS_PER_MS / steps for name, ps in found.items()}


def without_a_core(
    finding: Finding,
    signals: Signals,
    thresholds: Thresholds,
    found: WorkerSignals,
    workers: Sequence[str],
) -> Finding:
    """Make a failing finding a note where workers only lack a core.

    In another run it may be another one of them that is late.

    Args:
        finding: What was found.
        signals: The signals of the profile.
        thresholds: The numbers that verdicts depend on.
        found: The workers of the run.
        workers: Those that come late, or have more to do.
    """
    excess = [one.excess_ps or 0 for one in found.steps if one.busiest in workers]
    mean_ms = sum(excess) / max(len(found.steps), 1) / PS_PER_MS
    # Whoever waits for its batch is late by no work of its own.
    failed = finding.status == "fail" and 2 * mean_ms >= (finding.ms_per_step or 0.0)
    waits = [_for_cores(signals, thresholds, one, mean_ms) for one in workers]
    known = [one for one in waits if one is not None]
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


def _for_cores(
    signals: Signals, thresholds: Thresholds, worker: str, excess_ms: float
) -> float | None:
    """Return in how much of the time threads wait for a core where a worker is.

    None where a core need not be what it lacks: where it has work that the others do
    not have, by the ops that it runs or by what its time is named, or where cores of
    its machine are free.
    """
    hosts, accounted = signals.of(processor_signals), signals.of(account_signals)
    if isinstance(hosts, Unavailable) or isinstance(accounted, Unavailable):
        return None
    cores = hosts.get(worker)
    if cores is None or not cores.are_full(thresholds):
        return None
    ops = signals.of(worker_ops)
    more = ops.beyond_others(worker)
    if more is None or more > _ALIKE:
        return None
    more_of = most_of_excess(accounted, worker, excess_ms)
    if more_of is not None and not ops.runs_op(worker, more_of):
        return None
    return math.fsum(cores.waiting_percent) / max(len(cores.waiting_percent), 1)
