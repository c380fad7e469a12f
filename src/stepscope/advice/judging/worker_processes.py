"""What to say of the worker processes that steps wait for, and what to do about them.

Definition: docs/advice/input_bound.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from stepscope.advice.finding import Action
from stepscope.advice.judging.input_actions import FEW_WORKERS, REMAINING
from stepscope.derive.facts.evidence import Fact, Part
from stepscope.derive.facts.hosts.worker_processes import (
    loader_workers,
    machine_cores,
    worker_time,
)
from stepscope.frozen import Frozen
from stepscope.patterns import Pattern

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stepscope.advice.signals import Signals
    from stepscope.derive.facts.hosts.worker_processes import LoaderWorkers, WorkerTime
    from stepscope.derive.run_derivation import RunDerivation

#: The signals that these functions ask for.
WORKER_READS: Final[tuple[RunDerivation[Any], ...]] = (
    *(loader_workers, machine_cores, worker_time),
)
#: Where most of the workers' work is one function's, which is put in.
_WHERE: Final = "where most of it is"
IN_FUNCTION: Final = Action(
    cause="fetch",
    framework="any",
    text=f"Make the work of the worker processes cheaper {_WHERE}: do it once, before "
    "training, or on whole batches, or on the device.",
)
MORE_CORES: Final = Action(
    cause="fetch",
    framework="any",
    text="More worker processes gain nothing, for there are no free cores for them: "
    "more cores would.",
)
HANDED_OVER_LATE: Final = Action(
    cause="fetch",
    framework="any",
    text="The worker processes are idle while the step waits: more of them gain "
    "nothing. What takes the time is handing the batches over: send fewer and larger "
    "arrays, in narrower types.",
)
#: Workers that wait for work for less than this are at work.
_AT_WORK_PERCENT: Final = 50.0
#: All that may be advised where worker processes make the batches.
WORKER_ACTIONS: Final = (*FEW_WORKERS, IN_FUNCTION, MORE_CORES, HANDED_OVER_LATE)
#: A number of workers or threads in a line of code.
_NUMBER: Final = Pattern(
    r"(?P<name>\b(?:num_workers|worker_count|workers|num_threads)=)(?P<number>\d+)"
)


class WorkerProcesses(Frozen, frozen=True):
    """The worker processes of one host.

    Attributes:
        counted: How many there are, and whether there is room for more; None where
            they were not counted.
        time: What they do; None where they were not looked at, or too seldom.
    """

    counted: LoaderWorkers | None
    time: WorkerTime | None

    @property
    def functions(self) -> tuple[Part, ...]:
        """Return the functions that they are in, the one with most of it first."""
        if self.time is None or self.time.are_idle:
            return ()
        most = self.time.most
        rest = (one for one in self.time.functions if not _same(one, most))
        return ((most,) if most else ()) + tuple(rest)

    @property
    def work(self) -> bool:
        """Return whether they were found at work more often than waiting for some."""
        return self.time is not None and self.time.waits_percent < _AT_WORK_PERCENT

    def facts(self) -> tuple[Fact, ...]:
        """Return how many they are and where their time goes, as far as it is told."""
        counted, time = self.counted, self.time
        named = None if time is None or time.are_idle else time.most
        return (
            Fact(
                name="workers",
                value=None if counted is None else counted.workers,
                unit="count",
            ),
            Fact(
                name="cores",
                value=None if counted is None else counted.cores,
                unit="count",
            ),
            Fact(
                name="worker_share",
                value=None if named is None else named.share_percent,
                unit="percent",
                note="of the time for which the worker processes were looked at",
            ),
            Fact(
                name="worker_waits",
                value=None if time is None else time.waits_percent,
                unit="percent",
                note="of the time for which the worker processes were looked at",
            ),
            Fact(
                name="workers_idle",
                value=time.idle_percent if time is not None and time.are_idle else None,
                unit="percent",
                note="of the time in which steps waited while workers were looked at",
            ),
        )

    def actions(self) -> tuple[Action, ...]:
        """Return what makes batches come sooner that worker processes make ahead."""
        counted, time = self.counted, self.time
        if time is not None and time.are_idle:
            return (HANDED_OVER_LATE,)
        more = None if counted is None else counted.could_be
        few = () if more is None else _numbered(FEW_WORKERS[:1], more)
        if time is None or time.place is None:
            return (*few, *FEW_WORKERS[1:]) if few else REMAINING
        if counted is not None and counted.compute is False:
            return (*few, *self.cheaper())
        rest = few or ((MORE_CORES,) if counted is not None else ())
        return (*self.cheaper(), *rest)

    def cheaper(self) -> tuple[Action, ...]:
        """Return that their work is to be made cheaper, where one function has most."""
        place = None if self.time is None else self.time.place
        if place is None:
            return ()
        text = IN_FUNCTION.text.replace(_WHERE, f"{_WHERE}, in {place}")
        return (msgspec.structs.replace(IN_FUNCTION, text=text),)


#: Where no worker processes make the batches.
NO_WORKERS: Final = WorkerProcesses(None, None)


def worker_processes(signals: Signals, host: str) -> WorkerProcesses | None:
    """Return the worker processes of a host; None where none were recorded."""
    counted = signals.of(loader_workers).get(host)
    time = signals.of(worker_time).get(host)
    if counted is None and time is None:
        return None
    return WorkerProcesses(counted, time)


def sized(actions: tuple[Action, ...], signals: Signals) -> tuple[Action, ...]:
    """Return actions whose code begins no more workers than there are cores for them.

    Hosts of one run are alike; where they are not, all of them are to bear it.
    """
    if not any(one.code and _NUMBER.search(one.code) for one in actions):
        return actions
    cores = signals.of(machine_cores)
    return _numbered(actions, min(cores.values()), most=True) if cores else actions


def _numbered(
    actions: Iterable[Action], number: int, *, most: bool = False
) -> tuple[Action, ...]:
    """Put a number of workers into the code of actions.

    Args:
        actions: The actions.
        number: The number.
        most: Whether a smaller one that stands there stays.
    """

    def fitting(told: Any) -> str:
        given = int(told["number"])
        return f"{told['name']}{min(given, number) if most else number}"

    return tuple(
        one
        if one.code is None
        else msgspec.structs.replace(one, code=_NUMBER.sub(fitting, one.code))
        for one in actions
    )


def _same(one: Part, other: Part | None) -> bool:
    if other is None:
        return False
    return (one.function, one.file, one.line) == (
        *(other.function, other.file, other.line),
    )
