"""Work handed to other threads: for which call it runs, and who takes its elements.

An event that produces a context (type and id) is the parent of its consumers.

Definition: docs/definitions/names-and-events.md#work-handed-to-other-threads.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np

from stepscope.derive.columns.arrays import handles, ints
from stepscope.derive.columns.dense_codes import number_rows, number_values
from stepscope.derive.columns.stat_values import values_of_owners
from stepscope.derive.host.values import host_stats, int_values
from stepscope.derive.intervals.nesting import nearest_above
from stepscope.derive.step_time.pool_tasks import ends_of_tasks
from stepscope.frozen import Frozen
from stepscope.trace.reading.stat_keys import StatKey

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl

    from stepscope.array_types import Bools, Int32s, Int64s
    from stepscope.derive.columns.stat_values import StatRows
    from stepscope.derive.names.event_kinds import EventKinds

#: A context with at least this number of producers and of consumers is ignored.
_MIN_CROWD_EVENTS: Final = 64
#: Maximum number of contexts to follow from work back to the call for which it runs.
_MAX_HOPS: Final = 64
_NO_PROCESS: Final = -1
_NAMES: Final = (
    *(StatKey.PRODUCER_TYPE, StatKey.PRODUCER, StatKey.CONSUMER_TYPE),
    *(StatKey.CONSUMER, StatKey.CONSUMER_PROCESS),
)

#: Type, id and process (-1 if unknown) that producers and consumers have in common.
Context: TypeAlias = "tuple[int, int, int]"


class _Side(NamedTuple):
    """All producers, or all consumers, by ascending id."""

    row: Int64s
    type: Int64s
    id: Int64s
    process: Int64s


class Contexts(Frozen, frozen=True, dict=True):
    """All contexts of a host.

    Attributes:
        consumers: Events that enclose work handed over by another thread.
        pool_begins: int64, ascending; rows of events with which a pool's thread begins
            a task. The events have no duration; tasks end at the entries of
            `pool_ends_ps` with the same index.
        pool_ends_ps: int64; end of each task of `pool_begins`.
    """

    producers: _Side
    consumers: _Side
    pool_begins: Int64s
    pool_ends_ps: Int64s

    @cached_property
    def consumer_rows(self) -> Int64s:
        """Rows of the consumers, ascending."""
        return np.sort(self.consumers.row)

    def producers_behind(self, rows: Int64s) -> tuple[Int64s, Int64s, set[Context]]:
        """Return indices into `rows`, the rows of their producers, and the crowds.

        All `rows` must be consumers. Crowds are contexts that are ignored for having
        too many events.
        """
        order = np.argsort(self.consumers.row, kind="stable")
        indices = order[np.searchsorted(self.consumers.row[order], rows)]
        wanted = _Side(*(column[indices] for column in self.consumers))
        position, matches = _match_sides(wanted, self.producers)
        frequent = np.flatnonzero(
            np.bincount(position, minlength=len(rows)) >= _MIN_CROWD_EVENTS
        )
        crowded = np.zeros(len(rows), np.bool_)
        if len(frequent):
            frequent_side = _Side(*(column[frequent] for column in wanted))
            matched, _ = _match_sides(frequent_side, self.consumers)
            crowded[frequent] = (
                np.bincount(matched, minlength=len(frequent)) >= _MIN_CROWD_EVENTS
            )
        kept = ~crowded[position]
        crowds = {
            (int(wanted.type[index]), int(wanted.id[index]), int(wanted.process[index]))
            for index in np.flatnonzero(crowded)
        }
        return position[kept], self.producers.row[matches[kept]], crowds


class Elements(Frozen, frozen=True, eq=True):
    """Elements that a stage produces, or that its consumer takes.

    Attributes:
        stage: int32; row of stages of the stage that takes the element.
        number: int64; number of the element within that stage.
        time_ps: int64; start of the production, or end of the taking.
    """

    stage: Int32s
    number: Int64s
    time_ps: Int64s


def match_handovers(produced: Elements, taken: Elements) -> tuple[Int64s, Int64s]:
    """Join the production of each element with the taking of the element.

    The first taking that ends after an element's production began takes this element.
    Numbers repeat if an iterator is created again; each element is handed over once.

    Definition: docs/tools/tf_data_bottleneck_analysis.md#how-each-number-is-defined.

    Returns:
        Indices into `produced` and into `taken`, one pair per element handed over.
    """
    count = len(produced.stage)
    if not count or not len(taken.stage):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    stage = np.concatenate((produced.stage, taken.stage))
    number = np.concatenate((produced.number, taken.number))
    time_ps = np.concatenate((produced.time_ps, taken.time_ps))
    code = number_rows((stage, number_values(number).code)).code
    is_taking = np.arange(len(code)) >= count
    order = np.lexsort((is_taking, time_ps, code))
    # Find the next position that takes an element; one past the end for none.
    last = len(order)
    positions = np.where(is_taking[order], np.arange(last), last)
    following = np.minimum.accumulate(positions[::-1])[::-1]
    productions = np.flatnonzero(~is_taking[order] & (following < last))
    taking = following[productions]
    same = code[order[productions]] == code[order[taking]]
    return order[productions[same]], order[taking[same]] - count


def read_contexts(
    strings: Sequence[str],
    tracks: pl.DataFrame,
    events: pl.DataFrame,
    kinds: EventKinds,
    stats: pl.DataFrame,
) -> Contexts:
    """Read the contexts of all events in one pass over `stats`.

    Context ids without a type are ignored. A consumer may be in another process.
    """
    values = host_stats(strings, tracks, stats, _NAMES)
    track = handles(events, "track")
    process = tracks["process"].fill_null(_NO_PROCESS).to_numpy()
    producers = _read_side(
        values[StatKey.PRODUCER], values[StatKey.PRODUCER_TYPE], process, track
    )
    consumers = _read_side(
        values[StatKey.CONSUMER], values[StatKey.CONSUMER_TYPE], process, track
    )
    owner, other_process = int_values(values[StatKey.CONSUMER_PROCESS])
    value, named = values_of_owners(consumers.row, owner, other_process)
    consumers = consumers._replace(process=np.where(named, value, consumers.process))
    begins, ends = ends_of_tasks(events, kinds)
    ends_ps = ints(events, "start_ps")[ends]
    return Contexts(_sort_by_id(producers), _sort_by_id(consumers), begins, ends_ps)


def find_callers(
    rows: Int64s,
    *,
    parent: Int32s,
    is_call: Bools,
    events: pl.DataFrame,
    contexts: Contexts,
) -> tuple[Int64s, Int64s, set[Context]]:
    """Find the calls on other threads for which the given events run.

    Args:
        rows: Rows of events that are not inside a call on their own thread.
        is_call: bool by row of events; the calls, at which the search ends.

    Returns:
        Indices into `rows`, the rows of the calls for which these events run, and the
        contexts that were ignored as crowds.
    """
    stops = is_call.copy()
    stops[contexts.consumer_rows] = True
    origin, current = np.arange(len(rows)), rows.astype(np.int64)
    # If a call is itself work for another thread, follow the call's context first.
    consuming = np.isin(current, contexts.consumer_rows)
    pending = (origin[consuming], current[consuming])
    stop = _outer_stops(parent, current, stops, events=events, contexts=contexts)
    edges: list[tuple[Int64s, Int64s]] = []
    visited = np.empty(0, np.int64)
    crowds: set[Context] = set()
    for _ in range(_MAX_HOPS):
        origin, stop = origin[stop >= 0], stop[stop >= 0]
        reached = is_call[stop]
        edges.append((origin[reached], stop[reached]))
        consuming = ~reached & np.isin(stop, contexts.consumer_rows)
        origin = np.concatenate((pending[0], origin[consuming]))
        stop = np.concatenate((pending[1], stop[consuming]))
        pending = (origin[:0], stop[:0])
        key = np.unique(origin * np.int64(len(parent)) + stop)
        key = key[~np.isin(key, visited)]
        if not len(key):
            break
        visited = np.union1d(visited, key)
        origin, stop = np.divmod(key, np.int64(len(parent)))
        position, producers, skipped = contexts.producers_behind(stop)
        crowds |= skipped
        current = np.concatenate((producers, stop))
        origin = np.concatenate((origin[position], origin))
        stop = _outer_stops(parent, current, stops, events=events, contexts=contexts)
        own = np.flatnonzero(stops[producers])
        stop[own] = producers[own]
    indices, calls = (np.concatenate(column) for column in zip(*edges, strict=True))
    return indices, calls, crowds


def _outer_stops(
    parent: Int32s,
    rows: Int64s,
    stops: Bools,
    *,
    events: pl.DataFrame,
    contexts: Contexts,
) -> Int64s:
    """Return the nearest event of `stops` around each row, or the row's pool task."""
    nearest = nearest_above(parent, rows, stops)
    unenclosed = nearest < 0
    # Find the begin of the pool task in which each row runs, -1 for none.
    outside = rows[unenclosed]
    around = np.full(len(outside), -1, np.int64)
    index = np.searchsorted(contexts.pool_begins, outside, side="right") - 1
    exists = index >= 0
    index, own_rows = index[exists], outside[exists]
    begins = contexts.pool_begins[index]
    track, start_ps = handles(events, "track"), ints(events, "start_ps")
    inside = (track[begins] == track[own_rows]) & (
        start_ps[own_rows] <= contexts.pool_ends_ps[index]
    )
    around[np.flatnonzero(exists)[inside]] = begins[inside]
    nearest[unenclosed] = around
    return nearest


def _read_side(ids: StatRows, types: StatRows, process: Int64s, track: Int32s) -> _Side:
    owner, value = int_values(ids)
    kind, typed = values_of_owners(owner, *int_values(types))
    row = owner[typed].astype(np.int64)
    return _Side(row, kind[typed], value[typed], process[track[row]])


def _sort_by_id(side: _Side) -> _Side:
    order = np.argsort(side.id, kind="stable")
    return _Side(*(column[order] for column in side))


def _match_sides(wanted: _Side, among: _Side) -> tuple[Int64s, Int64s]:
    """Return indices of equal contexts in `wanted` and in `among` (sorted by id)."""
    begin = np.searchsorted(among.id, wanted.id, side="left")
    count = np.searchsorted(among.id, wanted.id, side="right") - begin
    ends = np.cumsum(count)
    index = np.repeat(np.arange(len(count)), count)
    match = np.arange(len(index)) - np.repeat(ends - count, count) + begin[index]
    same = (among.type[match] == wanted.type[index]) & (
        among.process[match] == wanted.process[index]
    )
    return index[same], match[same]
