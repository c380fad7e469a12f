"""Both passes over the lines: count the events of chunks, then fill exact columns.

Lines are independent of each other, and so are pieces of a line that are cut between
two fields. Both passes therefore work on chunks, each with its own rows of the columns,
on all cores. Only huge lines are divided into several chunks. This does not change the
result.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope._core import fill as kernels
from stepscope._core import wire
from stepscope.cores import core_count
from stepscope.frozen import Frozen
from stepscope.xspace.reading.columns import Events, Stats

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from concurrent.futures import Executor
    from contextlib import AbstractContextManager

    from stepscope.array_types import Bools, Int32s, Int64s, UInt8s
    from stepscope.xspace.reading.messages import IdTable

#: Message size in bytes below which threads cost more than they gain.
_MIN_BYTES_FOR_THREADS: Final = 2**20
#: Minimum and maximum bytes per task; smaller tasks cost more than they save.
_MIN_TASK_BYTES: Final = 2**18
_MAX_TASK_BYTES: Final = 2**25
_HEAD_COLUMNS: Final = 8


class Scanned(Frozen, frozen=True, eq=True):
    """Result of the first pass.

    Attributes:
        head: Per line, the columns of `wire.scan_chunks`, int64[lines, 8].
        line: Line of each chunk, ascending, int64.
        rows: Per chunk, the columns of `wire.scan_chunks`, int64[chunks, 6].
        step: Target size of a task, in bytes.
    """

    head: Int64s
    line: Int64s
    rows: Int64s
    step: int


def scan_lines(
    data: UInt8s, begin: Int64s, end: Int64s, *, pool: Executor | None, threads: int
) -> Scanned:
    """Read heads of the lines at bytes [begin, end); count their events and stats."""
    length = end - begin
    share = int(length.sum()) // (4 * threads) + 1
    step = min(max(share, _MIN_TASK_BYTES), _MAX_TASK_BYTES)
    head = np.zeros((len(begin), _HEAD_COLUMNS), np.int64)
    huge = np.flatnonzero(length > 2 * step) if threads > 1 else length[:0]
    cuts = _cut_huge_lines(data, begin, end, head, rows=huge, step=step, pool=pool)
    line = np.concatenate(
        [np.arange(len(begin)), *(np.full(len(c), r) for r, c in cuts)]
    )
    chunk_begin = np.concatenate([begin, *(c for _, c in cuts)])
    order = np.lexsort((chunk_begin, line))
    line, chunk_begin = line[order], chunk_begin[order]
    rows = np.zeros((len(line), 6), np.int64)
    rows[:, 0] = chunk_begin
    # A chunk ends at the begin of the next chunk of its line.
    rows[:, 1] = end[line]
    inside = np.flatnonzero(line[1:] == line[:-1])
    rows[inside, 1] = chunk_begin[inside + 1]
    heads = np.zeros((len(line), _HEAD_COLUMNS), np.int64)

    def scan(task: tuple[int, int]) -> None:
        if wire.scan_chunks(data, *task, rows, heads) < 0:
            raise ValueError("a line is outside the data")

    run_tasks(scan, divide_into_tasks(rows[:, 1] - rows[:, 0], line[:0], step), pool)
    is_unsplit = np.ones(len(begin), bool)
    is_unsplit[huge] = False
    head[is_unsplit] = heads[is_unsplit[line]]
    # Empty the chunks after a line's malformed byte, as if the line were not split.
    for chunk in np.flatnonzero(rows[:, 5] >= 0).tolist():
        later = slice(chunk + 1, np.searchsorted(line, line[chunk], "right"))
        rows[later, 1] = rows[later, 0]
        rows[later, 2:5] = 0
        rows[later, 5] = -1
    return Scanned(head, line, rows, step)


def _cut_huge_lines(
    data: UInt8s,
    begin: Int64s,
    end: Int64s,
    head: Int64s,
    *,
    rows: Int64s,
    step: int,
    pool: Executor | None,
) -> list[tuple[int, Int64s]]:
    """Return for each huge line its row and the offsets where further chunks begin."""
    stop = np.empty(len(begin), np.int64)
    cuts_of_lines: list[tuple[int, Int64s]] = []

    def split(task: tuple[int, int]) -> None:
        row = task[0]
        first, last = int(begin[row]), int(end[row])
        cuts = np.empty((last - first) // step + 1, np.int64)
        count = wire.split_line(data, first, last, step, head, row, cuts, stop)
        cuts_of_lines.append((row, cuts[:count]))

    run_tasks(split, [(row, row + 1) for row in rows.tolist()], pool)
    return cuts_of_lines


def divide_into_tasks(
    length: Int64s, plane: Int32s | Int64s, step: int
) -> list[tuple[int, int]]:
    """Group chunks of a plane into tasks of about `step` bytes, largest task first.

    If `plane` is empty, a task may span several planes.
    """
    if not len(length):
        return []
    # Count 64 bytes more for each chunk, because even an empty chunk costs time.
    ends = np.cumsum(length + 64)
    group = (ends - length - 64) // step
    border = group[1:] != group[:-1]
    if len(plane):
        border |= plane[1:] != plane[:-1]
    first = np.append(0, np.flatnonzero(border) + 1)
    last = np.append(first[1:], len(length))
    size = ends[last - 1] - ends[first] + length[first]
    order = np.argsort(-size, kind="stable")
    return list(zip(first[order].tolist(), last[order].tolist(), strict=True))


def thread_pool(
    size: int, threads: int | None = None
) -> AbstractContextManager[Executor | None]:
    """Return a thread pool if threads save time, else an empty context.

    Args:
        size: Size of the message, in bytes.
        threads: Number of threads; None means one per core, for large messages.
    """
    if not wire.COMPILED or (size < _MIN_BYTES_FOR_THREADS and threads is None):
        return nullcontext()
    count = threads or core_count()
    # Import late: at the end of a process, when a recording may be stored, it fails.
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - fails at the end of a process

    return ThreadPoolExecutor(count) if count > 1 else nullcontext()


def run_tasks(
    work: Callable[[tuple[int, int]], None],
    tasks: Iterable[tuple[int, int]],
    pool: Executor | None,
) -> None:
    """Run all tasks; raise the first error."""
    if pool is None:
        for task in tasks:
            work(task)
    else:
        for _ in pool.map(work, tasks):
            pass


class Lost(Frozen, frozen=True, eq=True):
    """Ids that chunks of one plane use and the plane's metadata maps lack.

    Attributes:
        types: Row and id of each event whose id has no entry, int64[n, 2].
        keys: Row and id of each stat whose name has no entry, int64[n, 2].
    """

    plane: int
    types: Int64s
    keys: Int64s


class Filled(Frozen, frozen=True, eq=True):
    """Result of the second pass.

    Attributes:
        events: Events; type -1 if the id has no entry.
        stats: Stats; key -1 if the id has no entry.
        event_bounds: First event row of each line, and one past the last, int64.
        stop: For each line the offset of its first malformed field, or -1.
        lost: Ids without an entry, in no particular order.
    """

    events: Events
    stats: Stats
    event_bounds: Int64s
    stop: Int64s
    lost: list[Lost]


def fill_lines(
    data: UInt8s,
    scanned: Scanned,
    planes: Int32s,
    *,
    types: list[IdTable],
    keys: list[IdTable],
    pool: Executor | None,
) -> Filled:
    """Fill the columns; `planes` is each line's plane, and each plane has one id table.

    Each thread writes to separate rows, so no locks are needed.
    """
    columns = _Columns(scanned)
    plane_of_chunk = planes[scanned.line]
    lost: list[Lost] = []

    def fill(task: tuple[int, int]) -> None:
        plane = int(plane_of_chunk[task[0]])
        missing = columns.fill(data, task, types[plane], keys[plane])
        if missing is not None:
            lost.append(Lost(plane, *missing))

    length = scanned.rows[:, 1] - scanned.rows[:, 0]
    run_tasks(fill, divide_into_tasks(length, plane_of_chunk, scanned.step), pool)
    return columns.finish_columns(lost, lines=len(planes))


class _Columns:
    """Columns that are being filled, and the rows of each chunk."""

    def __init__(self, scanned: Scanned) -> None:
        self.scanned = scanned
        # Number of events, stats and occurrence counts of each chunk.
        counts = scanned.rows[:, 2:5]
        self.limits = np.cumsum(counts, axis=0)
        self.begins = self.limits - counts
        chunks = len(counts)
        # The columns that `_core.fill` defines.
        self.rows = np.zeros((chunks, 11), np.int64)
        self.rows[:, 0:2] = scanned.rows[:, 0:2]
        self.rows[:, 2:8:2] = self.begins
        self.rows[:, 3:8:2] = self.limits
        events, stats, counted = self.limits[-1].tolist() if chunks else (0, 0, 0)
        self.type = np.empty(events, np.int32)
        self.time = np.empty((2, events), np.int64)
        # Zeros, because the compiled function does not write lengths of 0.
        self.small = np.zeros((3, stats), np.int32)
        self.kind = np.empty(stats, np.uint8)
        self.value = np.empty(stats, np.int64)
        self.counted = np.empty((2, counted), np.int64)

    def fill(
        self, data: UInt8s, task: tuple[int, int], types: IdTable, keys: IdTable
    ) -> tuple[Int64s, Int64s] | None:
        """Fill a task's chunks; return the rows of ids without an entry, if any."""
        rows = self.rows[slice(*task)]
        nothing = np.empty((0, 2), np.int64)
        self._run_kernel(data, task, types, keys, (nothing, nothing))
        unknown = rows[:, 8:10]
        counts = unknown.sum(axis=0)
        if not counts.any():
            return None
        # Fill again: now arrays of the right size for the unknown ids can be allocated.
        lost_types, lost_keys = (np.zeros((count, 2), np.int64) for count in counts)
        unknown[:] = np.cumsum(unknown, axis=0) - unknown
        rows[:, 2:8:2] = self.begins[slice(*task)]
        self._run_kernel(data, task, types, keys, (lost_types, lost_keys))
        return lost_types, lost_keys

    def _run_kernel(
        self,
        data: UInt8s,
        task: tuple[int, int],
        types: IdTable,
        keys: IdTable,
        lost: tuple[Int64s, Int64s],
    ) -> None:
        status = kernels.fill_columns(
            data,
            *task,
            self.rows,
            types.direct,
            types.ids,
            types.values,
            keys.direct,
            keys.ids,
            keys.values,
            self.type,
            self.time,
            self.small,
            self.kind,
            self.value,
            self.counted,
            *lost,
        )
        if status < 0:
            raise ValueError("a chunk is outside the data or its columns")

    def finish_columns(self, lost: list[Lost], *, lines: int) -> Filled:
        """Remove the rows that damaged chunks left empty, and find each line's rows."""
        line = self.scanned.line
        ends = self.rows[:, 2:8:2].copy()
        scan_stop = self.scanned.rows[:, 5]
        stop = np.where(self.rows[:, 10] >= 0, self.rows[:, 10], scan_stop)
        for chunk in np.flatnonzero(stop >= 0).tolist():
            # Fields after a malformed one are not read, as if the line were not split.
            later = slice(chunk + 1, np.searchsorted(line, line[chunk], "right"))
            ends[later] = self.begins[later]
            stop[later] = -1
        line_stop = np.full(lines, -1, np.int64)
        stopped = np.flatnonzero(stop >= 0)
        line_stop[line[stopped]] = stop[stopped]
        bounds = np.searchsorted(line, np.arange(lines + 1))
        before = np.append(0, np.cumsum(ends[:, 0] - self.begins[:, 0]))
        # Filled rows of events, stats and occurrences; None if all rows were filled.
        filled_rows: list[Bools | None] = []
        for column in range(3):
            short = np.flatnonzero(ends[:, column] < self.limits[:, column])
            if not len(short):
                filled_rows.append(None)
                continue
            mask = np.ones(self.limits[-1, column], bool)
            for chunk in short.tolist():
                mask[ends[chunk, column] : self.limits[chunk, column]] = False
            filled_rows.append(mask)
        return self._close_gaps(tuple(filled_rows), before[bounds], line_stop, lost)

    def _close_gaps(
        self,
        filled_rows: tuple[Bools | None, ...],
        bounds: Int64s,
        stop: Int64s,
        lost: list[Lost],
    ) -> Filled:
        event, stat, aggregated = filled_rows
        event_of_stat, key, length = self.small
        events = [self.type, *self.time]
        stats = [event_of_stat, key, self.kind, self.value, length]
        counted = list(self.counted)
        if stat is not None:
            stats = [column[stat] for column in stats]
            lost = [
                Lost(missing.plane, missing.types, _renumber_lost(missing.keys, stat))
                for missing in lost
            ]
        if aggregated is not None:
            counted = [column[aggregated] for column in counted]
        if event is not None:
            events = [column[event] for column in events]
            lost = [
                Lost(missing.plane, _renumber_lost(missing.types, event), missing.keys)
                for missing in lost
            ]
            row_of = np.cumsum(event) - 1
            stats[0] = row_of[stats[0]].astype(np.int32)
            counted[0] = row_of[counted[0]]
        return Filled(
            Events(*events, *counted),
            Stats(*stats),
            bounds,
            stop,
            lost,
        )


def _renumber_lost(lost: Int64s, is_kept: Bools) -> Int64s:
    lost = lost[is_kept[lost[:, 0]]]
    lost[:, 0] = (np.cumsum(is_kept) - 1)[lost[:, 0]]
    return lost
