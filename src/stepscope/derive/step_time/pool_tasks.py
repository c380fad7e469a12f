"""Tasks that threads hand to thread pools, and ops that run while a thread waits.

A recording has the handover of a task to the pool, and the times at which a pool thread
begins and ends the task. An id joins the events of a task. The ops of all threads
together show on which types of op the time is spent.

One process may contain several workers, namely the devices that JAX creates from a
host's cores. A worker in a collective then waits for ops of the other workers.

Definition: docs/definitions/names-and-events.md#work-handed-to-other-threads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from stepscope.derive.columns.arrays import handles, ints, wanted_rows
from stepscope.derive.columns.stat_values import (
    find_handle,
    rows_with_key,
    values_of_owners,
)
from stepscope.derive.intervals.nesting import flatten_rows
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.names.event_kinds import EventFlag, HostClass
from stepscope.derive.step_time.host_time import STICKY, HostCode
from stepscope.frozen import Frozen
from stepscope.trace.reading.stat_keys import StatKey

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import polars as pl

    from stepscope.array_types import Bools, Int32s, Int64s, UInt8s
    from stepscope.derive.intervals.nesting import Nesting
    from stepscope.derive.intervals.spans import TrackRows
    from stepscope.derive.names.event_kinds import EventKinds

#: Maximum length of a chain of tasks that each hand over the next one. Real chains are
#: short, because a parallel loop halves itself.
_MAX_CHAIN_LENGTH: Final = 64
#: Maximum size of a lookup table over the whole range of ids, in entries per id.
_MAX_ENTRIES_PER_ID: Final = 8


class PoolTasks(Frozen, frozen=True):
    """Tasks whose begin and end are known, by track and time.

    Attributes:
        handed_ps: int64; time at which the task was handed over; its start if unknown.
        code: uint8; `HostCode` of the event that handed the task over, 0 if unknown.
    """

    track: Int32s
    start_ps: Int64s
    end_ps: Int64s
    handed_ps: Int64s
    code: UInt8s


#: Classes of events that hand ops to other threads and wait for them.
_HANDS_ON: Final = (HostClass.EXECUTOR, HostClass.EXECUTABLE, HostClass.DISPATCH)
_CALLS: Final = (
    *(EventFlag.FUNCTION_CALL, EventFlag.FUNCTION_RUN, EventFlag.PJIT),
    *(EventFlag.EAGER_WRAPPER, EventFlag.EXECUTOR, EventFlag.EXECUTABLE),
)
#: Codes during which a task does not compute.
_WAITS: Final = (HostCode.PEER, HostCode.SYNC, HostCode.BLOCKED)


def hand_on_work(kinds: EventKinds) -> Bools:
    """Return True for the types of events that hand ops on and wait for them."""
    hands_on: Bools = np.isin(kinds.host_class, _HANDS_ON)
    for flag in _CALLS:
        hands_on |= kinds.has(flag)
    return hands_on


def computing_spans(
    events: pl.DataFrame,
    kinds: EventKinds,
    tasks: PoolTasks,
    *,
    code: UInt8s,
    sets: Mapping[int, Mapping[int, Spans]],
    rows: TrackRows,
) -> Spans:
    """Return when any thread runs an op, an instruction or a task of an op.

    A call that starts a program and waits for it does not count. The result is empty if
    no thread takes part in a collective.

    Args:
        tasks: The tasks of the ops, on all threads.
    """
    if not any(HostCode.PEER in by_code for by_code in sets.values()):
        return Spans.empty()
    types = handles(events, "type")
    is_op = ~hand_on_work(kinds)
    computing: list[Spans] = []
    for track, by_code in sets.items():
        part = rows.track_rows(track)
        ops = (code[part] == HostCode.HOST_COMPUTE) & is_op[types[part]]
        ran = by_code.get(HostCode.HOST_COMPUTE, Spans.empty())
        computing.append(ran & rows.covered_spans(part, ops))
        on_track = tasks.track == track
        task = Spans.from_bounds(tasks.start_ps[on_track], tasks.end_ps[on_track])
        waits = Spans.union_of(by_code.get(wait, Spans.empty()) for wait in _WAITS)
        computing.append(task - waits)
    return Spans.union_of(computing)


def ends_of_tasks(events: pl.DataFrame, kinds: EventKinds) -> tuple[Int64s, Int64s]:
    """Return the rows of events with which pool threads begin and end their tasks.

    Each begin is directly followed by its end on the same thread.
    """
    types, tracks = handles(events, "type"), handles(events, "track")
    marks = kinds.has(EventFlag.POOL_START | EventFlag.POOL_STOP)
    rows = wanted_rows(types, marks)
    is_begin = kinds.has(EventFlag.POOL_START)[types[rows]]
    pair = is_begin[:-1] & ~is_begin[1:] & (tracks[rows[:-1]] == tracks[rows[1:]])
    return rows[:-1][pair], rows[1:][pair]


def pool_tasks(
    events: pl.DataFrame,
    kinds: EventKinds,
    nesting: Nesting,
    *,
    stats: pl.DataFrame,
    strings: Sequence[str],
    code: UInt8s,
) -> PoolTasks:
    """Join the begin and end of each task, and the event that handed the task over."""
    types, tracks = handles(events, "type"), handles(events, "track")
    time_ps = ints(events, "start_ps")
    starts, stops = ends_of_tasks(events, kinds)
    produced = rows_with_key(stats, "event", find_handle(strings, StatKey.PRODUCER))
    is_record = kinds.has(EventFlag.POOL_RECORD)[types[produced.owner]]
    consumed = rows_with_key(stats, "event", find_handle(strings, StatKey.CONSUMER))
    is_start = kinds.has(EventFlag.POOL_START)[types[consumed.owner]]
    record_of = _rows_by_id(
        ids=produced.value[is_record],
        rows=produced.owner[is_record],
        wanted=consumed.value[is_start],
    )
    begun = consumed.owner[is_start]
    record, _ = values_of_owners(starts, begun, record_of, default=-1)
    handed = np.where(record >= 0, time_ps[record], time_ps[starts])
    tasks = PoolTasks(
        tracks[starts],
        time_ps[starts],
        time_ps[stops],
        np.minimum(handed, time_ps[starts]),
        np.zeros(len(starts), np.uint8),
    )
    _spread_codes(tasks, record, tracks, time_ps, codes=code, parent=nesting.parent)
    return tasks


def until_first_task(events: pl.DataFrame, kinds: EventKinds, rows: Int64s) -> Spans:
    """Return the time from each row's start to the first task handed over inside it.

    Before a call hands work to other threads, it cannot wait for them: it works itself.
    A row that hands over no task adds nothing.
    """
    types, tracks = handles(events, "type"), handles(events, "track")
    time_ps = ints(events, "start_ps")
    records = wanted_rows(types, kinds.has(EventFlag.POOL_RECORD))
    # Rows are ordered by track and time, so the first task of a call is the next row.
    index = np.searchsorted(records, rows)
    exists = index < len(records)
    rows, first = rows[exists], records[index[exists]]
    ends = time_ps[rows] + ints(events, "dur_ps")[rows]
    inside = (tracks[first] == tracks[rows]) & (time_ps[first] < ends)
    return Spans.from_bounds(time_ps[rows[inside]], time_ps[first[inside]])


def _rows_by_id(*, ids: Int64s, rows: Int32s, wanted: Int64s) -> Int64s:
    if not len(ids) or not len(wanted):
        return np.full(len(wanted), -1, np.int64)
    lowest, highest = int(ids.min()), int(ids.max())
    inside = (wanted >= lowest) & (wanted <= highest)
    row_of = np.full(len(wanted), -1, np.int64)
    if highest - lowest < _MAX_ENTRIES_PER_ID * len(ids):
        table = np.full(highest - lowest + 1, -1, np.int64)
        table[ids - lowest] = rows
        row_of[inside] = table[wanted[inside] - lowest]
        return row_of
    order = np.argsort(ids, kind="stable")
    return values_of_owners(wanted, ids[order], rows[order], default=-1)[0]


def _spread_codes(
    tasks: PoolTasks,
    record: Int64s,
    tracks: Int32s,
    time_ps: Int64s,
    *,
    codes: UInt8s,
    parent: Int32s,
) -> None:
    """Give each task the code of the event that led to it, also via other tasks."""
    known = np.flatnonzero(record >= 0)
    # Use the code of the outermost sticky event, else of the innermost coded event.
    rows = record[known]
    is_sticky = np.zeros(256, np.bool_)
    is_sticky[list(STICKY)] = True
    code_of = np.zeros(len(rows), np.uint8)
    ancestor, index = parent[rows], np.arange(len(rows))
    while len(index):
        open_rows = ancestor >= 0
        ancestor, index = ancestor[open_rows], index[open_rows]
        code = codes[ancestor]
        takes = is_sticky[code] | ((code_of[index] == 0) & (code != 0))
        code_of[index[takes]] = code[takes]
        ancestor = parent[ancestor]
    tasks.code[known] = code_of
    open_tasks = known[tasks.code[known] == 0]
    outer = _task_around(tasks, tracks[record[open_tasks]], time_ps[record[open_tasks]])
    inside = outer >= 0
    open_tasks, outer = open_tasks[inside], outer[inside]
    for _ in range(_MAX_CHAIN_LENGTH):
        codes_around = tasks.code[outer]
        fresh = codes_around != 0
        if not fresh.any():
            return
        tasks.code[open_tasks[fresh]] = codes_around[fresh]
        open_tasks, outer = open_tasks[~fresh], outer[~fresh]


def _task_around(tasks: PoolTasks, track: Int32s, time_ps: Int64s) -> Int64s:
    """Return the task that a thread was running at a time, or -1 for none.

    The tasks are ordered by track, then by time.
    """
    around = np.full(len(track), -1, np.int64)
    first = np.searchsorted(tasks.track, track, side="left")
    last = np.searchsorted(tasks.track, track, side="right")
    for number in np.unique(track).tolist():
        rows = np.flatnonzero(track == number)
        begin, end = int(first[rows[0]]), int(last[rows[0]])
        i = np.searchsorted(tasks.start_ps[begin:end], time_ps[rows], side="right") - 1
        inside = i >= 0
        i = i[inside] + begin
        running = time_ps[rows[inside]] <= tasks.end_ps[i]
        around[rows[inside][running]] = i[running]
    return around


#: Maximum number of types, those with most self time, that are distinguished.
_MAX_TYPES: Final = 32


class ThreadOps(NamedTuple):
    """The ops of one thread by start, and the time in which they compute (`spans`)."""

    spans: Spans
    start_ps: Int64s
    dur_ps: Int64s
    self_ps: Int64s
    type: Int32s


def time_by_op_type(
    threads: Sequence[ThreadOps], spans: Spans
) -> tuple[list[tuple[int, int]], Spans]:
    """Return the time of each type of op, and the spans in which no such op runs.

    If ops of several types run at once, the type with the most self time on all threads
    gets the time, so that the largest type gets all of its time.
    """
    if not threads:
        return [], spans
    types = np.concatenate([ran.type for ran in threads])
    weights = np.concatenate([ran.self_ps for ran in threads])
    total_ps = np.bincount(types, weights)
    ranked = np.argsort(-total_ps, kind="stable")[:_MAX_TYPES]
    ranked = ranked[total_ps[ranked] > 0]
    # All other types have the last code, so that they interrupt the types around them.
    code_of = np.full(len(total_ps), 255, np.uint8)
    code_of[ranked] = np.arange(1, len(ranked) + 1)
    sets = [
        flatten_rows(ran.start_ps, ran.dur_ps, code_of[ran.type]) for ran in threads
    ]
    times, left = [], spans
    for code, op_type in enumerate(ranked.tolist(), start=1):
        ran_ops = (
            by_code[code] & ran.spans
            for ran, by_code in zip(threads, sets, strict=True)
            if code in by_code
        )
        own = left & Spans.union_of(ran_ops)
        times.append((op_type, own.length_ps))
        left = left - own
    return times, left
