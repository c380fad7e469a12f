"""`recorded_frames`: when each function ran, on which thread.

Frames are exact if Python's calls were traced. Other frames come from stack samples.
Threads that drive no step are in `non_step_frames`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.derive.columns.arrays import (
    TRACK_CODES,
    codes,
    handles,
    ints,
    wanted_rows,
)
from stepscope.derive.host.function_names import is_nameless
from stepscope.derive.intervals.nesting import nest_subset
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.names.event_kinds import EventFlag
from stepscope.frozen import Frozen
from stepscope.remedies import Remedy
from stepscope.trace.reading.nullable import absent_mask
from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_S
from stepscope.xspace.samples_line import SamplesLine

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import polars as pl

    from stepscope.array_types import Bools, Int32s, Int64s
    from stepscope.derive.host.function_names import FunctionName, FunctionNames
    from stepscope.derive.names.event_kinds import EventKinds
    from stepscope.xspace.samples_line import SamplesKind

#: Minimum number of stack samples for statements about a whole recording.
MIN_RECORDING_SAMPLES: Final = 20
#: Minimum number of stack samples for statements about one interval.
MIN_INTERVAL_SAMPLES: Final = 3

#: A callee with at least this share of the outermost caller's time replaces it, as of
#: functions around the host work of a device (`own_lines`).
_MIN_CALLEE_SHARE: Final = 0.8

_THREAD: Final = TRACK_CODES["thread"]
_SAMPLES: Final = TRACK_CODES["samples"]
_NO_FRAMES: Final = Unavailable(
    code="NOT_RECORDED",
    reason="No Python function was recorded.",
    remedy=Remedy.RECORD_CALLS,
)
#: Kind of samples of source lines → kind of samples of the functions around the lines.
_LINES_OF: Final[dict[SamplesKind, SamplesKind]] = {
    "source_lines": "functions",
    "source_lines_of_worker": "functions_of_worker",
}
#: Python's name for the code of a whole file.
_MODULE: Final = "<module>"
#: Suffixes of the names of functions with which Python starts programs and threads.
BEGINNINGS: Final = (_MODULE, "_bootstrap")


class FunctionFrames(Frozen, frozen=True):
    """Calls of Python functions, sorted by thread, then start, outer calls first.

    On each thread the frames are exact if a tracer recorded its calls. Other frames
    come from stack samples. A sampled frame lasts from halfway before its first sample
    to halfway after its last; calls between two samples are missing.

    Definition: docs/definitions/host-time.md#functions.

    Attributes:
        track: int32; row of `tracks` of the thread, else of its samples.
        start_ps: int64.
        end_ps: int64.
        parent: int32; row of this table of the caller, -1 for none.
        self_ps: int64; the time in which the frame was innermost on its thread.
        type: int32; row of `event_types`, the same for each frame of a function.
        event: int32; row of `events`.
        sampled: Whether the frames of at least one thread come from samples.
        hz: Intended samples per second of sampled threads; None for exact frames.
        names: Function of each `type`.
        of_framework: Sampled threads that Python did not start: a framework calls
            functions of the program on them.
    """

    track: Int32s
    start_ps: Int64s
    end_ps: Int64s
    parent: Int32s
    self_ps: Int64s
    type: Int32s
    event: Int32s
    sampled: bool
    hz: float | None
    names: Mapping[int, FunctionName]
    of_framework: frozenset[int] = frozenset()

    def threads_in_modules(self) -> frozenset[int]:
        """Return the threads that run module code: the program's file, or an import."""
        modules = [row for row, name in self.names.items() if name.function == _MODULE]
        return frozenset(np.unique(self.track[np.isin(self.type, modules)]).tolist())

    def of_python(self) -> bool:
        """Return whether any function is a Python function instead of compiled code."""
        return any(
            name.file is None or name.line is not None for name in self.names.values()
        )

    def spans(self, chosen: Bools) -> Spans:
        """Return when at least one of the chosen frames (by row) runs."""
        return Spans.from_bounds(self.start_ps[chosen], self.end_ps[chosen])

    def looks(self) -> int | None:
        """Return the sample count of the most sampled thread; None without samples."""
        if self.hz is None or not len(self.track):
            return None
        longest_ps = 0
        for track in np.unique(self.track).tolist():
            longest_ps = max(longest_ps, self.spans(self.track == track).length_ps)
        return round(longest_ps * self.hz / PS_PER_S)

    def rows_called_from(self, chosen: Bools) -> Bools:
        """Return, by frame, whether a chosen frame called it, directly or not."""
        below = np.zeros(len(chosen), np.bool_)
        is_called = self.parent >= 0
        while True:
            extended = is_called & (chosen | below)[self.parent]
            if (extended == below).all():
                return below
            below = extended

    def innermost_called(self, functions: Sequence[Sequence[int]], time: Spans) -> int:
        """Return the index of the innermost callee with most of the first one's time.

        Args:
            functions: Types of each function, those with most time first.
            time: Time to which calls are limited.
        """
        innermost, types = 0, [np.isin(self.type, kinds) for kinds in functions]
        min_ps = _MIN_CALLEE_SHARE * max((self.spans(types[0]) & time).length_ps, 1)
        for index, kinds in enumerate(functions):
            called = self.spans(self.rows_called_from(types[innermost]) & types[index])
            # A comprehension or lambda is part of the function that contains it.
            if (called & time).length_ps >= min_ps and not is_nameless(
                self.names[kinds[0]].function
            ):
                innermost = index
        return innermost

    def outermost_called(self, callers: Sequence[int]) -> Int64s:
        """Return the rows of the program's outermost frames called from `callers`.

        Threads of a framework are recognised by `callers`, because their outermost
        names are the framework's.
        """
        own_types = [
            kind
            for kind, name in self.names.items()
            if name.library is False and name.function != _MODULE
        ]
        own = np.isin(self.type, own_types)
        own &= self.rows_called_from(np.isin(self.type, callers))
        return np.flatnonzero(own & ~self.rows_called_from(own))

    def longest_called(self, callers: Sequence[int]) -> FunctionName | None:
        """Return the function called from `callers` that ran longest, if any."""
        rows = self.outermost_called(callers)
        if not len(rows):
            return None
        kinds, index = np.unique(self.type[rows], return_inverse=True)
        times = np.bincount(index, weights=(self.end_ps - self.start_ps)[rows])
        # If functions have equal times, the one with the highest type is returned.
        return self.names[max(zip(times.tolist(), kinds.tolist(), strict=True))[1]]


