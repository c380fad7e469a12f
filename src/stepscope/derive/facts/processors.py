"""CPU cores of a host: how busy they are, and when the steps' thread has none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from stepscope.derive.facts.evidence import Part
from stepscope.derive.host.core_time import (
    MACHINE_USE,
    Readings,
    core_count,
    counter_readings,
    thread_identities,
)
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.run_derivation import of_each_host, of_each_host_or_why
from stepscope.derive.step_windows.windows import window_bounds
from stepscope.frozen import Frozen
from stepscope.remedies import Remedy
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray

    from stepscope.array_types import Int64s
    from stepscope.derive.account.host_waits import HostWaits
    from stepscope.derive.account.naming import Name, Naming
    from stepscope.derive.host.core_time import CoreTime
    from stepscope.derive.host.function_purposes import KnownWork
    from stepscope.derive.step_windows.windows import Windows
    from stepscope.thresholds import Thresholds
    from stepscope.trace.model import TraceData


def usable_cores(trace: TraceData) -> int | None:
    """Return the number of cores that the program may use; None if unknown.

    If no restriction was recorded, all cores of the machine count.
    """
    table = trace.table("environment")
    core_limit = None if isinstance(table, Unavailable) else table["cores"].item()
    return core_count(trace) if core_limit is None else int(core_limit)


_PRESSURE: Final = "CPU pressure (percent)"
_OWN: Final = (
    *("process CPU (percent)", "worker processes CPU (percent)"),
    "child processes CPU (percent)",
)
_THREADS: Final = ("threads", "worker processes")


class Processors(Frozen, frozen=True):
    """CPU use of one host during its judged steps.

    Attributes:
        cores: Number of cores of the machine.
        waiting_percent: Share of time in which at least one thread of the machine
            waited for a core, by judged step.
        machine: Mean number of cores in use.
        own: Mean number of cores that the program and the processes that it started
            use; None if unknown.
        threads: Number of the program's threads, plus one per worker; None if unknown.
        workers: Mean number of cores that the workers use; None without workers.
        children: Mean number of cores that other processes use which the program
            started; None without such processes.
    """

    cores: int
    waiting_percent: tuple[float, ...]
    machine: float
    own: float | None
    threads: int | None
    workers: float | None = None
    children: float | None = None

    def are_full(self, thresholds: Thresholds) -> bool:
        """Return whether nearly all cores are in use, by this or other programs."""
        return 100 * self.machine >= thresholds.busy_cores.value * self.cores

    def whose_threads_crowd(
        self, thresholds: Thresholds
    ) -> Literal["own", "children", "others"] | None:
        """Return whose threads overload the cores; None if no threads do."""
        if not self.are_full(thresholds):
            return None
        if self.own is not None and 2 * self.own < self.machine:
            return "others"
        if 2 * (self.children or 0.0) >= self.machine:
            return "children"
        limit = thresholds.threads_of_a_core.value * self.cores
        return "own" if self.threads is not None and self.threads > limit else None


@of_each_host_or_why
def processor_signals(
    *, trace: TraceData, windows: Windows
) -> Processors | Unavailable:
    """Compute the CPU use of every host whose counters were recorded."""
    cores = core_count(trace)
    pressure = counter_readings(trace, _PRESSURE)
    if cores is None or pressure is None:
        return _NOT_RECORDED
    starts, ends = window_bounds(windows.measured)
    machine = overall_mean(trace, MACHINE_USE, starts, ends)
    if machine is None:
        return _NOT_RECORDED
    own = [overall_mean(trace, name, starts, ends) for name in _OWN]
    threads = [overall_mean(trace, name, starts, ends) for name in _THREADS]
    workers, children = own[1] or 0.0, own[2] or 0.0
    waiting = np.clip(mean_by_window(pressure, starts, ends), 0.0, 100.0)
    return Processors(
        cores=cores,
        waiting_percent=tuple(waiting.tolist()),
        machine=machine / 100,
        own=None if own[0] is None else (own[0] + max(workers, children)) / 100,
        threads=None if threads[0] is None else round(threads[0] + (threads[1] or 0.0)),
        workers=None if own[1] is None else own[1] / 100,
        children=None if own[2] is None else max(children - workers, 0.0) / 100,
    )


class WithoutCore(Frozen, frozen=True, eq=True):
    """For how long a step needed a core and had none, in each judged step, in ps.

    Attributes:
        thread_ps: The thread of the step was ready for a core.
        pool_ps: It slept, and a thread that Python did not start was ready. Other
            threads of the same pool may have had the cores.
    """

    thread_ps: tuple[int, ...]
    pool_ps: tuple[int, ...]


@of_each_host
def time_without_core(
    *, tracks: pl.DataFrame, naming: Naming, core_time: CoreTime, windows: Windows
) -> WithoutCore | None:
    """Return for how long the steps had no core; None if this was not recorded."""
    if not naming.function_tracks:
        return None
    thread = thread_identities(tracks)[naming.function_tracks[0]]
    clock, rest = core_time.threads.get(thread), core_time.rest.get(thread[:2])
    if clock is None or clock.ready is None:
        return None
    of_pool = Spans.empty() if rest is None else rest.ready or Spans.empty()
    bounds = window_bounds(windows.measured)
    return WithoutCore(
        tuple(clock.ready.within(*bounds).tolist()),
        tuple((clock.asleep & of_pool).within(*bounds).tolist()),
    )


def mean_by_window(
    readings: Readings, starts: Int64s, ends: Int64s
) -> NDArray[np.float64]:
    """Return the mean of a counter in each window.

    The value of a sample applies to the time since the sample before it. The first
    sample also applies to earlier times, and the last sample to later times.
    """
    times, values = readings.time_ps, readings.value
    lasted = np.diff(times, prepend=times[:1]).astype(np.float64)
    total = np.concatenate(([0.0], np.cumsum(values * lasted)))

    def integral_until(until_ps: Int64s) -> NDArray[np.float64]:
        """Return the integral of the counter from its first sample up to each time."""
        index = np.searchsorted(times, until_ps, side="right")
        last = np.where(index > 0, times[np.maximum(index, 1) - 1], times[0])
        value = values[np.minimum(index, len(values) - 1)]
        integral: NDArray[np.float64] = total[index] + (until_ps - last) * value
        return integral

    means: NDArray[np.float64] = (
        integral_until(ends) - integral_until(starts)
    ) / np.maximum(ends - starts, 1)
    return means


def overall_mean(
    trace: TraceData, name: str, starts: Int64s, ends: Int64s
) -> float | None:
    """Return the mean of a counter over all windows together; None if not recorded."""
    readings = counter_readings(trace, name)
    if readings is None:
        return None
    lengths = ends - starts
    weighted = mean_by_window(readings, starts, ends) * lengths
    return float(weighted.sum() / max(int(lengths.sum()), 1))


_NOT_RECORDED: Final = Unavailable(
    code="NOT_RECORDED",
    reason="Waiting of threads for a core was not recorded; recording it requires "
    "Linux with /proc/pressure/cpu.",
    remedy=Remedy.RECORD_WITH_STEPSCOPE,
)


class Asleep(Frozen, frozen=True):
    """Time in the judged steps in which the program's own thread waits.

    Attributes:
        times_ps: Time of waiting in each judged step.
        share_percent: Share of the sleep in the time of all judged steps.
        function: Function in which the thread sleeps longest.
        works: Whether another thread of the program works during most of the sleep;
            None if the clocks of threads were not read.
        other: Function that this other thread executes; None if unknown.
        workers: Number of cores that worker processes use; None if they wait, or if
            another thread of the program works.
        work: Kind of work that most of the sleep is part of; None if unknown.
    """

    times_ps: tuple[int, ...]
    share_percent: float
    function: Part
    works: bool | None
    other: Part | None
    workers: float | None = None
    work: KnownWork | None = None

    def named_parts(
        self, parts: tuple[Part, ...], *, for_processes: bool
    ) -> tuple[Part, ...]:
        """Return where the thread waits, what another executes, then other parts."""
        other = () if for_processes or self.other is None else (self.other,)
        keys = {part.key for part in (self.function, *other)}
        rest = (part for part in parts if part.key not in keys)
        return (self.function, *other, *rest)


#: Worker processes that use fewer cores than this count as waiting.
_MIN_WORKER_CORES: Final = 0.1


@of_each_host
def asleep(
    *,
    host_waits: dict[str, HostWaits],
    windows: Windows,
    processor_signals: Processors | Unavailable,
) -> dict[str, Asleep]:
    """Return, by cause, the waits of the program's thread on each host."""
    cores = None if isinstance(processor_signals, Unavailable) else processor_signals
    starts, ends = window_bounds(windows.measured)
    used = None if cores is None else cores.workers
    by_cause = {}
    for owner, waits in host_waits.items():
        times = tuple(waits.spans.within(starts, ends).tolist())
        share = 100 * sum(times) / max(int((ends - starts).sum()), 1)
        running_part = None
        if waits.thread is not None and waits.running is not None:
            running_part = _named_part(waits.running, share, thread=waits.thread)
        function = _named_part(waits.function, share)
        works_itself = waits.works and not waits.of_library
        workers = None if works_itself or (used or 0.0) < _MIN_WORKER_CORES else used
        by_cause[owner] = Asleep(
            *(times, share, function, waits.works, running_part, workers, waits.work)
        )
    return by_cause


def _named_part(name: Name, share_percent: float, *, thread: str | None = None) -> Part:
    return Part(
        name=name.name or name.function or "",
        detail=name.detail,
        function=name.function,
        file=name.file,
        line=name.line,
        loop=name.loop,
        thread=thread,
        share_percent=share_percent,
    )
