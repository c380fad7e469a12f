"""`core_time`: the recorded times at which threads were on a core or ready for one.

Definition: docs/definitions/host-time.md#waiting-and-working.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.derive.columns.arrays import handles, ints, wanted_rows
from stepscope.derive.intervals.spans import Spans
from stepscope.frozen import Frozen
from stepscope.thresholds import THRESHOLDS
from stepscope.trace.tables import DOUBLE
from stepscope.unavailable import Unavailable
from stepscope.xspace.samples_line import (
    AWAKE,
    OTHER_THREADS,
    READ,
    READ_TOGETHER,
    READY,
    SAMPLED,
    SYSTEM,
    SamplesLine,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from stepscope.array_types import Int64s
    from stepscope.trace.model import TraceData

_NOT_READ: Final = Unavailable(
    code="NOT_RECORDED",
    reason="The CPU clocks of the program's threads were not read.",
    remedy="Record with stepscope on Linux, with `python_sampling_hz` above 0.",
)


#: Names of the events of a thread's clock.
_NAMES: Final = (READ, READ_TOGETHER, AWAKE, READY, SYSTEM)
#: Counters of the utilisation of each core, and of all cores together.
_OF_A_CORE: Final = r"^core \d+ CPU \(percent\)$"
MACHINE_USE: Final = "machine CPU (percent)"


class Readings(Frozen, frozen=True):
    """Samples of one counter, in time order."""

    time_ps: Int64s
    value: NDArray[np.float64]


def core_count(trace: TraceData) -> int | None:
    """Return the number of cores with a usage counter; None without such counters."""
    types = trace.table("event_types")
    if isinstance(types, Unavailable):
        return None
    return int(types["name"].str.contains(_OF_A_CORE).sum()) or None


def counter_readings(trace: TraceData, name: str) -> Readings | None:
    """Return the samples of a counter; None if it was not recorded."""
    types = trace.table("event_types")
    events = trace.table("events")
    stats = trace.table("stats")
    if (
        isinstance(types, Unavailable)
        or isinstance(events, Unavailable)
        or isinstance(stats, Unavailable)
    ):
        return None
    wanted = (types["name"] == name).to_numpy()
    if not wanted.any():
        return None
    rows = wanted_rows(handles(events, "type"), wanted)
    readings = stats.filter(pl.col("event").is_in(rows.tolist())).unique(
        "event", keep="first"
    )
    if not len(readings):
        return None
    time_ps = ints(events, "start_ps")[readings["event"].to_list()]
    order = np.argsort(time_ps, kind="stable")
    value = readings["value"].to_numpy()
    real = (readings["kind"] == DOUBLE).to_numpy()
    number = np.where(real, value.view(np.float64), value)
    return Readings(time_ps[order], number[order].astype(np.float64))


class ThreadTime(Frozen, frozen=True):
    """The readings of one thread's CPU clock, and when the thread was on a core.

    Attributes:
        seen: Spans from the first to the last of consecutive readings.
        awake: Part of `seen` in which the thread was on a core or waited for one.
        system: When the thread waited for the system (a file, a process, or time to
            pass), not for another thread. This field is known only for the main thread.
        ready: Part of `awake` in which the thread had no core; None if not recorded.
    """

    name: str
    seen: Spans
    awake: Spans
    system: Spans
    ready: Spans | None = None

    @property
    def asleep(self) -> Spans:
        """Return when the thread needed no core: it slept, read, or waited."""
        return self.seen - self.awake


class CoreTime(Frozen, frozen=True):
    """The times at which a process's threads had or wanted a core.

    Attributes:
        are_full: Whether nearly all cores were in use, by this or other programs.
        threads: (Plane, process, thread id of the system) → times of the thread.
        sampled_ps: (Plane, process) → when the stacks of its threads were sampled.
        rest: (Plane, process) → when any other thread of the process was on a core, and
            when the one of them that waited longest was ready for one (if recorded).
    """

    threads: Mapping[tuple[str, int | None, int], ThreadTime]
    rest: Mapping[tuple[str, int | None], ThreadTime]
    are_full: bool = False
    sampled_ps: Mapping[tuple[str, int | None], Int64s] = MappingProxyType({})


def core_time(
    *,
    trace: TraceData,
    tracks: pl.DataFrame,
    events: pl.DataFrame,
    event_types: pl.DataFrame,
) -> CoreTime | Unavailable:
    """Collect the core times from the lines of their samples."""
    threads: dict[tuple[str, int | None, int], ThreadTime] = {}
    others_by_process: dict[tuple[str, int | None], ThreadTime] = {}
    sampled_ps: dict[tuple[str, int | None], Int64s] = {}
    sampled = tracks.with_row_index("row").filter(tracks["kind"] == "samples")
    lines = sampled.select("plane", "process", "id", "name", "event_begin", "event_end")
    for plane, process, line, name, begin, end in lines.rows():
        samples = SamplesLine.of(line, name)
        if samples is None or samples.kind != "core_time":
            continue
        rows = slice(begin, end)
        names = event_types["name"].gather(handles(events, "type")[rows])
        start, dur = ints(events, "start_ps")[rows], ints(events, "dur_ps")[rows]
        read, together, awake, ready, system = (
            Spans.from_events(start[chosen], dur[chosen])
            for chosen in ((names == kind).to_numpy() for kind in _NAMES)
        )
        time = ThreadTime(
            *(samples.thread_name, read | together, awake, system),
            ready=None if together else ready,
        )
        if samples.thread == OTHER_THREADS:
            others_by_process[plane, process] = time
            sampled_ps[plane, process] = start[(names == SAMPLED).to_numpy()]
        else:
            threads[plane, process, samples.thread] = time
    if not threads:
        return _NOT_READ
    cores, used = core_count(trace), counter_readings(trace, MACHINE_USE)
    limit = THRESHOLDS.busy_cores.value * (cores or 0)
    are_full = used is not None and cores is not None and used.value.mean() >= limit
    return CoreTime(
        threads, others_by_process, are_full=bool(are_full), sampled_ps=sampled_ps
    )


def thread_identities(tracks: pl.DataFrame) -> list[tuple[str, int | None, int]]:
    """Return plane, process and the system's thread id, by row of tracks.

    These are the keys of `CoreTime.threads`.
    """
    thread_ids = []
    for plane, process, line, name in tracks.select(
        *("plane", "process", "id", "name")
    ).rows():
        samples = SamplesLine.of(line, name)
        thread_ids.append((plane, process, line if samples is None else samples.thread))
    return thread_ids