def recorded_frames(
    *,
    tracks: pl.DataFrame,
    events: pl.DataFrame,
    event_kinds: EventKinds,
    function_names: FunctionNames,
) -> FunctionFrames | Unavailable:
    """Collect the frames of all threads that drive steps, with their callers.

    Definition: docs/definitions/host-time.md#functions.
    """
    return _collect_frames(
        *(tracks, events, event_kinds, function_names), wanted="functions"
    )


def non_step_frames(
    *,
    tracks: pl.DataFrame,
    events: pl.DataFrame,
    event_kinds: EventKinds,
    function_names: FunctionNames,
) -> FunctionFrames | Unavailable:
    """Collect the frames of the program's threads that drive no step.

    These frames show what runs while a step waits, not what the step does.

    Definition: docs/definitions/host-time.md#threads-that-drive-no-step.
    """
    return _collect_frames(
        *(tracks, events, event_kinds, function_names), wanted="functions_beside"
    )


def worker_frames(
    *,
    tracks: pl.DataFrame,
    events: pl.DataFrame,
    event_kinds: EventKinds,
    function_names: FunctionNames,
) -> FunctionFrames | Unavailable:
    """Collect the frames of the first thread of each worker process.

    Time of workers is not time of the program's own process or of a step.

    Definition: docs/definitions/host-time.md#worker-processes.
    """
    return _collect_frames(
        *(tracks, events, event_kinds, function_names), wanted="functions_of_worker"
    )


