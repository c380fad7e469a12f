"""`function_frames`, `function_lines`: samples, corrected by the ops' exact times.

A sample stands for the time around it, half an interval on both sides. But if it shows
a thread that waits for ops, the thread waited while ops ran.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np

from stepscope.derive.columns.arrays import TRACK_CODES, codes, handles
from stepscope.derive.host.function_purposes import FunctionPurpose, known_purpose
from stepscope.derive.intervals.nesting import nest_subset
from stepscope.derive.intervals.spans import LIMIT_PS, Spans
from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_S

if TYPE_CHECKING:
    import polars as pl

    from stepscope.array_types import Bools, Int32s, Int64s
    from stepscope.derive.host.function_frames import FunctionFrames
    from stepscope.derive.host.function_lines import FunctionLines
    from stepscope.derive.host.running_python import RunningPython

    _Rows = FunctionFrames | FunctionLines


class _PlacedRows(NamedTuple):
    """Rows of sampled frames with corrected times, by thread, then start, outer first.

    Attributes:
        row: int64; row of the original table. A row may occur several times.
        start_ps: int64.
        end_ps: int64.
    """

    row: Int64s
    start_ps: Int64s
    end_ps: Int64s


def function_frames(
    *,
    tracks: pl.DataFrame,
    events: pl.DataFrame,
    recorded_frames: FunctionFrames | Unavailable,
    running_python: RunningPython,
    ops_without_device: Spans | Unavailable,
) -> FunctionFrames | Unavailable:
    """Correct the sampled frames that show waits for ops, on a host without devices.

    Definition: docs/definitions/host-time.md#functions.
    """
    frames = recorded_frames
    if isinstance(frames, Unavailable):
        return frames
    waits = _waits_for_ops(frames, _sampled_threads(frames, tracks, events))
    placed = _place_samples(frames, waits, frames, running_python, ops_without_device)
    if placed is None:
        return frames
    row, start, end = placed
    nested = nest_subset(start, end - start, track=frames.track[row])
    return msgspec.structs.replace(
        frames,
        track=frames.track[row],
        start_ps=start,
        end_ps=end,
        parent=nested.parent,
        self_ps=nested.self_ps,
        type=frames.type[row],
        event=frames.event[row],
    )


def function_lines(
    *,
    tracks: pl.DataFrame,
    events: pl.DataFrame,
    recorded_lines: FunctionLines | Unavailable,
    recorded_frames: FunctionFrames | Unavailable,
    running_python: RunningPython,
    ops_without_device: Spans | Unavailable,
) -> FunctionLines | Unavailable:
    """Correct the lines as `function_frames` corrects their functions.

    Definition: docs/definitions/host-time.md#functions.
    """
    lines, frames = recorded_lines, recorded_frames
    if isinstance(lines, Unavailable) or isinstance(frames, Unavailable):
        return lines
    waits = _waits_for_ops(lines, _sampled_threads(frames, tracks, events))
    placed = _place_samples(lines, waits, frames, running_python, ops_without_device)
    if placed is None:
        return lines
    row, start, end = placed
    return msgspec.structs.replace(lines.chosen_rows(row), start_ps=start, end_ps=end)


def _sampled_threads(
    frames: FunctionFrames, tracks: pl.DataFrame, events: pl.DataFrame
) -> Int32s:
    """Return the threads (rows of tracks) whose frames come from samples."""
    kind = codes(tracks, "kind")[handles(events, "track")[frames.event]]
    return np.unique(frames.track[kind == TRACK_CODES["samples"]])


def _waits_for_ops(rows: _Rows, threads: Int32s) -> Bools:
    """Return which rows of sampled threads are functions that wait for ops."""
    kinds = [
        kind
        for kind, name in rows.names.items()
        if known_purpose(name) == FunctionPurpose.SYNC
    ]
    return np.isin(rows.type, kinds) & np.isin(rows.track, threads)


def _place_samples(
    rows: _Rows,
    waits: Bools,
    frames: FunctionFrames,
    running: RunningPython,
    ops: Spans | Unavailable,
) -> _PlacedRows | None:
    """Give the time between ops, if it is short, to the nearest sample of other work.

    A gap between ops that is longer than the sampling interval was itself sampled.

    Args:
        rows: Sampled functions or lines.
        waits: By row: whether the thread waits for ops.
        frames: The recorded frames of the same threads.
        running: When threads run Python: one that waited for ops then waits for the
            interpreter's lock.
        ops: When ops run on a host without devices.

    Returns:
        None if no time moves.
    """
    if frames.hz is None or isinstance(ops, Unavailable) or not waits.any():
        return None
    interval_ps = round(PS_PER_S / frames.hz)
    called_back = np.isin(frames.track, list(frames.of_framework))
    threads = []
    for thread in np.unique(rows.track).tolist():
        row = np.flatnonzero(rows.track == thread)
        placed = _PlacedRows(row, rows.start_ps[row], rows.end_ps[row])
        if waits[row].any():
            # Ops may call functions of the program on the framework's own threads.
            calls = frames.spans(called_back & (frames.track != thread))
            busy = ops | calls | running.beside(thread)
            moved = _place_on_thread(placed, waits[row], busy, interval_ps)
            placed = _PlacedRows(row[moved.row], moved.start_ps, moved.end_ps)
        threads.append(placed)
    return _PlacedRows(
        *(np.concatenate(column) for column in zip(*threads, strict=True))
    )


def _place_on_thread(
    placed: _PlacedRows, waits: Bools, busy: Spans, interval_ps: int
) -> _PlacedRows:
    _, start, end = placed
    nested = nest_subset(start, end - start, track=np.zeros(len(start), np.int32))
    parent, depth = nested.parent, nested.depth
    waiting = waits.copy()
    for level in range(1, int(depth.max()) + 1):
        inside = np.flatnonzero(depth == level)
        waiting[inside] |= waiting[parent[inside]]
    gaps = Spans.from_bounds(start[waiting], end[waiting]) - busy
    gaps = gaps - gaps.lasting(interval_ps)
    edges = np.unique(np.concatenate((start, end, gaps.start_ps, gaps.end_ps)))
    begin, finish = edges[:-1], edges[1:]
    innermost = np.searchsorted(start, begin, side="right") - 1
    while (ended := (innermost >= 0) & (end[innermost] <= begin)).any():
        innermost = np.where(ended, parent[innermost], innermost)
    is_known = (innermost >= 0) & ~waiting[innermost]
    nearest = _nearest_pieces(begin, finish, is_known)
    moves = (gaps.within(begin, finish) > 0) & (nearest >= 0)
    innermost = np.where(moves, innermost[nearest], innermost)
    return _rows_of_pieces(begin, finish, innermost, parent, depth)


def _nearest_pieces(begin: Int64s, finish: Int64s, is_known: Bools) -> Int64s:
    """Return, by piece of time, the nearest known piece; -1 if none is known."""
    index, count = np.arange(len(begin)), len(begin)
    before = np.maximum.accumulate(np.where(is_known, index, -1))
    after = np.minimum.accumulate(np.where(is_known, index, count)[::-1])[::-1]
    to_before = np.where(before >= 0, begin - finish[before], LIMIT_PS)
    to_after = np.where(after < count, begin[after % count] - finish, LIMIT_PS)
    nearest = np.where(to_before <= to_after, before, after)
    return np.where(nearest < count, nearest, -1)


def _rows_of_pieces(
    begin: Int64s, finish: Int64s, innermost: Int64s, parent: Int32s, depth: Int32s
) -> _PlacedRows:
    """Join successive pieces of time with equal callers into rows."""
    stacks = np.full((int(depth.max()) + 1, len(begin)), -1)
    row, piece = innermost[innermost >= 0], np.flatnonzero(innermost >= 0)
    while len(row):
        stacks[depth[row], piece] = row
        inside = parent[row] >= 0
        row, piece = parent[row][inside].astype(np.int64), piece[inside]
    begins_row = np.zeros(len(begin), np.bool_)
    begins_row[0] = True
    levels = []
    for stack in stacks:
        begins_row[1:] |= stack[1:] != stack[:-1]
        first = np.flatnonzero(begins_row)
        last = np.append(first[1:], len(begin)) - 1
        runs = stack[first] >= 0
        levels.append(
            _PlacedRows(stack[first][runs], begin[first][runs], finish[last][runs])
        )
    row, start, end = (np.concatenate(column) for column in zip(*levels, strict=True))
    order = np.lexsort((depth[row], start - end, start))
    return _PlacedRows(row[order], start[order], end[order])
