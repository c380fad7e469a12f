"""When the program's threads wait, where they wait in a step, and what runs meanwhile.

A recorded function shows where a thread is, not whether it computes. A thread that
needs no core waits for a lock, a queue, a slow source, a process, or a time.

Definition: docs/definitions/host-time.md#waiting-and-working.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.derive.account.function_parts import function_parts
from stepscope.derive.host.core_time import thread_identities
from stepscope.derive.host.function_purposes import (
    AWAITING,
    WAITING_WORKS,
    work_of_call,
)
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.reasons import WHY
from stepscope.frozen import Frozen
from stepscope.patterns import Pattern
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    import polars as pl

    from stepscope.derive.account.naming import Name, Naming
    from stepscope.derive.account.time_by_cause import Account
    from stepscope.derive.host.core_time import CoreTime, ThreadTime
    from stepscope.derive.host.function_frames import FunctionFrames
    from stepscope.derive.host.function_purposes import FunctionPurposes, KnownWork
    from stepscope.derive.step_windows.windows import Windows

#: Causes of the waits. For `input`, half of the time must be waiting for others.
_OWNERS: Final = ("wait", "input")
#: Another thread causes a wait if it works (or sleeps) during this share of the wait.
_MIN_CAUSE_SHARE: Final = 0.5
#: Suffix of the names of pool threads and of threads that the program did not name.
_NUMBERED: Final = Pattern(r"[-_]\d+(?= \(|\Z)")
#: Files of Python's standard library in which one thread waits for another.
_FOR_THREADS: Final = Pattern(
    r"[\\/](?:threading|queue|(?:concurrent|multiprocessing)[\\/][\w\\/]+)\.py\Z"
)


class HostWaits(Frozen, frozen=True):
    """The time in steps in which the program's own thread waits in a function.

    Attributes:
        spans: When the thread sleeps or, for input, is in a function that waits for
            another thread or process; within the judged steps.
        function: Function in which the thread sleeps most of this time.
        thread: Name of the thread or thread pool that the sleeping thread waits for;
            None if unknown. The named thread works most, or it alone is in a function.
        running: Function that `thread` is in for most of this time; None for none.
        works: Whether `thread` works; if not, no thread of the process works. None if
            the threads' clocks were not read.
        work: Kind of work that most of the wait is part of; None if unknown.
        of_library: Whether a library started `thread` and runs nothing of the program
            on it, for example to manage a pool of processes.
    """

    spans: Spans
    function: Name
    thread: str | None
    running: Name | None
    works: bool | None
    of_library: bool = False
    work: KnownWork | None = None


class _OtherThread(Frozen, frozen=True, eq=True):
    """Another thread of the program: its core times, and its functions if recorded."""

    name: str
    time: ThreadTime
    frames: FunctionFrames | None
    track: int


def host_waits(
    *,
    account: Account,
    naming: Naming | Unavailable,
    windows: Windows,
    tracks: pl.DataFrame,
    core_time: CoreTime | Unavailable,
    function_frames: FunctionFrames | Unavailable,
    function_purposes: FunctionPurposes | Unavailable,
    non_step_frames: FunctionFrames | Unavailable,
) -> dict[str, HostWaits] | Unavailable:
    """Find, by cause, where the program's thread waits, and what works meanwhile."""
    if (
        isinstance(naming, Unavailable)
        or isinstance(function_frames, Unavailable)
        or isinstance(function_purposes, Unavailable)
        or not naming.function_tracks
    ):
        return WHY["core_not_recorded"]
    main = naming.function_tracks[0]
    threads: list[_OtherThread] | None = None
    if not isinstance(core_time, Unavailable):
        threads = _other_threads(
            *(core_time, thread_identities(tracks)[main], tracks),
            (function_frames, non_step_frames),
            main=main,
        )
    awaits = np.isin(function_purposes.purpose, AWAITING)
    received = function_frames.spans(awaits & (function_frames.track == main))
    waits: dict[str, HostWaits] = {}
    for owner in _OWNERS:
        owned = (device.idle[owner] & windows.judged for device in account.devices)
        asleep = longest = max(owned, key=lambda spans: spans.length_ps)
        if owner == "input":
            asleep = longest & received
        found = _find_wait(naming, function_frames, function_purposes, asleep, threads)
        if found is not None and 2 * asleep.length_ps >= longest.length_ps:
            waits[owner] = found
    return waits or WHY["no_sleep"]


