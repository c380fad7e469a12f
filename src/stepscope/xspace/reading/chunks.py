"""First pass: divide the lines into chunks, and count the events of each chunk.

Lines are independent of each other, and so are pieces of a line that are cut between
two fields. Both passes therefore work on chunks, each with its own rows of the columns.
Only huge lines are divided into several chunks. This does not change the result.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope._core import wire
from stepscope.cores import core_count
from stepscope.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from concurrent.futures import Executor
    from contextlib import AbstractContextManager

    from stepscope.array_types import Int32s, Int64s, UInt8s

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
