"""`function_frames`, `function_lines`: samples, corrected by what is known exactly.

A sample stands for the time around it, half an interval on both sides. But what a
thread does while ops run is not what it does afterwards.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
import numpy as np

from stepscope.derive.columns.arrays import TRACK_CODES, codes, handles
from stepscope.derive.host.core_time import thread_identities
from stepscope.derive.intervals.nesting import nest_subset
from stepscope.derive.intervals.spans import Spans
from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_MS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import polars as pl

    from stepscope.array_types import Int32s, Int64s
    from stepscope.derive.host.core_time import CoreTime
    from stepscope.derive.host.function_frames import FunctionFrames
    from stepscope.derive.host.function_lines import FunctionLines

    _Rows = FunctionFrames | FunctionLines

#: Shorter activities of a thread, and shorter gaps between them, move no samples.
_MIN_STATE_PS: Final = PS_PER_MS // 5


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
    core_time: CoreTime | Unavailable,
    recorded_activity: Mapping[int | None, tuple[Spans, ...]] | Unavailable,
) -> FunctionFrames | Unavailable:
    """Correct sampled frames by what is recorded exactly, on a host without devices.

    Definition: docs/definitions/host-time.md#functions.
    """
    frames = recorded_frames
    if isinstance(frames, Unavailable) or isinstance(recorded_activity, Unavailable):
        return frames
    threads = _sampled_threads(frames, core_time, tracks, events)
    placed = _place_samples(frames, threads, recorded_activity)
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
    core_time: CoreTime | Unavailable,
    recorded_activity: Mapping[int | None, tuple[Spans, ...]] | Unavailable,
) -> FunctionLines | Unavailable:
    """Correct the lines as `function_frames` corrects their functions.

    Definition: docs/definitions/host-time.md#functions.
    """
    lines, frames = recorded_lines, recorded_frames
    if (
        isinstance(lines, Unavailable)
        or isinstance(frames, Unavailable)
        or isinstance(recorded_activity, Unavailable)
    ):
        return lines
    threads = _sampled_threads(frames, core_time, tracks, events)
    placed = _place_samples(lines, threads, recorded_activity)
    if placed is None:
        return lines
    row, start, end = placed
    return msgspec.structs.replace(lines.chosen_rows(row), start_ps=start, end_ps=end)


def _sampled_threads(
    frames: FunctionFrames,
    core_time: CoreTime | Unavailable,
    tracks: pl.DataFrame,
    events: pl.DataFrame,
) -> dict[int, Int64s]:
    """Return when the stacks of threads (rows of tracks) were sampled, if known."""
    if isinstance(core_time, Unavailable):
        return {}
    kind = codes(tracks, "kind")[handles(events, "track")[frames.event]]
    threads = np.unique(frames.track[kind == TRACK_CODES["samples"]]).tolist()
    identities = thread_identities(tracks)
    times = {it: core_time.sampled_ps.get(identities[it][:2]) for it in threads}
    return {it: at for it, at in times.items() if at is not None and len(at)}


def _place_samples(
    rows: _Rows,
    threads: Mapping[int, Int64s],
    activity: Mapping[int | None, tuple[Spans, ...]],
) -> _PlacedRows | None:
    """Place the samples of threads whose sampling times are known.

    Args:
        rows: Sampled functions or lines.
        threads: Thread (row of tracks) → when its stack was sampled.
        activity: As `recorded_activity` returns it.

    Returns:
        None if no time moves.
    """
    if not threads or not any(activity.values()):
        return None
    ops = _join_activity(Spans.union_of(activity.get(None, ())))
    placed = []
    for thread in np.unique(rows.track).tolist():
        row = np.flatnonzero(rows.track == thread)
        times = rows.start_ps[row], rows.end_ps[row]
        if thread in threads:
            states = [_join_activity(spans) for spans in activity.get(thread, ())]
            moved = _place_on_thread(_Stacks(*times), threads[thread], states, ops)
            placed.append(moved._replace(row=row[moved.row]))
        else:
            placed.append(_PlacedRows(row, *times))
    return _PlacedRows(
        *(np.concatenate(column) for column in zip(*placed, strict=True))
    )


def _join_activity(spans: Spans) -> Spans:
    """Join spans with short gaps, then leave out short spans."""
    if not len(spans):
        return spans
    gaps = spans.gaps(int(spans.start_ps[0]), int(spans.end_ps[-1]))
    return (spans | (gaps - gaps.lasting(_MIN_STATE_PS))).lasting(_MIN_STATE_PS)


class _Stacks:
    """The sampled stacks of a thread."""

    def __init__(self, start_ps: Int64s, end_ps: Int64s) -> None:
        self.start_ps, self.end_ps = start_ps, end_ps
        track = np.zeros(len(start_ps), np.int32)
        nested = nest_subset(start_ps, end_ps - start_ps, track=track)
        self.parent, self.depth = nested.parent, nested.depth

    def innermost_rows(self, times: Int64s) -> Int64s:
        """Return the innermost row at each time; -1 for none."""
        row = np.searchsorted(self.start_ps, times, side="right") - 1
        while (ended := (row >= 0) & (self.end_ps[row] <= times)).any():
            row = np.where(ended, self.parent[row], row)
        return row


def _place_on_thread(
    stacks: _Stacks, sampled_ps: Int64s, states: Sequence[Spans], ops: Spans
) -> _PlacedRows:
    """Give each piece of time to the nearest sample that was taken in the same state.

    Args:
        stacks: What the samples show.
        sampled_ps: When they were taken.
        states: When the thread does what is recorded otherwise, disjoint.
        ops: When ops run on any thread.
    """
    at = sampled_ps[
        (sampled_ps >= stacks.start_ps[0]) & (sampled_ps < stacks.end_ps.max())
    ]
    if not len(at):
        row = np.arange(len(stacks.start_ps))
        return _PlacedRows(row, stacks.start_ps, stacks.end_ps)
    edges = [stacks.start_ps, stacks.end_ps, (at[1:] + at[:-1]) // 2]
    for spans in (*states, ops):
        edges += [spans.start_ps, spans.end_ps]
    times = np.unique(np.concatenate(edges))
    begin, finish = times[:-1], times[1:]
    middle = (begin + finish) // 2
    shown, innermost = stacks.innermost_rows(at), stacks.innermost_rows(middle)
    state, state_of_sample = (
        2 * _states_at(states, times) + _states_at([ops], times)
        for times in (middle, at)
    )
    nearest = _nearest_index(at, middle)
    # A late sample also stands for the time since it was due: that remains.
    moves = (innermost == shown[nearest]) & (state_of_sample[nearest] != state)
    for kind in np.unique(state_of_sample).tolist():
        fits, pieces = state_of_sample == kind, moves & (state == kind)
        innermost[pieces] = shown[fits][_nearest_index(at[fits], middle[pieces])]
    return _rows_of_pieces(begin, finish, innermost, stacks.parent, stacks.depth)


def _states_at(states: Sequence[Spans], times: Int64s) -> Int64s:
    """Return which state holds at each time, from 1 on; 0 for none."""
    found = np.zeros(len(times), np.int64)
    for number, spans in enumerate(states, 1):
        found[spans.within(times, times + 1) > 0] = number
    return found


def _nearest_index(sorted_times: Int64s, times: Int64s) -> Int64s:
    """Return the index of the nearest of some sorted times."""
    after = np.clip(np.searchsorted(sorted_times, times), 1, len(sorted_times) - 1)
    if len(sorted_times) == 1:
        return np.zeros(len(times), np.int64)
    before = after - 1
    is_before = times - sorted_times[before] <= sorted_times[after] - times
    return np.where(is_before, before, after)


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
