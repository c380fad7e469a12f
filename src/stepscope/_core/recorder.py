# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""The hot path of annotations: `Trace`, and the bounded ring that keeps them.

An annotation that ended is kept as the object itself, so that only a place in the ring
is taken while the program runs. One process has one ring. It never holds more
than its capacity: the oldest annotation gives way and is counted. `drain` may run in
another thread at any time; while recording is off an annotation touches nothing.
`stacks_of` and `stacks_beside` look at what threads run at one moment: the code of each
function, and the offset of its instruction. To ask a frame for its line would cost
more than all else: the table of lines is searched from its begin.

Times are nanoseconds of the monotonic clock (`now`), threads the ids of the system.
"""

from __future__ import annotations

import gc
import sys
import threading
import time
from array import array
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from stepscope._core._shim import cython
from stepscope.errors import is_from_handler

if cython.compiled:
    from cython.cimports.cpython.pythread import (
        PyThread_tss_create,
        PyThread_tss_get,
        PyThread_tss_set,
    )
    from cython.cimports.posix.time import CLOCK_MONOTONIC, clock_gettime, timespec

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from types import CodeType, FrameType

    Stack = tuple[list[CodeType], list[int]]

COMPILED = cython.compiled

if cython.compiled:
    _thread_key = cython.declare(cython.Py_tss_t)
    PyThread_tss_create(cython.address(_thread_key))

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _clock_ns() -> cython.longlong:
        moment: timespec
        clock_gettime(CLOCK_MONOTONIC, cython.address(moment))  # noqa: F821 - a C variable
        seconds: cython.longlong = moment.tv_sec  # noqa: F821 - a C variable
        return seconds * 1_000_000_000 + moment.tv_nsec  # noqa: F821 - a C variable

    @cython.cfunc
    @cython.inline
    def _own_thread_id() -> cython.longlong:
        """Return the system's id of this thread, asked for once in each thread."""
        known: cython.p_void = PyThread_tss_get(cython.address(_thread_key))
        if known != cython.NULL:
            return cython.cast(cython.longlong, known)
        native: cython.longlong = threading.get_native_id()
        PyThread_tss_set(
            cython.address(_thread_key), cython.cast(cython.p_void, native)
        )
        return native

    @cython.cfunc
    def _forget_thread() -> cython.void:
        PyThread_tss_set(cython.address(_thread_key), cython.NULL)

else:
    _clock_ns = time.monotonic_ns
    _own_thread_id = threading.get_native_id

    def _forget_thread() -> None:
        """Nothing is remembered."""


class Drained(NamedTuple):
    """Annotations that ended, in the order of their ends, as columns.

    Attributes:
        names: Name of each annotation.
        begin_ns: int64; when the annotation began, in nanoseconds of `now`.
        end_ns: int64; when it ended, in nanoseconds of `now`.
        thread: int64; the system's id of the annotation's thread.
        stats: Values of the annotation by name; empty where it has none.
        beside: 1 where the annotation was forwarded to another recorder that recorded
            from its begin to its end.
    """

    names: list[Any]
    begin_ns: array[int]
    end_ns: array[int]
    thread: array[int]
    stats: list[dict[str, Any]]
    beside: bytearray


@cython.final
@cython.cclass
class _Ring:
    """What a process keeps of its annotations.

    Attributes:
        enabled: Whether annotations are kept.
        generation: Which recording this is, from 1: an annotation that began in
            another one is not kept.
        opened: Annotations of this recording that have not ended.
        capacity: Most annotations that wait to be drained.
        lost: Number of annotations that gave way to younger ones.
        forward: Makes the annotation of another recorder: called with name and values,
            it returns a context manager.
        keeps: Whether the other recorder keeps the annotations in a recording.
        step: The open annotation of the step that `mark_step` began.
    """

    enabled: cython.bint
    generation: cython.longlong
    opened: cython.longlong
    capacity: cython.Py_ssize_t
    lost: cython.longlong
    forward: Any
    keeps: cython.bint
    events: Any
    append: Any
    lock: Any
    step: Any

    def __init__(self) -> None:
        self.enabled = False
        self.generation = 0
        self.opened = 0
        self.capacity = 0
        self.lost = 0
        self.forward = None
        self.keeps = False
        self.step = None
        self.lock = threading.Lock()
        self.events = deque()
        self.append = self.events.append


