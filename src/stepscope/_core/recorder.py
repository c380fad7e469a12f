# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""Fast path of annotations: `Trace`, and the bounded ring of finished annotations.

A finished annotation is kept as the object itself, so recording adds only one entry to
the ring while the program runs. Each process has one ring. The ring never exceeds its
capacity: the oldest annotation is dropped and counted. `drain_annotations` may run in
another thread at any time. While recording is off, an annotation stores nothing.
`thread_stacks` and `stacks_beside` sample the stacks of threads: the code of each
function, and the offset of its current instruction. Line numbers are not read, because
Python searches its line table from the start, which costs more than the whole sample.

Times are nanoseconds of the monotonic clock (`clock_ns`), thread ids those of the OS.
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
        """Return the OS id of this thread, which is cached per thread."""
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
        """Do nothing, because uncompiled code caches no thread id."""


class Drained(NamedTuple):
    """Finished annotations as columns, in the order of their ends.

    Attributes:
        names: Name of each annotation.
        begin_ns: int64; begin of the annotation, in nanoseconds of `clock_ns`.
        end_ns: int64; end of the annotation, in nanoseconds of `clock_ns`.
        thread: int64; OS id of the annotation's thread.
        stats: Values of the annotation by name; empty if it has none.
        `beside`: 1 if the annotation was also forwarded to another recorder that
            recorded from its begin to its end.
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
    """Annotations of this process that wait to be drained, and the recording's state.

    Attributes:
        enabled: Whether annotations are recorded.
        generation: Counter of starts and stops of recording, from 1; an annotation that
            began under another value is not kept.
        opened: Number of annotations of this recording that have not ended.
        capacity: Maximum number of annotations that wait to be drained.
        lost: Number of annotations that were dropped because the ring was full.
        forward: Function of another recorder that makes a context manager of name and
            values; None without one.
        keeps: Whether the other recorder stores the annotations in a recording.
        step: Open annotation of the step that `mark_step` began.
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
    # Each thread that finds the ring full drops one annotation. The annotation is freed
    # outside the lock, because destroying its values may run code that annotates.
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

    An annotation costs almost nothing while recording is off. An object may be entered
    again after it was left; each use is recorded. Values are numbers, texts or bytes.
    Any other object is recorded as its type only, so that arrays are never read.
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

    def __enter__(self) -> Trace:  # noqa: PYI034 - Cython does not know Self
        if _ring.enabled:
            if self.kept:
                # The ring holds this object, so its times must not change.
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
        """End the annotation without recording it."""
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
        """Add values to the open annotation."""
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
            # Drop errors of the other recorder; raise those of signal handlers.
            self.forwarded = None
            if is_from_handler(fault):
                if self.generation == _ring.generation:
                    _ring.opened -= 1
                self.generation = 0
                raise

    def _leave_forwarded(
        self, kind: object, error: object, traceback: object
    ) -> BaseException | None:
        """End forwarding; return an exception of a signal handler, to be raised."""
        forwarded, self.forwarded = self.forwarded, None
        interrupted = None
        try:
            forwarded.__exit__(kind, error, traceback)
            # If the other recorder has stopped, it may have lost the annotation.
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
    """A callback for garbage collections that records when each began and ended.

    Python drops exceptions of this callback. In the compiled module no signal handler
    of the program runs inside the callback, so none of its exceptions is dropped.
    """

    rows: Any
    capacity: cython.Py_ssize_t
    began: cython.longlong
    lost_rows: cython.longlong

    def __init__(self, capacity: int) -> None:
        """Keep at most `capacity` collections until they are taken."""
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
        """Remove and return begin, end, thread and values of the kept collections."""
        return [self.rows.popleft() for _ in range(len(self.rows))]

    def lost(self) -> int:
        """Return the number of collections that were dropped for lack of capacity."""
        count: int = self.lost_rows
        return count


def clock_ns() -> int:
    """Return the time of the annotations' clock, in nanoseconds."""
    moment: int = _clock_ns()
    return moment


def thread_id() -> int:
    """Return the OS id of the calling thread."""
    thread: int = _own_thread_id()
    return thread


def is_recording() -> bool:
    """Return whether annotations are recorded."""
    return bool(_ring.enabled)


def start_recording(capacity: int) -> None:
    """Record annotations from now on; at most `capacity` of them wait to be drained."""
    _ring.events.clear()
    _ring.capacity = max(1, capacity)
    _ring.lost = 0
    _ring.opened = 0
    _ring.step = None
    _ring.generation += 1
    _ring.enabled = True


def stop_recording() -> int:
    """Stop recording and return the number of open annotations, which are discarded."""
    _ring.enabled = False
    _ring.forward = None
    opened: int = _ring.opened
    _ring.opened = 0
    # Annotations that are open now do not belong to the next recording.
    _ring.generation += 1
    return opened


def drain_annotations() -> Drained:
    """Remove and return all finished annotations; other threads may keep adding."""
    rows = Drained([], array("q"), array("q"), array("q"), [], bytearray())
    popleft = _ring.events.popleft
    for _ in range(len(_ring.events)):
        try:
            trace: Trace = popleft()
        except IndexError:
            # A thread that found the ring full has dropped an annotation meanwhile.
            break
        trace._add_to_rows(rows)  # noqa: SLF001 - its own module
    return rows


def count_lost() -> int:
    """Return how many annotations were dropped since `start_recording`."""
    count: int = _ring.lost
    return count


def set_forward(
    make: Callable[[str, dict[str, Any]], Any] | None, *, keeps: bool = True
) -> None:
    """Forward annotations to context managers of `make`; stop if `make` is None.

    Exceptions of `make` are dropped, and the annotation is not forwarded. Exceptions
    that a signal handler of the program raises during `make` are raised again.

    Args:
        make: Called with name and values of each annotation.
        keeps: Whether the receiver stores annotations in its own recording
            (`Drained.beside`).
    """
    _ring.forward = make
    _ring.keeps = keeps


def forget_parent() -> None:
    """Discard the parent's state in a forked child process."""
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
    """Record a past interval as an annotation of this thread; do not forward it."""
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
    """Begin step `step` and end the step before it."""
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
    """Return each thread's stack, outermost function first; empty if the thread ended.

    A stack has the code objects and, for each, the offset of the current instruction.

    In the compiled module no other thread gets the GIL during this call. Before Python
    3.12 creating an object may start a garbage collection, whose callbacks release the
    GIL; a frame that is being read could then be freed. So collections are disabled.

    Args:
        threads: Ids of `threading.get_ident`.
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
    # Frames are released before garbage collection is enabled again.
    frames = sys._current_frames()  # noqa: SLF001 - Python has no public function
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
    """Return the stacks of all Python threads except `threads`, by OS thread id.

    Each stack is as `thread_stacks` returns it.

    Only Linux reports the OS id of another thread; other systems get an empty result.

    Args:
        threads: Ids of `threading.get_ident`.
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
            # The CPU clock of a thread has the number `~id << 3 | 6`. The thread cannot
            # end meanwhile: it is in Python, and needs the GIL to leave.
            found[~(time.pthread_getcpuclockid(thread) >> 3)] = _stack_from_frame(frame)
    return found