def _find_wait(
    naming: Naming,
    frames: FunctionFrames,
    purposes: FunctionPurposes,
    asleep: Spans,
    threads: list[_OtherThread] | None,
) -> HostWaits | None:
    main = naming.function_tracks[0]
    parts = function_parts(frames, asleep, track=main, windows=naming.windows)
    if not parts or parts[0].type < 0:
        return None
    function = naming.function_name(frames, parts[0].type, parts[0].detail)
    function = function._replace(loop=parts[0].is_loop)
    calls = {} if naming.ran is None else naming.ran.compiled_calls([main])

    def is_most(spans: Spans) -> bool:
        return 2 * (asleep & spans).length_ps >= asleep.length_ps

    named = next(filter(lambda name: is_most(calls[name]), calls), None)
    if function.detail is None:
        function = function._replace(detail=named)
    work = None
    for kind in WAITING_WORKS:
        doing = np.isin(frames.type, purposes.types_with_work(kind))
        called = (calls[name] for name in calls if work_of_call(name) == kind)
        if is_most(Spans.union_of([frames.spans(doing), *called])):
            work = kind
            break
    if threads is None:
        return HostWaits(asleep, function, None, None, works=None, work=work)
    busy = asleep & Spans.union_of(thread.time.awake for thread in threads)
    works = busy.length_ps >= _MIN_CAUSE_SHARE * asleep.length_ps
    thread, running, of_library = _awaited_thread(naming, threads, asleep, works=works)
    return HostWaits(
        *(asleep, function, thread, running, works), of_library=of_library, work=work
    )


def _other_threads(
    core_time: CoreTime,
    own: tuple[str, int | None, int],
    tracks: pl.DataFrame,
    recorded: tuple[FunctionFrames | Unavailable, ...],
    *,
    main: int,
) -> list[_OtherThread]:
    thread_ids = thread_identities(tracks)
    framed: dict[tuple[str, int | None, int], tuple[FunctionFrames, int]] = {}
    for frames in recorded:
        if isinstance(frames, Unavailable):
            continue
        for track in sorted(set(frames.track.tolist()) - {main}):
            framed.setdefault(thread_ids[track], (frames, track))
    return [
        _OtherThread(time.name, time, *framed.get(thread_id, (None, -1)))
        for thread_id, time in core_time.threads.items()
        if thread_id != own and thread_id[:2] == own[:2]
    ]


def _awaited_thread(
    naming: Naming, other_threads: list[_OtherThread], asleep: Spans, *, works: bool
) -> tuple[str | None, Name | None, bool]:
    """Return the awaited thread, its function, and whether a library started it.

    If other threads work, the awaited thread is the one that works most. If no thread
    works, it is the only thread (or pool) that sleeps in a function other than a wait
    for threads.
    """
    pools: dict[str, list[_OtherThread]] = defaultdict(list)
    for thread in other_threads:
        pools[_NUMBERED.sub("", thread.name)].append(thread)
    awaited: list[tuple[int, str, Name | None]] = []
    of_library: set[Name] = set()
    for pool, threads in pools.items():
        named: dict[Name, int] = defaultdict(int)
        during = 0
        for thread in threads:
            spans = asleep & (thread.time.awake if works else thread.time.asleep)
            during += spans.length_ps
            for name, time, library in _functions_of_thread(
                naming, thread, spans, idle=not works
            ):
                named[name] += time
                of_library |= {name} if library else set()
        ranked = sorted(named.items(), key=lambda item: -item[1])
        if works or (ranked and ranked[0][1] >= _MIN_CAUSE_SHARE * asleep.length_ps):
            label = threads[0].name if len(threads) == 1 else pool
            awaited.append((during, label, ranked[0][0] if ranked else None))
    if not awaited or (not works and len(awaited) > 1):
        return None, None, False
    _, label, running = max(awaited, key=lambda candidate: candidate[0])
    return label, running, running in of_library


def _functions_of_thread(
    naming: Naming, thread: _OtherThread, spans: Spans, *, idle: bool
) -> list[tuple[Name, int, bool]]:
    """Return a thread's functions in some spans; `idle` excludes waits for threads.

    Each function is returned with its time and whether it belongs to a library.
    """
    frames = thread.frames
    if frames is None:
        return []
    starts, ends = naming.windows
    if len(starts) == 1:
        # A thread may start later than the only window: a function that encloses all of
        # the thread's time is the thread's loop.
        own_rows = frames.track == thread.track
        starts = np.maximum(starts, frames.start_ps[own_rows].min(initial=ends[0]))
        ends = np.minimum(ends, frames.end_ps[own_rows].max(initial=starts[0]))
    parts = function_parts(frames, spans, track=thread.track, windows=(starts, ends))
    functions = []
    for part in parts:
        inner = frames.names.get(part.type if part.detail < 0 else part.detail)
        if inner is None or (idle and _FOR_THREADS.search(inner.file or "")):
            continue
        outer = frames.names.get(part.type)
        library = outer is not None and bool(outer.library)
        if idle and library:
            continue
        name = naming.function_name(frames, part.type, part.detail)
        functions.append((name._replace(loop=part.is_loop), part.time_ps, library))
    return functions