_ring = cython.declare(_Ring, _Ring())


@cython.cfunc
def _drop_oldest() -> cython.void:
    # Threads compete only here: each that finds the ring full drops one annotation.
    # What it held is let go of out of the lock: its values may annotate when they end.
    dropped = None
    with _ring.lock:
        try:
            dropped = _ring.events.popleft()
        except IndexError:
            return
        _ring.lost += 1
    del dropped


@cython.no_gc
@cython.cclass
class Trace:
    """An annotation: a named interval of the program, with values.

        with ss.Trace("train", step_num=i, _r=1):
            ...

    It costs next to nothing while nothing records. One object may be entered again
    after it was left; it is kept each time. Values are numbers, texts or bytes; of any
    other object only its type is written, so that no array is read.
    """

    name: Any
    stats: Any
    forwarded: Any
    maker: Any
    again: Any
    begin: cython.longlong
    end: cython.longlong
    generation: cython.longlong
    thread: cython.longlong
    kept: cython.bint
    beside: cython.bint

    def __init__(self, name: object, **stats: object) -> None:
        self.name = name
        self.stats = stats
        self.forwarded = None
        self.maker = None
        self.again = None
        self.begin = 0
        self.end = 0
        self.generation = 0
        self.thread = 0
        self.kept = False
        self.beside = False

    def __enter__(self) -> Trace:  # noqa: PYI034 - Self is no type to the compiler
        if _ring.enabled:
            if self.kept:
                # The ring holds this object: its times must stay.
                self.again = Trace(self.name, **self.stats).__enter__()
                return self
            self.generation = _ring.generation
            self.thread = _own_thread_id()
            _ring.opened += 1
            if _ring.forward is not None:
                self._enter_forwarded()
            self.begin = _clock_ns()
        return self

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        if self.generation == 0:
            if self.again is not None:
                again, self.again = self.again, None
                again.__exit__(kind, error, traceback)
            return
        self.end = _clock_ns()
        self.beside = False
        interrupted = None
        if self.forwarded is not None:
            interrupted = self._leave_forwarded(kind, error, traceback)
        if self.generation == _ring.generation:
            _ring.opened -= 1
            if _ring.enabled:
                if len(_ring.events) >= _ring.capacity:
                    _drop_oldest()
                self.kept = True
                _ring.append(self)
        self.generation = 0
        if interrupted is not None:
            raise interrupted

    def cancel(self) -> None:
        """Leave without being kept, as if it had not been entered."""
        if self.again is not None:
            again, self.again = self.again, None
            again.cancel()
        if self.generation != 0 and self.generation == _ring.generation:
            _ring.opened -= 1
        self.generation = 0
        if self.forwarded is not None:
            interrupted = self._leave_forwarded(None, None, None)
            if interrupted is not None:
                raise interrupted

    def set_metadata(self, **stats: object) -> None:
        """Add values while the annotation is open."""
        if self.again is not None:
            self.again.set_metadata(**stats)
        else:
            self.stats = {**self.stats, **stats}

    def _enter_forwarded(self) -> None:
        self.maker = _ring.forward
        try:
            forwarded = self.maker(self.name, self.stats)
            forwarded.__enter__()
            self.forwarded = forwarded
        except BaseException as fault:
            # Another recorder must not harm the program, whose own handlers may raise.
            self.forwarded = None
            if is_from_handler(fault):
                if self.generation == _ring.generation:
                    _ring.opened -= 1
                self.generation = 0
                raise

    def _leave_forwarded(
        self, kind: object, error: object, traceback: object
    ) -> BaseException | None:
        """Return what a signal handler raised meanwhile, which the caller raises."""
        forwarded, self.forwarded = self.forwarded, None
        interrupted = None
        try:
            forwarded.__exit__(kind, error, traceback)
            # Not where the other recorder stopped meanwhile: it may have lost it.
            self.beside = _ring.keeps and self.maker is _ring.forward
        except BaseException as fault:  # noqa: BLE001 - the caller raises the program's
            self.beside = False
            if is_from_handler(fault):
                interrupted = fault
        self.maker = None
        return interrupted

    def _add_to_rows(self, rows: Any) -> None:
        names, begin, end, thread, stats, beside = rows
        names.append(self.name)
        begin.append(self.begin)
        end.append(self.end)
        thread.append(self.thread)
        stats.append(self.stats)
        beside.append(self.beside)