def _collect_frames(
    tracks: pl.DataFrame,
    events: pl.DataFrame,
    event_kinds: EventKinds,
    function_names: FunctionNames,
    *,
    wanted: SamplesKind,
) -> FunctionFrames | Unavailable:
    """Collect the frames from samples of the wanted kind.

    The kind `functions` also includes the exact frames.
    """
    kind, is_frame = codes(tracks, "kind"), event_kinds.has(EventFlag.PYTHON_FRAME)
    on_host = absent_mask(tracks["device"]) & np.isin(kind, (_THREAD, _SAMPLES))
    begins, ends = ints(tracks, "event_begin"), ints(tracks, "event_end")
    frame_rows = [
        wanted_rows(
            handles(events, "type"), is_frame, int(begins[track]), int(ends[track])
        )
        for track in np.flatnonzero(on_host).tolist()
    ]
    rows = np.sort(np.concatenate([np.empty(0, np.int64), *frame_rows]))
    thread, hz = sampled_threads(tracks, wanted)
    recorded = handles(events, "track")[rows]
    exact = np.unique(recorded[kind[recorded] == _THREAD])
    by_samples = kind[recorded] == _SAMPLES
    if wanted == "functions":
        kept = np.isin(recorded, list(hz)) & ~np.isin(thread[recorded], exact)
        kept |= ~by_samples
    else:
        kept = np.isin(recorded, list(hz))
    rows, recorded, by_samples = rows[kept], recorded[kept], by_samples[kept]
    if not len(rows):
        return _NO_FRAMES
    start, dur = ints(events, "start_ps")[rows], ints(events, "dur_ps")[rows]
    track = thread[recorded]
    order = np.lexsort((-dur, start, track))
    rows, start, dur, track = rows[order], start[order], dur[order], track[order]
    nested = nest_subset(start, dur, track=track)
    types = function_names.canonical[handles(events, "type")[rows]]
    rates = [hz[track] for track in np.unique(recorded[by_samples]).tolist()]
    # Samples of a thread that Python started include the function that starts threads.
    # A traced thread may lack this function; it still counts as started by Python.
    names = function_names.names
    starts = [row for row, name in names.items() if name.function.endswith(BEGINNINGS)]
    pythons = np.unique(track[~by_samples[order] | np.isin(types, starts)])
    return FunctionFrames(
        track=track,
        start_ps=start,
        end_ps=start + dur,
        parent=nested.parent,
        self_ps=nested.self_ps,
        type=types,
        event=rows.astype(np.int32),
        sampled=bool(by_samples.any()),
        hz=min(rates) if rates else None,
        names=names,
        of_framework=frozenset(np.setdiff1d(track, pythons).tolist()),
    )


def sampled_threads(
    tracks: pl.DataFrame, wanted: SamplesKind
) -> tuple[Int32s, dict[int, float]]:
    """Return the thread and the sampling rate of each track of samples.

    The row of the sampled thread replaces that of the samples' track. Samples of source
    lines have the same row as samples of their functions.

    Args:
        tracks: The table.
        wanted: Kind of samples whose tracks are included.
    """
    kind = codes(tracks, "kind")
    thread = np.arange(len(kind), dtype=np.int32)
    rows = tracks[["plane", "process", "id", "name"]].rows()
    track_of: dict[tuple[str, int | None, int], int] = {}
    for track in np.flatnonzero(kind == _THREAD).tolist():
        track_of.setdefault(rows[track][:3], track)
    sampled = []
    for track in np.flatnonzero(kind == _SAMPLES).tolist():
        plane, process, line, name = rows[track]
        samples = SamplesLine.of(line, name)
        if samples is not None:
            sampled.append((track, (plane, process, samples.thread), samples))
    for track, thread_id, samples in sampled:
        if samples.kind == _LINES_OF.get(wanted):
            track_of.setdefault(thread_id, track)
    hz = {}
    for track, thread_id, samples in sampled:
        if samples.kind == wanted:
            thread[track] = track_of.get(thread_id, track)
            hz[track] = samples.hz
    return thread, hz
