"""`requests` and `request_waits`: the requests that a program served, and their waits.

A request is an event that the program announced as a request (with a request id, a
batch size, or as a root), or the call with which a serving library runs a request. The
time of a request is charged to device work that it launched. Other time is charged to
what the request's thread did, or to what other threads did for this thread.

Definition: docs/tools/inference_profile.md#what-is-a-request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.derive.columns.arrays import codes, handles, ints
from stepscope.derive.columns.stat_values import StatRows, values_of_owners
from stepscope.derive.host.values import (
    add_shared_values,
    host_rows,
    host_stats,
    int_values,
    text_codes,
)
from stepscope.derive.intervals.nesting import flatten_tracks, nest_subset
from stepscope.derive.intervals.spans import Spans, charge_first
from stepscope.derive.names.event_kinds import EventFlag, OpCategory
from stepscope.derive.reasons import WHY
from stepscope.derive.step_time.device_sets import owner_indices
from stepscope.derive.step_time.host_time import STICKY, HostCode
from stepscope.derive.step_time.owners import BUSY_OWNERS, OWNERS
from stepscope.derive.step_time.pool_tasks import pool_tasks
from stepscope.frozen import Frozen
from stepscope.trace.reading.nullable import absent_mask, nullable_series
from stepscope.trace.reading.stat_keys import StatKey
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from numpy.typing import NDArray

    from stepscope.array_types import Bools, Int32s, Int64s
    from stepscope.derive.device.correlation import Correlation
    from stepscope.derive.device.precision import Precision
    from stepscope.derive.intervals.nesting import Nesting
    from stepscope.derive.names.event_kinds import EventKinds
    from stepscope.derive.step_time.host_classes import HostClasses
    from stepscope.derive.step_time.pool_tasks import PoolTasks
    from stepscope.derive.steps.chosen import Steps
    from stepscope.trace.model import TraceData

#: Columns of `Requests.rows`, which are sorted by start.
REQUEST_ROWS: Final[dict[str, pl.DataType]] = {
    "event": pl.Int32(),  # row of events
    "track": pl.Int32(),  # the thread that served the request
    "name": pl.String(),
    "start_ps": pl.Int64(),
    "dur_ps": pl.Int64(),
    "request_id": pl.String(),  # null where not recorded
    "batch_size": pl.Int64(),  # null where not recorded
}

_ID: Final = StatKey.REQUEST_ID
_BATCH: Final = StatKey.BATCH_SIZE
#: Key of the size of a request that a batcher combined with other requests.
_TASK: Final = StatKey.BATCHING_TASK_SIZE
_ROOT: Final = StatKey.ROOT_LEVEL
_STEP: Final = StatKey.STEP_NUM
_KEYS: Final = (_ID, _BATCH, _TASK, _ROOT, _STEP)
#: Value of the root level (`_r`) of events that the program declared to be requests.
_REQUEST_ROOT: Final = -1

#: Patterns of calls of serving libraries, outer first; the first that matches is used.
_CALLS: Final = (
    r"^BatchingSessionRun$",
    r"^TfrtModelRun$",
    r"^ServingModelRun$",
    r"^(?:SessionRun|RunGraph)$",
)
#: Pattern that also matches calls that run training steps.
_PLAIN_SESSIONS: Final = _CALLS[-1]
#: Events that are not requests even if they have a batch size: calls of the pipeline,
#: ops, and the batches that a batcher forms from requests.
_NO_REQUEST: Final = (
    EventFlag.DATASET
    | EventFlag.PRODUCER
    | EventFlag.CONSUMER_WAIT
    | EventFlag.USER_INPUT
    | EventFlag.SERVING
    | EventFlag.CAPTURED_FUNCTION
    | EventFlag.PYTHON_FRAME
    | EventFlag.END_THUNK
)


class Requests(Frozen, frozen=True):
    """The requests of one host; requests on one thread do not overlap.

    Attributes:
        without_values: Why ids and sizes, and the requests identified by them, could
            not be read; None if they could be read.
    """

    rows: pl.DataFrame
    without_values: Unavailable | None


def requests(
    *,
    trace: TraceData,
    tracks: pl.DataFrame,
    events: pl.DataFrame,
    event_types: pl.DataFrame,
    event_kinds: EventKinds,
    stats: pl.DataFrame | Unavailable,
    type_stats: pl.DataFrame | Unavailable,
    steps: Steps | Unavailable,
) -> Requests | Unavailable:
    """Find the outermost request events of every host thread.

    Args:
        steps: If the program marks steps, events without request id are training steps.
    """
    if not event_types["known"].any():
        return WHY["nameless_requests"]
    marked = not isinstance(steps, Unavailable) and steps.source == "marker"
    scene = _Scene(trace, tracks, events, event_kinds)
    candidates = [scene.library_calls(event_types["name"], marked=marked)]
    values = None
    if not isinstance(stats, Unavailable):
        values = host_stats(trace.strings, tracks, stats, _KEYS)
        if not isinstance(type_stats, Unavailable):
            add_shared_values(values, trace.strings, tracks, events, type_stats)
        candidates += [scene.announced_requests(values, marked=marked)]
    rows = np.unique(np.concatenate(candidates))
    if not len(rows):
        return stats if isinstance(stats, Unavailable) else WHY["no_requests"]
    return Requests(
        scene.outermost_requests(rows, event_types["name"], values),
        without_values=stats if isinstance(stats, Unavailable) else None,
    )


class _Scene(Frozen, frozen=True):
    """The tables and codes in which requests are searched."""

    trace: TraceData
    tracks: pl.DataFrame
    events: pl.DataFrame
    kinds: EventKinds

    def library_calls(self, names: pl.Series, *, marked: bool) -> Int64s:
        """Return the calls of the outermost serving library that has recorded calls."""
        for pattern in _CALLS:
            if pattern == _PLAIN_SESSIONS and marked:
                break
            wanted = names.str.contains(pattern).to_numpy()
            rows = host_rows(self.tracks, handles(self.events, "type"), wanted)
            if len(rows):
                return rows
        return np.empty(0, np.int64)

    def announced_requests(
        self, values: Mapping[StatKey, StatRows], *, marked: bool
    ) -> Int64s:
        """Return events that the program itself announced as requests."""
        level_of, level = int_values(values[_ROOT])
        named = np.union1d(values[_ID].owner, level_of[level == _REQUEST_ROOT])
        announced = self._host_requests(named, self.kinds.has(_NO_REQUEST))
        if marked:
            return announced
        # Leave out steps and ops, which may also have a batch size.
        sized = values[_BATCH].owner
        excluded = np.union1d(values[_STEP].owner, level_of[level >= 1])
        sized = np.unique(sized[~np.isin(sized, excluded)])
        is_op = self.kinds.category != OpCategory.UNKNOWN
        sized_rows = self._host_requests(sized, is_op | self.kinds.has(_NO_REQUEST))
        return np.union1d(announced, sized_rows)

    def _host_requests(self, rows: Int32s, excluded: Bools) -> Int64s:
        host = absent_mask(self.tracks["device"])[handles(self.events, "track")[rows]]
        return rows[host & ~excluded[handles(self.events, "type")[rows]]].astype(
            np.int64
        )

    def outermost_requests(
        self, rows: Int64s, names: pl.Series, values: Mapping[StatKey, StatRows] | None
    ) -> pl.DataFrame:
        """Return the requests that are not inside another request, sorted by start."""
        start_ps = ints(self.events, "start_ps")[rows]
        dur_ps = ints(self.events, "dur_ps")[rows]
        track = handles(self.events, "track")[rows]
        outer = nest_subset(start_ps, dur_ps, track=track).parent < 0
        rows = rows[outer]
        return pl.DataFrame(
            {
                "event": rows.astype(np.int32),
                "track": track[outer],
                "name": names.gather(handles(self.events, "type")[rows]),
                "start_ps": start_ps[outer],
                "dur_ps": dur_ps[outer],
                "request_id": self.request_ids(rows, values),
                "batch_size": self.batch_sizes(rows, values),
            },
            schema=REQUEST_ROWS,
        ).sort("start_ps", "event")

    def request_ids(
        self, rows: Int64s, values: Mapping[StatKey, StatRows] | None
    ) -> pl.Series:
        """Return the id of each request as text; null if it has none."""
        if values is None:
            return pl.Series([None] * len(rows), dtype=pl.String)
        owner, number = int_values(values[_ID])
        value, known = values_of_owners(rows, owner, number)
        numbers = nullable_series("id", value, known).cast(pl.String)
        owner, code, texts = text_codes(self.trace, values[_ID])
        text_index, spelled = values_of_owners(rows, owner, code)
        if not spelled.any():
            return numbers
        id_texts = pl.Series(texts, dtype=pl.String).gather(text_index)
        return id_texts.zip_with(pl.Series(spelled), numbers)

    def batch_sizes(
        self, rows: Int64s, values: Mapping[StatKey, StatRows] | None
    ) -> pl.Series:
        """Return the batch size of each request; null if not recorded."""
        if values is None:
            return pl.Series([None] * len(rows), dtype=pl.Int64)
        size, known = values_of_owners(rows, *int_values(values[_BATCH]))
        task, batched = values_of_owners(rows, *int_values(values[_TASK]))
        return nullable_series(
            "batch_size", np.where(known, size, task), known | batched
        )


class RequestBucket(Frozen, frozen=True, eq=True):
    """One kind of time into which a request is divided.

    Attributes:
        category: The category of the results that contains the bucket.
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
#: Maximum number of serving threads, because their labels are stored as uint8 codes.
_MAX_THREADS: Final = 254