@cython.cclass
class Collections:
    """A callback of garbage collections, which keeps when each began and ended.

    Python drops what a callback raises. Compiled, no signal handler of the program can
    run, and raise, within this one.
    """

    rows: Any
    capacity: cython.Py_ssize_t
    began: cython.longlong
    lost_rows: cython.longlong

    def __init__(self, capacity: int) -> None:
        """Keep at most this many collections until they are taken."""
        self.rows = deque()
        self.capacity = capacity
        self.began = 0
        self.lost_rows = 0

    def __call__(self, phase: str, info: dict[str, int]) -> None:
        moment: cython.longlong = _clock_ns()
        if phase == "start":
            self.began = moment
        elif self.began:
            if len(self.rows) >= self.capacity:
                self.lost_rows += 1
                return
            stats = {"generation": info["generation"], "collected": info["collected"]}
            self.rows.append((self.began, moment, _own_thread_id(), stats))
            self.began = 0

    def take(self) -> list[tuple[int, int, int, dict[str, int]]]:
        """Take begin, end, thread and values of those kept until now."""
        return [self.rows.popleft() for _ in range(len(self.rows))]

    def lost(self) -> int:
        """Return how many found no room."""
        count: int = self.lost_rows
        return count


def clock_ns() -> int:
    """Return nanoseconds of the clock that annotations are timed with."""
    moment: int = _clock_ns()
    return moment


def thread_id() -> int:
    """Return the system's id of the calling thread."""
    thread: int = _own_thread_id()
    return thread


def is_recording() -> bool:
    """Return whether annotations are kept."""
    return bool(_ring.enabled)


def start_recording(capacity: int) -> None:
    """Keep annotations from now on, at most this many until they are drained."""
    _ring.events.clear()
    _ring.capacity = max(1, capacity)
    _ring.lost = 0
    _ring.opened = 0
    _ring.step = None
    _ring.generation += 1
    _ring.enabled = True


def stop_recording() -> int:
    """Keep no more; return how many annotations are open, which will not be kept."""
    _ring.enabled = False
    _ring.forward = None
    opened: int = _ring.opened
    _ring.opened = 0
    # What is open now does not belong to the next recording.
    _ring.generation += 1
    return opened


def drain_annotations() -> Drained:
    """Take all that was kept until now; others may go on adding."""
    rows = Drained([], array("q"), array("q"), array("q"), [], bytearray())
    popleft = _ring.events.popleft
    for _ in range(len(_ring.events)):
        try:
            trace: Trace = popleft()
        except IndexError:
            # A thread that found the ring full took one meanwhile.
            break
        trace._add_to_rows(rows)  # noqa: SLF001 - its own module
    return rows


def count_lost() -> int:
    """Return how many annotations gave way since `enable` for want of draining."""
    count: int = _ring.lost
    return count


def set_forward(
    make: Callable[[str, dict[str, Any]], Any] | None, *, keeps: bool = True
) -> None:
    """Hand annotations on: `make(name, values)` gives a context manager; None ends it.

    Exceptions of `make` are dropped, and the annotation is not handed on; those that a
    signal handler of the program raised meanwhile are raised.

    Args:
        make: Called for each annotation.
        keeps: Whether the receiver keeps annotations in a recording of its own
            (`Drained.beside`).
    """
    _ring.forward = make
    _ring.keeps = keeps


