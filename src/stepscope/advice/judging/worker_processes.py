"""What to say of the worker processes that steps wait for, and what to do about them.

Definition: docs/advice/input_bound.md.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final

import msgspec

from stepscope.advice.catalogue import catalogue, rule_item
from stepscope.derive.facts.hosts.worker_processes import (
    loader_workers,
    machine_cores,
    worker_time,
)
from stepscope.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stepscope.advice.finding import Action
    from stepscope.advice.signals import Signals
    from stepscope.derive.facts.evidence import Fact, Part
    from stepscope.derive.facts.hosts.worker_processes import LoaderWorkers, WorkerTime
    from stepscope.derive.run_derivation import RunDerivation

_INPUT: Final = rule_item("input.bound")

#: The signals that these functions ask for.
WORKER_READS: Final[tuple[RunDerivation[Any], ...]] = (
    *(loader_workers, machine_cores, worker_time),
)
#: Workers that wait for work for less than this are at work.
_AT_WORK_PERCENT: Final = 50.0


class WorkerProcesses(Frozen, frozen=True):
    """The worker processes of one host.

    Attributes:
        counted: How many there are, and whether there is room for more; None where
            they were not counted.
        time: What they do; None where they were not sampled, or too rarely.
    """

    counted: LoaderWorkers | None
    time: WorkerTime | None

    @property
    def functions(self) -> tuple[Part, ...]:
        """Return the functions that they are in, the one with most of it first."""
        if self.time is None or self.time.are_idle:
            return ()
        most = self.time.most
        first = () if most is None else (most,)
        keys = {part.key for part in first}
        return (*first, *(it for it in self.time.functions if it.key not in keys))

    @property
    def are_working(self) -> bool:
        """Return whether they were found at work more often than waiting for some."""
        return self.time is not None and self.time.waits_percent < _AT_WORK_PERCENT

    def facts(self) -> tuple[Fact, ...]:
        """Return how many they are and where their time goes, as far as known."""
        counted, time = self.counted, self.time
        are_idle = time is not None and time.are_idle
        named = None if time is None or are_idle else time.most
        return _INPUT.facts(
            workers=None if counted is None else counted.workers,
            cores=None if counted is None else counted.cores,
            worker_share=None if named is None else named.share_percent,
            worker_waits=None if time is None else time.waits_percent,
            workers_idle=time.idle_percent if time is not None and are_idle else None,
        )

    def actions(self) -> tuple[Action, ...]:
        """Return what makes batches come sooner that worker processes make ahead."""
        counted, time = self.counted, self.time
        if time is not None and time.are_idle:
            return _INPUT.chosen("send_smaller_batches")
        more = None if counted is None else counted.could_be
        few = (
            ()
            if more is None
            else _put_worker_number(_INPUT.chosen("add_workers"), more)
        )
        if time is None or time.place is None:
            if not few:
                return _INPUT.chosen("make_cheaper")
            return (*few, _INPUT.action("make_batch_cheaper"))
        if counted is not None and counted.compute is False:
            return (*few, *self.cheaper_actions())
        others = few or (_INPUT.chosen("add_cores") if counted is not None else ())
        return (*self.cheaper_actions(), *others)

    def cheaper_actions(self) -> tuple[Action, ...]:
        """Return that their work is to be made cheaper, where one function has most."""
        place = None if self.time is None else self.time.place
        if place is None:
            return ()
        return (_INPUT.action("make_workers_cheaper_in", place=place),)


#: Where no worker processes make the batches.
NO_WORKERS: Final = WorkerProcesses(None, None)


def worker_processes(signals: Signals, host: str) -> WorkerProcesses | None:
    """Return the worker processes of a host; None where none were recorded."""
    counted = signals.of(loader_workers).get(host)
    time = signals.of(worker_time).get(host)
    if counted is None and time is None:
        return None
    return WorkerProcesses(counted, time)


def fit_worker_numbers(
    actions: tuple[Action, ...], signals: Signals
) -> tuple[Action, ...]:
    """Return actions whose code begins no more workers than there are cores for them.

    Hosts of one run are alike; where they are not, all of them are to bear it.
    """
    if not any(one in _worker_codes() for one in actions):
        return actions
    cores = signals.of(machine_cores)
    return (
        _put_worker_number(actions, min(cores.values()), most=True)
        if cores
        else actions
    )


def _put_worker_number(
    actions: Iterable[Action], number: int, *, most: bool = False
) -> tuple[Action, ...]:
    """Put a number of workers into the code of actions.

    Args:
        most: Whether a smaller one that stands there stays.
    """
    numbered = []
    for action in actions:
        code, given = _worker_codes().get(action, (None, 0))
        if code is None:
            numbered.append(action)
            continue
        workers = str(min(given, number) if most else number)
        code = code.replace("{workers}", workers)
        numbered.append(msgspec.structs.replace(action, code=code))
    return tuple(numbered)


@cache
def _worker_codes() -> dict[Action, tuple[str, int]]:
    """Return actions whose code says how many workers there are, with that code."""
    return {
        item.action(key): code
        for item in catalogue().rules.values()
        for key, code in item.worker_codes.items()
    }