_TOO_MANY_THREADS: Final = Unavailable(
    code="NOT_RECORDED",
    reason=f"More than {_MAX_THREADS} threads served requests: too many to "
    "assign the tasks of thread pools to requests.",
    remedy="Record a shorter window.",
)


class RequestWaits(Frozen, frozen=True):
    """The time of each request of a host, divided into buckets.

    Attributes:
        rows: One row per row of `Requests.rows`: `<bucket>_ps` for each of
            `REQUEST_BUCKETS`, null if unknown; the known times add up to the duration.
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
    """Charge the time of every request, thread by thread."""
    served = _Served.group_requests(requests.rows)
    tasks = _served_tasks(
        trace, events, event_kinds, event_nesting, stats=stats, served=served
    )
    work = _device_work(correlation, precision, served=served, tasks=tasks)
    missing: dict[str, Unavailable] = {}
    if tasks is None:
        missing |= dict.fromkeys(("other_threads", "thread_queue"), _TOO_MANY_THREADS)
    if isinstance(work, Unavailable):
        missing |= dict.fromkeys(BUSY_OWNERS, work)
    if host_classes.launch_unknown is not None:
        missing["launch"] = host_classes.launch_unknown
    if isinstance(host_classes.host_compute, Unavailable):
        # If host compute is unknown, so are calls that launch device work and await it.
        lost = host_classes.host_compute
        missing |= {"host_compute": lost, "blocked": lost}
    begins, ends = ints(tracks, "event_begin"), ints(tracks, "event_end")
    served_code = np.zeros(len(host_classes.code), np.uint8)
    for track in served.tracks.tolist():
        rows = slice(int(begins[track]), int(ends[track]))
        served_code[rows] = host_classes.code[rows]
    own = {
        track: {
            name: Spans.union_of(sets[code] for code in wanted if code in sets)
            for name, wanted in _CODES.items()
        }
        for track, sets in flatten_tracks(
            tracks, events, served_code, sticky=STICKY
        ).items()
    }
    times = {
        bucket.name: np.zeros(len(served.start_ps), np.int64)
        for bucket in REQUEST_BUCKETS
    }
    for number, track in enumerate(served.tracks.tolist()):
        sets = dict(own.get(track, {}))
        if not isinstance(work, Unavailable):
            sets |= work[number]
        if tasks is not None:
            own_tasks = np.flatnonzero(tasks.code == number + 1)
            handed, start = tasks.handed_ps[own_tasks], tasks.start_ps[own_tasks]
            sets |= {
                "other_threads": served.clip_to_requests(
                    number, handed, start, tasks.end_ps[own_tasks]
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
        thread: intp by request; index into `tracks`.
    """

    tracks: Int32s
    event: Int32s
    thread: NDArray[np.intp]
    start_ps: Int64s
    end_ps: Int64s
    rows: tuple[NDArray[np.intp], ...]

    @classmethod
    def group_requests(cls, rows: pl.DataFrame) -> _Served:
        """Group requests by thread, sorted by start; on a thread they are disjoint."""
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
        self, number: int, caused_ps: Int64s, start_ps: Int64s, end_ps: Int64s
    ) -> Spans:
        """Clip each interval to the thread's request in which it was caused.

        Args:
            number: Index of the thread in `tracks`.
            caused_ps: Time at which each interval was caused; ignored outside requests.
        """
        own_rows = self.rows[number]
        index = np.searchsorted(self.start_ps[own_rows], caused_ps, side="right") - 1
        known = index >= 0
        request = own_rows[np.maximum(index, 0)]
        known &= caused_ps < self.end_ps[request]
        starts = np.maximum(start_ps, self.start_ps[request])[known]
        ends = np.minimum(end_ps, self.end_ps[request])[known]
        return Spans.from_bounds(starts, ends)