def forget_parent() -> None:
    """Begin again in a child that was forked: nothing of the parent is kept there."""
    _ring.enabled = False
    _ring.lock = threading.Lock()
    _ring.events = deque()
    _ring.append = _ring.events.append
    _ring.lost = 0
    _ring.opened = 0
    _ring.forward = None
    _ring.step = None
    _ring.generation += 1
    _forget_thread()


def keep_annotation(name: str, begin_ns: int, end_ns: int, **stats: object) -> None:
    """Keep an annotation of this thread that is over; it is not handed on."""
    if not _ring.enabled:
        return
    over: Trace = Trace(name, **stats)
    over.begin = begin_ns
    over.end = end_ns
    over.thread = _own_thread_id()
    over.kept = True
    if len(_ring.events) >= _ring.capacity:
        _drop_oldest()
    _ring.append(over)


def mark_step(step: int, name: str = "train") -> None:
    """Begin step `step` here and end the step before it."""
    if not _ring.enabled:
        return
    begun: Trace = Trace(name, step_num=step, _r=1)
    before, _ring.step = _ring.step, begun
    if before is not None:
        before.__exit__(None, None, None)
    begun.__enter__()


def end_step() -> None:
    """End the step that `mark_step` began, if there is one."""
    before, _ring.step = _ring.step, None
    if before is not None:
        before.__exit__(None, None, None)


def thread_stacks(threads: Sequence[int]) -> list[Stack]:
    """Return what each thread runs, the outermost first; empty where it is gone.

    Of each the codes, and by code the offset of the instruction that runs.

    Compiled, no other thread gets the interpreter's lock in here. Before Python 3.12
    the making of an object may begin a garbage collection, whose callbacks would let go
    of it, and a frame that is being looked at would be gone: so none begins meanwhile.

    Args:
        threads: As `threading.get_ident` numbers them.
    """
    collects: cython.bint = gc.isenabled()
    if collects:
        gc.disable()
    try:
        found: list[Stack] = _stacks_of_threads(threads)
        return found
    finally:
        if collects:
            gc.enable()


@cython.cfunc
def _stacks_of_threads(threads: Sequence[int]) -> list[Stack]:
    # Frames are let go of before the next collection may begin.
    frames = sys._current_frames()  # noqa: SLF001 - the way that Python has for it
    return [_stack_from_frame(frames.get(thread)) for thread in threads]


@cython.cfunc
def _stack_from_frame(innermost: FrameType | None) -> Stack:
    frame: FrameType | None = innermost
    codes = []
    offsets = []
    while frame is not None:
        codes.append(frame.f_code)
        offsets.append(frame.f_lasti)
        frame = frame.f_back
    codes.reverse()
    offsets.reverse()
    return codes, offsets


def stacks_beside(threads: Collection[int]) -> dict[int, Stack]:
    """Return what other threads run that run Python now, by the system's ids.

    Each as `stacks_of` gives it.

    Only Linux tells the system's id of another thread; elsewhere none is found.

    Args:
        threads: The threads to leave out, as `threading.get_ident` numbers them.
    """
    if sys.platform != "linux":
        return {}
    collects: cython.bint = gc.isenabled()
    if collects:
        gc.disable()
    try:
        found: dict[int, Stack] = _stacks_of_others(threads)
        return found
    finally:
        if collects:
            gc.enable()


@cython.cfunc
def _stacks_of_others(threads: Collection[int]) -> dict[int, Stack]:
    frames = sys._current_frames()  # noqa: SLF001 - as above
    found = {}
    for thread, frame in frames.items():
        if thread not in threads:
            # The clock of a thread is numbered `~id << 3 | 6`. The thread cannot end
            # meanwhile: it is in Python, and needs the lock to leave.
            found[~(time.pthread_getcpuclockid(thread) >> 3)] = _stack_from_frame(frame)
    return found
