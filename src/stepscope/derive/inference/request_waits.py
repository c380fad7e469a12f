"""`request_waits`: what each request spent its time on, and what it waited for.

Each instant of a request is charged once: to device work that the request launched,
else to what its own thread was doing, else to what other threads did for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.derive.columns.arrays import codes, handles, ints
from stepscope.derive.intervals.nesting import flatten_tracks
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.step_time.device_sets import owner_places
from stepscope.derive.step_time.host_time import STICKY, HostCode
from stepscope.derive.step_time.owners import BUSY_OWNERS, OWNERS
from stepscope.derive.step_time.pool_tasks import pool_tasks
from stepscope.frozen import Frozen
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from numpy.typing import NDArray

    from stepscope.derive.device.correlation import Correlation
    from stepscope.derive.device.precision import Precision
    from stepscope.derive.inference.requests import Requests
    from stepscope.derive.intervals.nesting import Nesting
    from stepscope.derive.names.event_kinds import EventKinds
    from stepscope.derive.step_time.host_classes import HostClasses
    from stepscope.derive.step_time.pool_tasks import PoolTasks
    from stepscope.trace.model import TraceData


class RequestBucket(Frozen, frozen=True, eq=True):
    """One thing that a request may be doing.

    Attributes:
        category: The category of the results that the bucket is part of.
    """

    name: str
    category: str


#: All buckets in the order in which time is charged to them.
REQUEST_BUCKETS: Final = (
    *(
        RequestBucket(owner.name, owner.category)
        for owner in OWNERS
        if owner.name in BUSY_OWNERS
    ),
    RequestBucket("input", "input"),
    RequestBucket("compile", "compilation"),
    RequestBucket("launch", "kernel_launch"),
    RequestBucket("host_compute", "host_compute"),
    #: Ops of the request run on other threads.
    RequestBucket("other_threads", "host_compute"),
    #: Ops of the request wait until a thread of the pool is free.
    RequestBucket("thread_queue", "other"),
    #: The request's thread is blocked, and no thread is known to work for it.
    RequestBucket("blocked", "other"),
    RequestBucket("unexplained", "other"),
)
_CODES: Final = {
    "input": (
        *(HostCode.INPUT_WAIT, HostCode.OWN_INPUT, HostCode.ITERATOR),
        *(HostCode.PIPELINE, HostCode.FILE_READ),
    ),
    "compile": (HostCode.COMPILE, HostCode.TRACING),
    "launch": (HostCode.LAUNCH, HostCode.DISPATCH),
    "host_compute": (HostCode.HOST_COMPUTE, HostCode.SYSTEM_CALL),
    "blocked": (
        *(HostCode.SYNC, HostCode.READ_BACK),
        *(HostCode.BLOCKED, HostCode.SYSTEM_WAIT),
    ),
}
#: Labels of threads share the type of codes.
_MOST_THREADS: Final = 254

_MANY_THREADS: Final = Unavailable(
    code="NOT_RECORDED",
    reason=f"More than {_MOST_THREADS} threads served requests, too many to tell whose "
    "work the tasks of thread pools are.",
    remedy="Record a shorter window.",
)


class RequestWaits(Frozen, frozen=True):
    """Charged times of the requests of a host.

    Attributes:
        rows: One row per row of `Requests.rows`: `<bucket>_ps` for each of
            `REQUEST_BUCKETS`, null where it is unknown; the others add up to the
            request's duration exactly.
    """

    rows: pl.DataFrame
    missing: dict[str, Unavailable]


def request_waits(
    *,
    trace: TraceData,
    tracks: pl.DataFrame,
    events: pl.DataFrame,
    event_kinds: EventKinds,
    event_nesting: Nesting,
    stats: pl.DataFrame,
    host_classes: HostClasses,
    requests: Requests,
    correlation: Correlation | Unavailable,
    precision: Precision | Unavailable,
) -> RequestWaits:
    """Charge every request, thread by thread."""
    served = _Served.group_requests(requests.rows)
    tasks = _served_tasks(
        trace, events, event_kinds, event_nesting, stats=stats, served=served
    )
    work = _device_work(correlation, precision, served=served, tasks=tasks)
    missing: dict[str, Unavailable] = {}
    if tasks is None:
        missing |= dict.fromkeys(("other_threads", "thread_queue"), _MANY_THREADS)
    if isinstance(work, Unavailable):
        missing |= dict.fromkeys(BUSY_OWNERS, work)
    if host_classes.launch_unknown is not None:
        missing["launch"] = host_classes.launch_unknown
    if isinstance(host_classes.host_compute, Unavailable):
        # It is also unknown which calls hand work to a device and wait for it.
        lost = host_classes.host_compute
        missing |= {"host_compute": lost, "blocked": lost}
    own = _own_work(tracks, events, host_classes.code, served)
    times = {
        bucket.name: np.zeros(len(served.start_ps), np.int64)
        for bucket in REQUEST_BUCKETS
    }
    for number, track in enumerate(served.tracks.tolist()):
        sets = dict(own.get(track, {}))
        if not isinstance(work, Unavailable):
            sets |= work[number]
        if tasks is not None:
            mine = np.flatnonzero(tasks.code == number + 1)
            handed, start = tasks.handed_ps[mine], tasks.start_ps[mine]
            sets |= {
                "other_threads": served.clip_to_requests(
                    number, handed, start, tasks.end_ps[mine]
                ),
                "thread_queue": served.clip_to_requests(number, handed, handed, start),
            }
        _charge_requests(times, sets, served, number, skipped=missing.keys())
    return RequestWaits(
        pl.DataFrame(
            [
                pl.Series(
                    f"{name}_ps",
                    [None] * len(spent) if name in missing else spent,
                    dtype=pl.Int64,
                )
                for name, spent in times.items()
            ]
        ),
        missing,
    )


class _Served(Frozen, frozen=True):
    """Requests by row, and the threads that served them.

    Attributes:
        thread: intp by request; place in `tracks`.
    """

    tracks: NDArray[np.int32]
    event: NDArray[np.int32]
    thread: NDArray[np.intp]
    start_ps: NDArray[np.int64]
    end_ps: NDArray[np.int64]
    rows: tuple[NDArray[np.intp], ...]

    @classmethod
    def group_requests(cls, rows: pl.DataFrame) -> _Served:
        """Requests of one thread do not overlap, so their starts order them."""
        start_ps = ints(rows, "start_ps")
        distinct, thread = np.unique(handles(rows, "track"), return_inverse=True)
        order = np.lexsort((start_ps, thread))
        edges = np.searchsorted(thread[order], np.arange(1, len(distinct)))
        return cls(
            distinct,
            handles(rows, "event"),
            thread,
            start_ps,
            start_ps + ints(rows, "dur_ps"),
            tuple(np.split(order, edges)),
        )

    def clip_to_requests(
        self,
        number: int,
        at_ps: NDArray[np.int64],
        start_ps: NDArray[np.int64],
        end_ps: NDArray[np.int64],
    ) -> Spans:
        """Intervals cut to the request of a thread in which something caused them.

        Args:
            number: Place of the thread in `tracks`.
            at_ps: When each was caused; one outside of all requests is left out.
        """
        mine = self.rows[number]
        at = np.searchsorted(self.start_ps[mine], at_ps, side="right") - 1
        known = at >= 0
        request = mine[np.maximum(at, 0)]
        known &= at_ps < self.end_ps[request]
        starts = np.maximum(start_ps, self.start_ps[request])[known]
        ends = np.minimum(end_ps, self.end_ps[request])[known]
        some = starts < ends
        starts, ends = starts[some], ends[some]
        return Spans.from_events(starts, ends - starts)


def _served_tasks(
    trace: TraceData,
    events: pl.DataFrame,
    kinds: EventKinds,
    nesting: Nesting,
    *,
    stats: pl.DataFrame,
    served: _Served,
) -> PoolTasks | None:
    """Return tasks of thread pools, with the thread they serve as their code.

    Threads are counted from 1, in the order of `served.tracks`; None where there are
    too many threads.
    """
    if len(served.tracks) > _MOST_THREADS:
        return None
    label = np.zeros(events.height, np.uint8)
    label[served.event] = served.thread + 1
    return pool_tasks(
        events, kinds, nesting, stats=stats, strings=trace.strings, code=label
    )


def _own_work(
    tracks: pl.DataFrame,
    events: pl.DataFrame,
    code: NDArray[np.uint8],
    served: _Served,
) -> dict[int, dict[str, Spans]]:
    begins, ends = ints(tracks, "event_begin"), ints(tracks, "event_end")
    mine = np.zeros(len(code), np.uint8)
    for track in served.tracks.tolist():
        rows = slice(int(begins[track]), int(ends[track]))
        mine[rows] = code[rows]
    return {
        track: {
            name: Spans.union_of(sets[code] for code in wanted if code in sets)
            for name, wanted in _CODES.items()
        }
        for track, sets in flatten_tracks(tracks, events, mine, sticky=STICKY).items()
    }


def _device_work(
    correlation: Correlation | Unavailable,
    precision: Precision | Unavailable,
    *,
    served: _Served,
    tasks: PoolTasks | None,
) -> list[dict[str, Spans]] | Unavailable:
    if isinstance(correlation, Unavailable):
        return correlation
    if isinstance(precision, Unavailable):
        return precision
    called_ps, thread = _served_threads(correlation.launches, served, tasks)
    launch = correlation.launch_of_activity
    rows = np.flatnonzero(launch >= 0)
    rows = rows[thread[launch[rows]] >= 0]
    of_thread = thread[launch[rows]]
    order = np.argsort(of_thread, kind="stable")
    rows, of_thread = rows[order], of_thread[order]
    edges = np.searchsorted(of_thread, np.arange(1, len(served.tracks)))
    activity = correlation.activity
    start, dur = ints(activity, "start_ps"), ints(activity, "dur_ps")
    place = owner_places(codes(activity, "kind"), precision)
    found: list[dict[str, Spans]] = []
    for number, mine in enumerate(np.split(rows, edges)):
        sets = {}
        for at, name in enumerate(BUSY_OWNERS):
            some = mine[place[mine] == at]
            begins, called = start[some], called_ps[launch[some]]
            sets[name] = served.clip_to_requests(
                number, called, begins, begins + dur[some]
            )
        found.append(sets)
    return found


def _served_threads(
    launches: pl.DataFrame, served: _Served, tasks: PoolTasks | None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return when each launch was called, and the thread it served, -1 for none."""
    track, at_ps = handles(launches, "track"), ints(launches, "start_ps")
    place = np.searchsorted(served.tracks, track)
    place = np.minimum(place, len(served.tracks) - 1)
    thread = np.where(served.tracks[place] == track, place, -1).astype(np.int64)
    if tasks is None:
        return at_ps, thread
    for pool in np.unique(tasks.track).tolist():
        mine = np.flatnonzero((track == pool) & (thread < 0))
        running = np.flatnonzero((tasks.track == pool) & (tasks.code > 0))
        if not len(mine) or not len(running):
            continue
        task = np.searchsorted(tasks.start_ps[running], at_ps[mine], side="right") - 1
        inside = task >= 0
        mine, task = mine[inside], running[task[inside]]
        held = at_ps[mine] < tasks.end_ps[task]
        thread[mine[held]] = tasks.code[task[held]].astype(np.int64) - 1
    return at_ps, thread


def _charge_requests(
    columns: Mapping[str, NDArray[np.int64]],
    sets: Mapping[str, Spans],
    served: _Served,
    number: int,
    *,
    skipped: Collection[str],
) -> None:
    """Charge the requests of one thread; what no set covers is unexplained."""
    rows = served.rows[number]
    starts, ends = served.start_ps[rows], served.end_ps[rows]
    taken, covered = Spans.empty(), np.zeros(len(rows), np.int64)
    for bucket in REQUEST_BUCKETS[:-1]:
        found = sets.get(bucket.name)
        if found is None or not len(found) or bucket.name in skipped:
            continue
        taken |= found
        now = taken.within(starts, ends)
        columns[bucket.name][rows] = now - covered
        covered = now
    columns[REQUEST_BUCKETS[-1].name][rows] = ends - starts - covered
