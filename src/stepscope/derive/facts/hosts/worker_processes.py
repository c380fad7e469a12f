"""Worker processes of a program: how many, their room, and what they do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.derive.columns.arrays import handles, ints
from stepscope.derive.facts.evidence import SHOWN, Part
from stepscope.derive.facts.processors import (
    core_count,
    counter_readings,
    mean_by_window,
    usable_cores,
)
from stepscope.derive.host.function_frames import FEW_LOOKS
from stepscope.derive.host.function_names import name_with_place
from stepscope.derive.run_derivation import known_hosts, of_each_host, of_run
from stepscope.derive.step_windows.windows import windows_of_times
from stepscope.frozen import Frozen
from stepscope.thresholds import THRESHOLDS

if TYPE_CHECKING:
    from collections.abc import Mapping

    import polars as pl

    from stepscope.array_types import Int64s
    from stepscope.derive.input_pipeline.worker_functions import (
        WorkerFunction,
        WorkerFunctions,
    )
    from stepscope.derive.names.event_kinds import EventKinds
    from stepscope.derive.run_derivation import OfHosts
    from stepscope.derive.step_windows.windows import Windows
    from stepscope.trace.model import TraceData

_WORKERS: Final = "worker processes"
_USED: Final = "worker processes CPU (percent)"
_MACHINE: Final = "machine CPU (percent)"
#: Workers that use less than this of a core each wait for something else most of the
#: time.
_COMPUTES: Final = 0.5
#: This many more of these may wait at the same time.
_TIMES: Final = 2


class LoaderWorkers(Frozen, frozen=True, eq=True):
    """The processes that a program has begun to work for it, of one host.

    Attributes:
        workers: Their usual number.
        cores: Number of cores that the program may use.
        used: Cores that the workers use together; None where not recorded.
        full: Whether hardly a core of the machine is ever free; None where not
            recorded.
    """

    workers: int
    cores: int
    used: float | None = None
    full: bool | None = None

    @property
    def compute(self) -> bool | None:
        """Return whether they compute, and do not wait for a disk or a network.

        None where that was not recorded.
        """
        return None if self.used is None else self.used >= _COMPUTES * self.workers

    @property
    def could_be(self) -> int | None:
        """Return how many workers there is room for; None for no more than there are.

        Workers that compute need a core each. Those that wait, for a disk or a network,
        leave theirs to others.
        """
        if self.full:
            return None
        if self.compute is False:
            return max(_TIMES * self.workers, self.cores)
        return self.cores if self.workers < self.cores else None


@of_each_host
def loader_workers(*, trace: TraceData, windows: Windows) -> LoaderWorkers | None:
    """Return the workers of each host that counted any."""
    cores, readings = usable_cores(trace), counter_readings(trace, _WORKERS)
    starts = ints(windows.measured, "start_ps")
    ends = ints(windows.measured, "end_ps")
    if cores is None or readings is None or not len(starts):
        return None
    # Readings are rare: the last one before the steps counts as well.
    first = max(int(np.searchsorted(readings.time_ps, starts[0])) - 1, 0)
    past = int(np.searchsorted(readings.time_ps, ends[-1], side="right"))
    counted = readings.value[first : max(past, first + 1)]
    workers = round(float(np.median(counted)))
    if not workers:
        return None
    every, full = core_count(trace), None
    in_use = _mean_cores(trace, _MACHINE, starts, ends)
    if every is not None and in_use is not None:
        full = 100 * in_use >= THRESHOLDS.busy_cores.value * every
    return LoaderWorkers(workers, cores, _mean_cores(trace, _USED, starts, ends), full)


@of_each_host
def machine_cores(*, trace: TraceData) -> int | None:
    """Return how many cores the program may use, of each host that says so."""
    return usable_cores(trace)


def _mean_cores(
    trace: TraceData, name: str, starts: Int64s, ends: Int64s
) -> float | None:
    """Return the mean of a counter of processor time in the steps, in cores."""
    readings = counter_readings(trace, name)
    if readings is None:
        return None
    lengths = ends - starts
    weighted = mean_by_window(readings, starts, ends) * lengths
    return float(weighted.sum() / max(int(lengths.sum()), 1)) / 100


#: Workers that are idle in so much of the wait do not make it.
_IDLE_PERCENT: Final = 50.0


class WorkerTime(Frozen, frozen=True, eq=True):
    """Where the time of one host's worker processes goes, in percent of it.

    Attributes:
        waits_percent: Share in which they wait for work.
        functions: The functions in which they work, most time first.
        most: The function that takes most of their work, total time: the
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
        return name_with_place(f"`{self.most.name}`", self.most.file, self.most.line)


@of_each_host
def worker_time(*, worker_functions: WorkerFunctions) -> WorkerTime | None:
    """Return the time of the workers of each host that looked at some often enough."""
    seen = worker_functions
    if seen.looks < FEW_LOOKS:
        return None
    functions = tuple(_worker_part(one, seen) for one in seen.functions)
    named = seen.worth_naming
    # Time in which a step waited is short where steps hardly wait.
    enough = seen.awaited_ps * seen.looks >= FEW_LOOKS * seen.looked_ps
    return WorkerTime(
        workers=seen.workers,
        waits_percent=100 * seen.waits_ps / seen.looked_ps,
        functions=functions[:SHOWN],
        most=None if named is None else _worker_part(named, seen),
        idle_percent=100 * seen.idle_ps / seen.awaited_ps
        if enough and seen.awaited_ps
        else None,
    )


def _worker_part(one: WorkerFunction, seen: WorkerFunctions) -> Part:
    return Part(
        name=one.function,
        detail=one.inside,
        function=one.function,
        file=one.file,
        line=one.line,
        share_percent=100 * one.time_ps / seen.looked_ps,
        inclusive=True,
    )


class WorkerOps(Frozen, frozen=True):
    """The ops that began in the judged steps.

    Attributes:
        runs: Host → name of an op → how often it ran in a step.
    """

    runs: Mapping[str, Mapping[str, float]]

    def runs_op(self, host: str, name: str) -> bool:
        """Return whether a worker runs an op."""
        return name in self.runs.get(host, {})

    def beyond_others(self, host: str) -> float | None:
        """Return which part of a worker's runs the others do not have, in percent.

        Args:
            host: The worker; of the others the median counts, op by op.

        Returns:
            The part; None where ops of too few workers were recorded.
        """
        own_runs = self.runs.get(host)
        others = [ops for name, ops in self.runs.items() if name != host]
        if not own_runs or not others or not all(others):
            return None
        more = sum(
            max(runs - float(np.median([ops.get(name, 0.0) for ops in others])), 0.0)
            for name, runs in own_runs.items()
        )
        return 100 * more / sum(own_runs.values())


def op_runs(
    *,
    event_kinds: EventKinds,
    windows: Windows,
    events: pl.DataFrame,
    event_types: pl.DataFrame,
) -> dict[str, float]:
    """Return how often each op of a host ran in a step."""
    kind = handles(events, "type")
    inside = windows_of_times(windows.measured, ints(events, "start_ps")) >= 0
    which, count = np.unique(
        kind[inside & event_kinds.is_op()[kind]], return_counts=True
    )
    return {
        str(event_types["name"][one]): number / len(windows.measured)
        for one, number in zip(which.tolist(), count.tolist(), strict=True)
    }


@of_run
def worker_ops(*, op_runs: OfHosts[dict[str, float]]) -> WorkerOps:
    """Count the ops of every host."""
    return WorkerOps(known_hosts(op_runs))
