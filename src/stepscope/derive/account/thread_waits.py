"""When threads had no core, and what other threads did while one waited for them.

Few profilers record when a thread has a core. A wait for a thread is recorded as a
system call.

Definition: docs/where-a-steps-time-goes.md#waits-for-other-threads.
"""

from __future__ import annotations

from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.derive.columns.arrays import handles
from stepscope.derive.intervals.nesting import nest_subset
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.step_time.host_codes import SHORT_OP_PS
from stepscope.derive.step_time.host_time import HostCode
from stepscope.trace.tables import OFF_CORE
from stepscope.xspace.samples_line import SamplesLine

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stepscope.array_types import Bools, Int32s
    from stepscope.derive.host.function_frames import FunctionFrames
    from stepscope.derive.intervals.spans import TrackRows
    from stepscope.derive.step_time.host_classes import HostClasses

#: Codes of a waiting thread; no other thread waits for such a thread.
_WAITS: Final = (
    *(HostCode.SYSTEM_WAIT, HostCode.BLOCKED, HostCode.INPUT_WAIT),
    *(HostCode.SYNC, HostCode.READ_BACK, HostCode.PEER),
)
_WORK: Final = tuple(code for code in HostCode if code not in _WAITS)
#: An event type is the cause of a wait if it runs for at least this share of the wait.
_MIN_CAUSE_SHARE: Final = 0.5


def off_core(
    tracks: pl.DataFrame,
    events: pl.DataFrame,
    event_types: pl.DataFrame,
    *,
    rows_of: TrackRows,
) -> dict[int, Spans]:
    """Return the times without a core: row of tracks of the thread → spans."""
    return {
        thread: rows_of.covered_spans(rows_of.track_rows(line))
        for thread, line in lines_without_core(tracks, events, event_types).items()
    }


def common_spans(sets: Sequence[Spans]) -> Spans:
    """Return the intersection of all sets of spans; empty without sets."""
    return reduce(and_, sets) if sets else Spans.empty()


def long_intervals(spans: Spans) -> Spans:
    """Return the intervals that are not shorter than a short op."""
    chosen = spans.end_ps - spans.start_ps >= SHORT_OP_PS
    return Spans(spans.start_ps[chosen], spans.end_ps[chosen])


def lines_without_core(
    tracks: pl.DataFrame, events: pl.DataFrame, event_types: pl.DataFrame
) -> dict[int, int]:
    """Return row of tracks of a thread → row of its line of time without a core."""
    named: Bools
    named = event_types["name"].str.starts_with(OFF_CORE).to_numpy()
    if not named.any():
        return {}
    lines = np.unique(handles(events, "track")[named[handles(events, "type")]])
    ids = tracks.select("plane", "process", "id").rows()
    kinds = tracks["kind"].to_list()
    threads = {key: row for row, key in enumerate(ids) if kinds[row] == "thread"}
    return {
        threads[ids[line]]: line
        for line in lines.tolist()
        if ids[line] in threads and kinds[line] == "asynchronous"
    }


def host_threads(tracks: pl.DataFrame) -> dict[int, str]:
    """Return the name of each thread of a host by row of tracks.

    A thread that has only stack samples gets the row of the samples' track.
    """
    named = tracks.with_row_index("row").filter(
        pl.col("device").is_null(), pl.col("kind").is_in(["thread", "samples"])
    )
    name_of_track = {}
    for row, kind, line, name in named[["row", "kind", "id", "name"]].rows():
        samples = SamplesLine.of(line, name) if kind == "samples" else None
        if kind == "thread":
            name_of_track[row] = name
        elif samples is not None and samples.kind == "functions":
            name_of_track[row] = samples.thread_name
    return name_of_track


def awaited_thread(
    classes: HostClasses,
    threads: Mapping[int, str],
    waits: Spans,
    *,
    types: Int32s,
    nameless: Bools,
    frames: FunctionFrames | None,
    by: int,
) -> tuple[str, int] | None:
    """Return the thread and the event type that ran during most of the waits.

    If no event ran long enough, the innermost functions of the other threads are used:
    a call such as `pthread_join` waits for a thread that may have only stack samples.

    Args:
        threads: Row of tracks of each thread of the host → its name.
        nameless: By row of event_types: whether the type hides what a thread does.
        by: Row of tracks of the thread that waits.

    Returns:
        Name of the thread and row of event_types; None if no type ran during half of
        the waits.
    """
    candidates: list[tuple[int, str, int]] = []
    rows = classes.rows
    for track, name in threads.items():
        if track == by:
            continue
        event_rows = rows.meeting_rows(track, waits, code=classes.code, wanted=_WORK)
        event_rows = event_rows[~nameless[types[event_rows]]]
        if not len(event_rows):
            continue
        start, dur = rows.start_ps[event_rows], rows.dur_ps[event_rows]
        nested = nest_subset(start, dur, track=np.zeros(len(event_rows), np.int32))
        own = waits.within(start, start + dur)
        inside = nested.parent >= 0
        np.subtract.at(own, nested.parent[inside], own[inside].copy())
        kind, index = np.unique(types[event_rows], return_inverse=True)
        total = np.zeros(len(kind), np.int64)
        np.add.at(total, index, own)
        largest = int(total.argmax())
        candidates.append((int(total[largest]), name, int(kind[largest])))
    names = {track: name for track, name in threads.items() if name != threads.get(by)}
    for timed in (
        candidates,
        [] if frames is None else _innermost_functions(frames, names, waits),
    ):
        longest = max(timed, default=None)
        if longest is not None and longest[0] >= _MIN_CAUSE_SHARE * waits.length_ps:
            return longest[1:]
    return None


def _innermost_functions(
    frames: FunctionFrames, threads: Mapping[int, str], waits: Spans
) -> list[tuple[int, str, int]]:
    time = waits.within(frames.start_ps, frames.end_ps)
    own = time.copy()
    inside = frames.parent >= 0
    np.subtract.at(own, frames.parent[inside], time[inside])
    functions = []
    for track in np.unique(frames.track[time > 0]).tolist():
        own_rows = np.flatnonzero((frames.track == track) & (time > 0))
        kind, index = np.unique(frames.type[own_rows], return_inverse=True)
        total = np.bincount(index, weights=own[own_rows]).astype(np.int64)
        largest = int(total.argmax())
        if track in threads:
            functions.append((int(total[largest]), threads[track], int(kind[largest])))
    return functions
