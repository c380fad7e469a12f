"""`function_lines`: which lines of which functions ran when, on which thread.

A recorder that looks at stacks notes the line as well as the function. Where it did,
the runs of a function are cut where another of its lines ran; all else is as in
`function_frames`, so that the time of each function is the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from stepscope.derive.columns.arrays import handles, ints
from stepscope.derive.columns.stat_values import find_handle, numbers_of, rows_of_owners
from stepscope.derive.host.function_frames import sampled_threads
from stepscope.derive.intervals.nesting import nest_subset
from stepscope.frozen import Frozen
from stepscope.trace.reading.stat_keys import StatKey
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

    import polars as pl
    from numpy.typing import NDArray

    from stepscope.derive.host.function_frames import FunctionFrames
    from stepscope.derive.host.function_names import FunctionName, FunctionNames
    from stepscope.trace.model import TraceData
    from stepscope.xspace.samples_line import SamplesKind

_LAST: Final = np.iinfo(np.int64).max
_NONE: Final = np.int32(-1)


class FunctionLines(Frozen, frozen=True):
    """Runs of lines of Python functions: by thread, then start, outer first.

    The runs of a function's lines on a thread, and those of which the line is not
    known, take the time of its frames: they meet where the line changed, or where a
    line further out did.

    Definition: docs/definitions/host-time.md#functions.

    Attributes:
        track: int32; as in `FunctionFrames`.
        start_ps: int64.
        end_ps: int64.
        type: int32; row of `event_types`, the same for each run of a function.
        line: int32; the line that ran, -1 where the recording has only the function.
        names: Function of each `type`.
    """

    track: NDArray[np.int32]
    start_ps: NDArray[np.int64]
    end_ps: NDArray[np.int64]
    type: NDArray[np.int32]
    line: NDArray[np.int32]
    names: Mapping[int, FunctionName]

    def known(self) -> FunctionLines | None:
        """Return the lines; None where not one of them is known."""
        return self if (self.line >= 0).any() else None


class _Runs(NamedTuple):
    """Runs by thread, then start, outer first, and how many are around each."""

    track: NDArray[np.int32]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    type: NDArray[np.int32]
    line: NDArray[np.int32]
    depth: NDArray[np.int32]

    def only(self, chosen: NDArray[np.bool_] | NDArray[np.int64]) -> _Runs:
        return _Runs(
            *(self.track[chosen], self.start[chosen], self.end[chosen]),
            *(self.type[chosen], self.line[chosen], self.depth[chosen]),
        )


def function_lines(
    *,
    trace: TraceData,
    tracks: pl.DataFrame,
    events: pl.DataFrame,
    stats: pl.DataFrame | Unavailable,
    function_frames: FunctionFrames | Unavailable,
    function_names: FunctionNames,
) -> FunctionLines | Unavailable:
    """Cut the frames of all threads where another line of the function ran.

    Definition: docs/definitions/host-time.md#functions.
    """
    found = _line_runs(
        trace, tracks, events, stats, function_names, wanted="source_lines"
    )
    return _cut(function_frames, found, tracks)


def worker_lines(
    *,
    trace: TraceData,
    tracks: pl.DataFrame,
    events: pl.DataFrame,
    stats: pl.DataFrame | Unavailable,
    worker_frames: FunctionFrames | Unavailable,
    function_names: FunctionNames,
) -> FunctionLines | Unavailable:
    """Cut the frames of worker processes where another line of the function ran.

    Definition: docs/definitions/host-time.md#worker-processes.
    """
    found = _line_runs(
        trace, tracks, events, stats, function_names, wanted="source_lines_of_worker"
    )
    return _cut(worker_frames, found, tracks)


def _cut(
    function_frames: FunctionFrames | Unavailable,
    found: _Runs | None,
    tracks: pl.DataFrame,
) -> FunctionLines | Unavailable:
    """Cut frames where recorded lines say so."""
    if isinstance(function_frames, Unavailable):
        return function_frames
    if found is None:
        of = function_frames
        return FunctionLines(
            *(of.track, of.start_ps, of.end_ps, of.type),
            np.full(len(of.track), _NONE),
            of.names,
        )
    frames = _frames(function_frames)
    # Where the lines of a thread begin to be known, and they are from there on.
    since = np.full(len(tracks), _LAST)
    known = _known_since(frames, found)
    since[list(known)] = list(known.values())
    frames = _joined(frames, found, since)
    return FunctionLines(
        frames.track,
        frames.start,
        frames.end,
        frames.type,
        frames.line,
        function_frames.names,
    )


def _frames(frames: FunctionFrames) -> _Runs:
    start, end = frames.start_ps, frames.end_ps
    return _Runs(
        *(frames.track, start, end, frames.type, np.full(len(start), _NONE)),
        nest_subset(start, end - start, track=frames.track).depth,
    )


def _line_runs(
    trace: TraceData,
    tracks: pl.DataFrame,
    events: pl.DataFrame,
    stats: pl.DataFrame | Unavailable,
    names: FunctionNames,
    *,
    wanted: SamplesKind,
) -> _Runs | None:
    """Return the runs of lines that were recorded; None where none were."""
    thread, hz = sampled_threads(tracks, wanted)
    if not hz or isinstance(stats, Unavailable):
        return None
    begins, ends = ints(tracks, "event_begin"), ints(tracks, "event_end")
    parts = [np.arange(begins[track], ends[track]) for track in sorted(hz)]
    rows = np.concatenate(parts).astype(np.int32)
    # What took no time has none to give, and may begin with the run around it.
    rows = rows[ints(events, "dur_ps")[rows] > 0]
    values = rows_of_owners(stats, "event", rows)
    key = find_handle(trace.strings, StatKey.SOURCE_LINE)
    number, present = numbers_of(values, rows, key)
    start, dur = ints(events, "start_ps")[rows], ints(events, "dur_ps")[rows]
    track = thread[handles(events, "track")[rows]]
    order = np.lexsort((-dur, start, track))
    start, dur, track = start[order], dur[order], track[order]
    return _Runs(
        *(track, start, start + dur),
        names.canonical[handles(events, "type")[rows]][order],
        np.where(present, number, _NONE).astype(np.int32)[order],
        nest_subset(start, dur, track=track).depth,
    )


def _known_since(frames: _Runs, lines: _Runs) -> dict[int, int]:
    """Return by thread the time from which on the lines of all frames are known.

    A recording that keeps the last of what it found has a frame in whole, and not all
    of its lines; a thread may be looked at before its lines are kept.
    """
    frames = frames.only(
        (frames.end > frames.start) & np.isin(frames.track, lines.track)
    )
    if not len(frames.track):
        return {}
    of_frame = _owners(frames, lines)
    around = frames.only(np.maximum(of_frame, 0))
    fits = of_frame >= 0
    fits &= (around.type == lines.type) & (around.end >= lines.end)
    # By frame, then start: a run begins with its frame or where the one before ended.
    order = np.lexsort((lines.start, of_frame))
    meets = np.zeros(len(order), np.bool_)
    meets[1:] = (of_frame[order][1:] == of_frame[order][:-1]) & (
        lines.end[order][:-1] == lines.start[order][1:]
    )
    joined = np.empty(len(order), np.bool_)
    joined[order] = meets
    joined |= lines.start == around.start
    reached = frames.start.copy()
    np.maximum.at(reached, of_frame[fits], lines.end[fits])
    known: dict[int, int] = {}
    for track in np.unique(lines.track).tolist():
        on_track = lines.track == track
        mine = frames.track == track
        gaps = [
            lines.start[on_track & ~joined],
            frames.end[mine & (reached < frames.end)],
            np.full(int((on_track & ~fits).any() or not mine.any()), _LAST),
        ]
        known[track] = max((int(gap.max()) for gap in gaps if len(gap)), default=-_LAST)
    return known


def _owners(frames: _Runs, lines: _Runs) -> NDArray[np.int64]:
    """Return by run the last frame of its depth that began before it; -1 for none."""
    count, total = len(frames.track), len(frames.track) + len(lines.track)
    track, depth, start = (
        np.concatenate(columns)
        for columns in (
            (frames.track, lines.track),
            (frames.depth, lines.depth),
            (frames.start, lines.start),
        )
    )
    order = np.lexsort((np.arange(total) >= count, start, depth, track))
    place = np.where(order < count, np.arange(total), -1)
    last = order[np.maximum(np.maximum.accumulate(place), 0)]
    same = (
        (last < count) & (track[last] == track[order]) & (depth[last] == depth[order])
    )
    found = np.empty(total, np.int64)
    found[order] = np.where(same, last, -1)
    return found[count:]


def _joined(frames: _Runs, lines: _Runs, since: NDArray[np.int64]) -> _Runs:
    """Return the frames until a time of each thread, and the lines from then on."""
    edge = since[frames.track]
    before = frames._replace(end=np.minimum(frames.end, edge)).only(frames.start < edge)
    edge = since[lines.track]
    after = lines._replace(start=np.maximum(lines.start, edge)).only(lines.end > edge)
    parts = (before, after)
    both = _Runs(
        np.concatenate([part.track for part in parts]),
        np.concatenate([part.start for part in parts]),
        np.concatenate([part.end for part in parts]),
        np.concatenate([part.type for part in parts]),
        np.concatenate([part.line for part in parts]),
        np.concatenate([part.depth for part in parts]),
    )
    return both.only(np.lexsort((both.start - both.end, both.start, both.track)))
