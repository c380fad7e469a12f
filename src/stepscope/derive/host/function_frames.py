"""`function_frames`: which functions ran when, on which thread.

Exact where Python's calls were traced; else from samples of the thread's stack. Threads
that were looked at only because a step may wait for them are in `frames_beside`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.derive.columns.arrays import codes, handles, ints, wanted_rows
from stepscope.derive.intervals.nesting import nest_subset
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.names.event_kinds import EventFlag
from stepscope.frozen import Frozen
from stepscope.remedies import Remedy
from stepscope.trace.reading.nullable import absent_mask
from stepscope.trace.tables import TRACK_KINDS
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

#: A recording with fewer looks at the stack does not say what its time was spent on.
LEAST_LOOKS: Final = 20
#: Fewer looks at an interval do not say what it was spent on.
FEW_LOOKS: Final = 3

_KINDS: Final = TRACK_KINDS.categories.to_list()
_THREAD: Final = _KINDS.index("thread")
_SAMPLES: Final = _KINDS.index("samples")
_NO_FRAMES: Final = Unavailable(
    code="NOT_RECORDED",
    reason="No Python function was recorded.",
    remedy=Remedy.RECORD_CALLS,
)
#: Lines of the program → the functions that they are lines of.
_LINES_OF: Final[dict[SamplesKind, SamplesKind]] = {
    "source_lines": "functions",
    "source_lines_of_worker": "functions_of_worker",
}
#: What Python calls the code of a whole file.
_MODULE: Final = "<module>"
#: What Python begins a program and a thread with, as the names of functions end.
BEGINNINGS: Final = (_MODULE, "_bootstrap")


class FunctionFrames(Frozen, frozen=True):
    """Runs of Python functions: arrays by row, by thread, then start, outer first.

    On each thread the frames are exact where a tracer recorded its calls, and from
    samples where none did. Of samples a frame lasts from halfway before the first look
    that found it to halfway after the last; what ran between two looks is not seen.

    Definition: docs/definitions/host-time.md#functions.

    Attributes:
        track: int32; row of `tracks` of the thread. Where nothing else of a sampled
            thread was recorded, the row of its samples.
        start_ps: int64.
        end_ps: int64.
        parent: int32; row of this table that called this one, -1 for none.
        self_ps: int64; the time in which the frame was innermost on its thread.
        type: int32; row of `event_types`, the same for each frame of a function.
        event: int32; row of `events`.
        sampled: Whether the frames of at least one thread come from samples.
        hz: How often a second sampled threads were to be looked at; None for exact
            frames.
        names: Function of each `type`.
        of_framework: The threads whose frames come from samples and that Python did not
            begin: a framework calls functions of the program there.
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
        """Return the threads that run a module: the program's file, or an import."""
        modules = [it for it, name in self.names.items() if name.function == _MODULE]
        return frozenset(np.unique(self.track[np.isin(self.type, modules)]).tolist())

    def of_python(self) -> bool:
        """Return whether Python's functions are among them, not compiled ones alone."""
        return any(it.file is None or it.line is not None for it in self.names.values())

    def spans(self, chosen: Bools) -> Spans:
        """Return when any of some frames runs, which are chosen by row."""
        starts = self.start_ps[chosen]
        return Spans.from_events(starts, self.end_ps[chosen] - starts)

    def looks(self) -> int | None:
        """Return how many looks the most looked-at thread had; None for exact calls."""
        if self.hz is None or not len(self.track):
            return None
        most = 0
        for track in np.unique(self.track).tolist():
            on_track = self.track == track
            most = max(most, self.spans(on_track).length_ps)
        return round(most * self.hz / PS_PER_S)

    def rows_called_from(self, chosen: Bools) -> Bools:
        """Return which frames chosen ones called, by whatever way."""
        below = np.zeros(len(chosen), np.bool_)
        is_called = self.parent >= 0
        while True:
            more = is_called & (chosen | below)[self.parent]
            if (more == below).all():
                return below
            below = more

    def outermost_called(self, callers: Sequence[int]) -> Int64s:
        """Return the rows of the outermost frames of the program below functions.

        A framework's threads have names of their own, so it is known by who called it.
        """
        own_types = [
            kind
            for kind, name in self.names.items()
            if name.library is False and name.function != _MODULE
        ]
        own = np.isin(self.type, own_types)
        own &= self.rows_called_from(np.isin(self.type, callers))
        return np.flatnonzero(own & ~self.rows_called_from(own))

    def called_most(self, callers: Sequence[int]) -> FunctionName | None:
        """Return that of these functions which ran longest; None for none."""
        rows = self.outermost_called(callers)
        if not len(rows):
            return None
        kinds, place = np.unique(self.type[rows], return_inverse=True)
        times = np.bincount(place, weights=(self.end_ps - self.start_ps)[rows])
        # Of equal ones the last in the order of the types.
        return self.names[int(kinds[len(kinds) - 1 - np.argmax(times[::-1])])]

    def function(self, event_type: int) -> str:
        """Return the name of a function."""
        return self.names[event_type].function


