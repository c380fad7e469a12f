"""Worker processes that steps wait for: facts about them, and actions.

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
    from stepscope.derive.facts.processors import Asleep
    from stepscope.derive.run_derivation import RunDerivation

_INPUT: Final = rule_item("input.bound")

#: Signals that the functions of this module read.
WORKER_READS: Final[tuple[RunDerivation[Any], ...]] = (
    *(loader_workers, machine_cores, worker_time),
)
#: Maximum share of time, in percent, that working processes wait for work.
_AT_WORK_PERCENT: Final = 50.0
#: If one of several workers works alone in this share of a wait, in percent, its task
#: is too long. With tasks of equal length the share is about 10 %.
_MIN_ALONE_PERCENT: Final = 100 / 3


class WorkerProcesses(Frozen, frozen=True):
    """The worker processes of one host.

    Attributes:
        counted: Number of processes, and whether more would fit; None if not counted.
        time: What the processes spend time on; None if sampled too rarely or never.
    """

    counted: LoaderWorkers | None
    time: WorkerTime | None

    @property
    def functions(self) -> tuple[Part, ...]:
        """The functions that the processes run, largest first."""
        if self.time is None or self.time.are_idle:
            return ()
        largest = self.time.most
        first = () if largest is None else (largest,)
        keys = {part.key for part in first}
        return (*first, *(part for part in self.time.functions if part.key not in keys))

    @property
    def are_working(self) -> bool:
        """Whether the processes work more often than they wait for work."""
        return self.time is not None and self.time.waits_percent < _AT_WORK_PERCENT

    @property
    def is_one_alone(self) -> bool:
        """Whether one of several processes works while the steps wait."""
        alone = None if self.time is None else self.time.alone_percent
        return alone is not None and alone >= _MIN_ALONE_PERCENT

    def are_awaited(self, waits: Asleep) -> bool:
        """Return whether a wait is for these processes, not for a thread.

        Stack samples of worker processes are more reliable than their use of cores: a
        process that waits for a disk uses no core, but the step may wait for it.
        """
        if self.time is None:
            return waits.workers is not None
        works = self.are_working or self.is_one_alone
        return works and (waits.workers is not None or not waits.works)

    def facts(self) -> tuple[Fact, ...]:
        """Return the number of processes and how they spend time, as far as known."""
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

    def actions(self, *, of_loader: bool = True) -> tuple[Action, ...]:
        """Return actions that make processes (of a loader) deliver batches sooner."""
        counted, time = self.counted, self.time
        if time is not None and time.are_idle:
            return _INPUT.chosen("send_smaller_batches")
        more = None if counted is None else counted.could_be
        start = _INPUT.chosen("add_workers" if of_loader else "start_workers")
        more_workers = () if more is None else _put_worker_number(start, more)
        if time is None or time.place is None:
            # More processes would wait for work too.
            have_no_work = time is not None and not self.are_working
            if have_no_work or not more_workers:
                return _INPUT.chosen("make_cheaper")
            return (*more_workers, _INPUT.action("make_batch_cheaper"))
        if counted is not None and counted.compute is False:
            return (*more_workers, *self.cheaper_actions())
        more_capacity = more_workers or (
            _INPUT.chosen("add_cores") if counted is not None else ()
        )
        return (*self.cheaper_actions(), *more_capacity)

    def cheaper_actions(self) -> tuple[Action, ...]:
        """Return the action to shorten the workers' work, if one function dominates."""
        place = None if self.time is None else self.time.place
        if place is None:
            return ()
        return (_INPUT.action("make_workers_cheaper_in", place=place),)


#: Value for a program without worker processes that produce batches.
NO_WORKERS: Final = WorkerProcesses(None, None)


def worker_processes(signals: Signals, host: str) -> WorkerProcesses | None:
    """Return the worker processes of a host; None if none were recorded."""
    counted = signals.of(loader_workers).get(host)
    time = signals.of(worker_time).get(host)
    if counted is None and time is None:
        return None
    return WorkerProcesses(counted, time)


def fit_worker_numbers(
    actions: tuple[Action, ...], signals: Signals
) -> tuple[Action, ...]:
    """Return actions whose code starts at most as many workers as there are cores.

    Hosts of one run are usually equal; if not, the smallest number of cores counts.
    """
    if not any(action in _worker_codes() for action in actions):
        return actions
    cores = signals.of(machine_cores)
    return (
        _put_worker_number(actions, min(cores.values()), at_most=True)
        if cores
        else actions
    )


def _put_worker_number(
    actions: Iterable[Action], number: int, *, at_most: bool = False
) -> tuple[Action, ...]:
    """Insert a number of workers into the code of actions.

    Args:
        at_most: Whether a smaller number declared with an action replaces `number`.
    """
    numbered = []
    for action in actions:
        if action not in _worker_codes():
            numbered.append(action)
            continue
        code, declared = _worker_codes()[action]
        workers = str(min(declared, number) if at_most else number)
        code = code.replace("{workers}", workers)
        numbered.append(msgspec.structs.replace(action, code=code))
    return tuple(numbered)


@cache
def _worker_codes() -> dict[Action, tuple[str, int]]:
    """Return the actions whose code contains a number of workers, with that code."""
    return {
        item.action(key): code
        for item in catalogue().rules.values()
        for key, code in item.worker_codes.items()
    }
