"""What the worker processes of a program do while its judged steps run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.advice.finding import Part
from stepscope.advice.signals.ranges import SHOWN
from stepscope.advice.signals.signal import signal
from stepscope.derive.host.function_frames import FEW_LOOKS
from stepscope.derive.host.function_names import placed
from stepscope.derive.input_pipeline.worker_functions import worker_functions
from stepscope.frozen import Frozen
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.derive.input_pipeline.worker_functions import (
        WorkerFunction,
        WorkerFunctions,
    )
    from stepscope.derive.profile_data import ProfileData
    from stepscope.thresholds import Thresholds

#: Workers that are idle in so much of the wait do not make it.
_IDLE_PERCENT: Final = 50.0


class WorkerTime(Frozen, frozen=True, eq=True):
    """Where the time of one host's worker processes goes, in percent of it.

    Attributes:
        workers: How many were looked at.
        waits_percent: Share in which they wait for work.
        functions: The functions in which they work, most time first.
        most: The function that takes most of their work, with all that it calls: the
            program's own, else a library's; None where none does, or little of their
            time.
        idle_percent: Share of the time in which a step waited for its batch that no
            worker was found at work; None where no look fell into it.
    """

    workers: int
    waits_percent: float
    functions: tuple[Part, ...]
    most: Part | None
    idle_percent: float | None

    @property
    def are_idle(self) -> bool:
        """Return whether the steps wait, and not for the workers' work."""
        return self.idle_percent is not None and self.idle_percent >= _IDLE_PERCENT

    @property
    def place(self) -> str | None:
        """Return the function that takes most of their work, with file and line."""
        if self.most is None:
            return None
        return placed(f"`{self.most.name}`", self.most.file, self.most.line)


@signal(worker_functions, seldom=True)
def worker_time(profile: ProfileData, _: Thresholds) -> dict[str, WorkerTime]:
    """Return the time of the workers of each host that looked at some often enough."""
    found = {}
    for host in profile.hosts:
        seen = profile.derived(host, worker_functions)
        if not isinstance(seen, Unavailable) and seen.looks >= FEW_LOOKS:
            found[host] = _of(seen)
    return found


def _of(seen: WorkerFunctions) -> WorkerTime:
    functions = tuple(_part(one, seen) for one in seen.functions)
    named = seen.worth_naming
    # Time in which a step waited is short where steps hardly wait.
    enough = seen.awaited_ps * seen.looks >= FEW_LOOKS * seen.looked_ps
    return WorkerTime(
        workers=seen.workers,
        waits_percent=100 * seen.waits_ps / seen.looked_ps,
        functions=functions[:SHOWN],
        most=None if named is None else _part(named, seen),
        idle_percent=100 * seen.idle_ps / seen.awaited_ps
        if enough and seen.awaited_ps
        else None,
    )


def _part(one: WorkerFunction, seen: WorkerFunctions) -> Part:
    return Part(
        name=one.function,
        detail=one.inside,
        function=one.function,
        file=one.file,
        line=one.line,
        share_percent=100 * one.time_ps / seen.looked_ps,
        inclusive=True,
    )