def _served_tasks(
    trace: TraceData,
    events: pl.DataFrame,
    kinds: EventKinds,
    nesting: Nesting,
    *,
    stats: pl.DataFrame,
    served: _Served,
) -> PoolTasks | None:
    """Return tasks of thread pools, with the number of the served thread as code.

    Threads are numbered from 1, as in `served.tracks`; None if there are too many.
    """
    if len(served.tracks) > _MAX_THREADS:
        return None
    label = np.zeros(events.height, np.uint8)
    label[served.event] = served.thread + 1
    return pool_tasks(
        events, kinds, nesting, stats=stats, strings=trace.strings, code=label
    )


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
    place = owner_indices(codes(activity, "kind"), precision)
    by_thread: list[dict[str, Spans]] = []
    for number, own_rows in enumerate(np.split(rows, edges)):
        sets = {}
        for index, name in enumerate(BUSY_OWNERS):
            owner_rows = own_rows[place[own_rows] == index]
            begins, called = start[owner_rows], called_ps[launch[owner_rows]]
            sets[name] = served.clip_to_requests(
                number, called, begins, begins + dur[owner_rows]
            )
        by_thread.append(sets)
    return by_thread


def _served_threads(
    launches: pl.DataFrame, served: _Served, tasks: PoolTasks | None
) -> tuple[Int64s, Int64s]:
    """Return each launch call's time, and the thread that it served, -1 for none."""
    track, called_ps = handles(launches, "track"), ints(launches, "start_ps")
    index = np.searchsorted(served.tracks, track)
    index = np.minimum(index, len(served.tracks) - 1)
    thread = np.where(served.tracks[index] == track, index, -1).astype(np.int64)
    if tasks is None:
        return called_ps, thread
    for pool in np.unique(tasks.track).tolist():
        own = np.flatnonzero((track == pool) & (thread < 0))
        active = np.flatnonzero((tasks.track == pool) & (tasks.code > 0))
        if not len(own) or not len(active):
            continue
        task = np.searchsorted(tasks.start_ps[active], called_ps[own], side="right") - 1
        inside = task >= 0
        own, task = own[inside], active[task[inside]]
        held = called_ps[own] < tasks.end_ps[task]
        thread[own[held]] = tasks.code[task[held]].astype(np.int64) - 1
    return called_ps, thread


def _charge_requests(
    columns: Mapping[str, Int64s],
    sets: Mapping[str, Spans],
    served: _Served,
    number: int,
    *,
    skipped: Collection[str],
) -> None:
    """Charge the request time of one thread; time outside all `sets` is unexplained."""
    rows = served.rows[number]
    starts, ends = served.start_ps[rows], served.end_ps[rows]
    *names, unexplained = (bucket.name for bucket in REQUEST_BUCKETS)
    known = [name for name in names if sets.get(name) and name not in skipped]
    charged = charge_first({name: sets[name] for name in known}, starts, ends)
    for name, spent in charged.items():
        columns[name][rows] = spent
    columns[unexplained][rows] = ends - starts - sum(charged.values())