def function_frames(
    *,
    tracks: pl.DataFrame,
    events: pl.DataFrame,
    event_kinds: EventKinds,
    function_names: FunctionNames,
) -> FunctionFrames | Unavailable:
    """Collect the frames of all threads, and who called whom.

    Definition: docs/definitions/host-time.md#functions.
    """
    return _collect_frames(
        *(tracks, events, event_kinds, function_names), wanted="functions"
    )


def frames_beside(
    *,
    tracks: pl.DataFrame,
    events: pl.DataFrame,
    event_kinds: EventKinds,
    function_names: FunctionNames,
) -> FunctionFrames | Unavailable:
    """Collect the frames of threads of the program that drive no step.

    They say nothing of what a step does, but what runs while it waits.

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

    They are no time of the program's own process, and so of no step.

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
    """Collect the frames of some threads: of samples those of the wanted kind.

    Exact frames count with those of threads that drive steps.
    """
    kind, is_frame = codes(tracks, "kind"), event_kinds.has(EventFlag.PYTHON_FRAME)
    on_host = absent_mask(tracks["device"]) & np.isin(kind, (_THREAD, _SAMPLES))
    begins, ends = ints(tracks, "event_begin"), ints(tracks, "event_end")
    frame_rows = [
        wanted_rows(handles(events, "type"), is_frame, int(begins[it]), int(ends[it]))
        for it in np.flatnonzero(on_host).tolist()
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
    rates = [hz[it] for it in np.unique(recorded[by_samples]).tolist()]
    # Threads that Python began: samples find what it begins one with. A tracer begins
    # in the midst of calls, so that of its threads nothing is known.
    names = function_names.names
    beginning = [it for it, name in names.items() if name.function.endswith(BEGINNINGS)]
    pythons = np.unique(track[~by_samples[order] | np.isin(types, beginning)])
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
    """Return by track the thread that it is or was looked at for, and rates of these.

    Lines of the program are with the functions that they are lines of.

    Args:
        tracks: The table.
        wanted: What lines of samples hold that count.
    """
    kind = codes(tracks, "kind")
    thread = np.arange(len(kind), dtype=np.int32)
    places = tracks[["plane", "process", "id", "name"]].rows()
    at: dict[tuple[str, int | None, int], int] = {}
    for track in np.flatnonzero(kind == _THREAD).tolist():
        at.setdefault(places[track][:3], track)
    sampled = []
    for track in np.flatnonzero(kind == _SAMPLES).tolist():
        plane, process, line, name = places[track]
        samples = SamplesLine.of(line, name)
        if samples is not None:
            sampled.append((track, (plane, process, samples.thread), samples))
    for track, place, samples in sampled:
        if samples.kind == _LINES_OF.get(wanted):
            at.setdefault(place, track)
    hz = {}
    for track, place, samples in sampled:
        if samples.kind == wanted:
            thread[track] = at.get(place, track)
            hz[track] = samples.hz
    return thread, hz
