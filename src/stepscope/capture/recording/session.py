"""The one recording of a process: from its start to its file.

A recording never harms the program. What a collector raises, a full disk or a
directory that cannot be written to becomes a warning of the run; only a second start
and options that do not exist are errors, raised before anything begins.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import mmap
import os
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from stepscope import rundir
from stepscope._core import recorder
from stepscope.capture.collectors.registry import (
    COLLECTORS,
    BrokenCollector,
    make_collector,
)
from stepscope.capture.ground import annotate
from stepscope.capture.ground.clock import ClockPair
from stepscope.capture.ground.leaving import leaving
from stepscope.capture.ground.main_thread import MAIN_THREAD_S, at_safe_point
from stepscope.capture.ground.options import ProfilerOptions
from stepscope.capture.ground.run import Run, long_wait
from stepscope.capture.recording.under_way import UnderWay
from stepscope.errors import AlreadyRecording, BadUsage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from stepscope.capture.collectors.contract import Collector

_log: Final = logging.getLogger("stepscope")
#: How long an end waits for a beginning that was put off, and is called off.
_ENDS_WITHIN_S: Final = 1.0
_OURS: Final = str(Path(__file__).resolve().parents[1])


class StandBy(Protocol):
    """Who records while no recording was asked for, and gives way to one."""

    def pause_for_recording(self) -> None:
        """Record no more: a recording begins."""

    def resume_after_recording(self) -> None:
        """Record again: it has ended."""


class _Slot:
    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.session: Session | None = None
        self.stand_by: StandBy | None = None


_slot: Final = _Slot()


def current_session() -> Session | None:
    """Return the recording of this process that is under way."""
    return _slot.session


def set_stand_by(who: StandBy | None) -> None:
    """Have someone record next to recordings; None ends it."""
    _slot.stand_by = who


class Session:
    """A recording that is under way.

    Attributes:
        owner: File and line of the program that started it.
    """

    def __init__(
        self,
        logdir: Path,
        run: str,
        options: ProfilerOptions,
        *,
        parent: _Shared | None = None,
    ) -> None:
        self.logdir = logdir
        self.run = run
        self.options = options
        # Our own frames are not the program's.
        frame = sys._getframe()  # noqa: SLF001 - as tracebacks do
        while frame.f_back and frame.f_code.co_filename.startswith(_OURS):
            frame = frame.f_back
        self.owner = f"{frame.f_code.co_filename}:{frame.f_lineno}"
        self.began = ClockPair.now()
        self.shared = parent or _Shared(logdir, run, options)
        self._child = parent is not None
        self._under_way: UnderWay | None = None
        self._delay: threading.Timer | None = None
        #: What to say where nothing was recorded.
        self._nothing = (
            "recording was stopped before it began (delay_ms): nothing is left"
        )
        self._lock = threading.RLock()
        self._left: Run | None = None
        self._waited_s = 0.0
        self._leave: Callable[[], object] = self.stop

    @classmethod
    def start(
        cls,
        logdir: str | os.PathLike[str],
        options: ProfilerOptions | None = None,
        *,
        run: str | None = None,
        end: Callable[[], object] | None = None,
    ) -> Session:
        """Begin to record into `<logdir>/plugins/profile/<run>/`.

        Args:
            logdir: Is made where it does not exist.
            options: What to record; None means the defaults.
            run: Name of the run; several processes that are given one name are
                hosts of one run. None makes a new one.
            end: Called instead of `stop` when the process ends; it has to stop.

        Raises:
            AlreadyRecording: A recording of this process is under way; it goes on.
            BadUsage: A collector that was named does not exist or cannot record here.
        """
        options = options or ProfilerOptions()
        name = run or rundir.new_run_name(time.time())
        session = cls(Path(logdir).absolute(), name, options)
        session._leave = end or session.stop
        return session._start_collectors()

    def already(self) -> AlreadyRecording:
        """Return the error for whoever wants to record during this recording."""
        since = time.strftime("%H:%M:%S", time.localtime(self.began.wall_ns / 1e9))
        return AlreadyRecording.of(self.owner, since, self.logdir)

    def flush(self) -> None:
        """Store what was recorded until now, so that a kill spares it."""
        under_way = self._under_way
        if under_way is not None:
            with leaving.undisturbed():
                under_way.flusher.flush_collectors()

    @property
    def slowdown(self) -> float | None:
        """How much longer the program takes for noting calls; None if not known."""
        return None if self._under_way is None else self._under_way.slowdown

    def count_events(self) -> int:
        """Return how many events were recorded whose storing the program waits for."""
        with leaving.undisturbed(), self._lock:
            if self._left is not None or self._under_way is None:
                return 0
            return self._under_way.count_events()

    def tell(self, sentence: str) -> None:
        """Add a sentence to the warnings of the run, and of the file."""
        if self._under_way is not None:
            self._under_way.add_warning(sentence)

    def stop(self, *, save: bool = True) -> Run:
        """End, and write the file unless `save` is false; a second call gives that run.

        Collectors are stopped in reverse order. Whatever goes wrong, the process is
        free for the next recording afterwards.
        """
        end = functools.partial(UnderWay.end_collecting, to_file=save)
        left = self._end_once(end)
        # Out of the lock, for which the one that would have begun may be waiting.
        if self._delay not in (None, threading.current_thread()):
            self._delay.join(_ENDS_WITHIN_S)
        return left

    def drop(self) -> Run:
        """End without reading what was recorded, because nobody wants it.

        Returns:
            What an earlier end left; else nothing but warnings.
        """
        return self._end_once(UnderWay.drop_events)

    def drop_at_exit(self) -> None:
        """End as the process does: it is not kept for longer than a moment."""
        # Another thread may be ending it, which takes as long as it takes.
        if self._lock.acquire(timeout=_ENDS_WITHIN_S):
            try:
                self._end_once(UnderWay.drop_at_exit)
            finally:
                self._lock.release()

    def halt(self) -> None:
        """Record no more; `stop` has to follow, on any thread.

        PyTorch's profiler ends only on the thread that began it. What comes after, to
        read and to store what was recorded, needs no particular thread.
        """
        with leaving.undisturbed(), self._lock, self._noted_wait():
            if self._left is None and self._under_way is not None:
                self._under_way.halt_collectors()

    def _end_once(self, end: Callable[[UnderWay], Run]) -> Run:
        with leaving.undisturbed(), self._lock:
            if self._left is None:
                try:
                    with self._noted_wait():
                        self._left = self._end_under_way(end)
                finally:
                    self._free_slot()
                self._left = replace(self._left, waited_s=self._waited_s)
                remarks = () if self._under_way is None else self._under_way.remarks
                for sentence in (*self._left.warnings, long_wait(self._waited_s)):
                    if sentence is not None and sentence not in remarks:
                        _log.warning("stepscope: %s", sentence)
            return self._left

    @contextlib.contextmanager
    def _noted_wait(self) -> Iterator[None]:
        began_s = time.monotonic()
        try:
            yield
        finally:
            if threading.current_thread() is threading.main_thread():
                self._waited_s += time.monotonic() - began_s

    def _start_collectors(self) -> Session:
        try:
            with leaving.undisturbed():
                self._take_slot(choose_collectors(self.options))
            return self  # noqa: TRY300 - an interrupt here ends it too
        except BaseException:
            # An interrupt of the user's, or what a handler of the program raised
            # meanwhile: the process is free again.
            if _slot.session is self:
                self.drop()
            raise

    def _take_slot(self, collectors: Sequence[Collector]) -> None:
        with _slot.lock:
            if _slot.session is not None:
                raise _slot.session.already()
            _slot.session = self
        leaving.watch(end=self._leave, forked=self._abandon_in_child)
        if _slot.stand_by is not None:
            _slot.stand_by.pause_for_recording()
        if not self._child:
            # Annotations may be kept only to be heard of; those are not ours.
            recorder.stop_recording()
        if self.options.delay_ms:
            self._delay = threading.Timer(
                self.options.delay_ms / 1000, self._begin_later, (collectors,)
            )
            self._delay.daemon = True
            self._delay.name = "stepscope-delay"
            self._delay.start()
        else:
            self._begin_recording(collectors)

    def _free_slot(self) -> None:
        self.shared.mark_ended()
        leaving.forget()
        with _slot.lock:
            if _slot.session is not self:
                return
            _slot.session = None
        if _slot.stand_by is not None:
            _slot.stand_by.resume_after_recording()

    def _begin_later(self, collectors: Sequence[Collector]) -> None:
        begin = functools.partial(self._begin_recording, collectors)
        over = None if self._delay is None else self._delay.finished
        if not at_safe_point(begin, within_s=MAIN_THREAD_S, over=over):
            begin()

    def _begin_recording(self, collectors: Sequence[Collector]) -> None:
        with leaving.undisturbed(), self._lock:
            if self._left is not None:
                return
            try:
                self._under_way = UnderWay.begin_collecting(
                    self.logdir,
                    self.run,
                    self.options,
                    collectors,
                    ended=self.shared.has_ended if self._child else None,
                    end=self._stop_with_parent,
                )
                # Collectors and frameworks may have registered for the exit meanwhile.
                leaving.come_first()
            except Exception as error:  # noqa: BLE001 - the edge to the program
                self._nothing = f"nothing is recorded: {type(error).__name__}: {error}"
                _log.warning("stepscope: %s", self._nothing)

    def _end_under_way(self, end: Callable[[UnderWay], Run]) -> Run:
        if self._delay is not None:
            self._delay.cancel()
        if self._under_way is None:
            return Run(path=None, run=self.run, warnings=(self._nothing,))
        if leaving.by_signal:
            self._under_way.add_warning("SIGTERM ended the recording")
        try:
            return end(self._under_way)
        except Exception as error:  # noqa: BLE001 - the edge to the program
            lost = (
                f"the recording could not be ended ({type(error).__name__}: {error}); "
                f"what was stored meanwhile is in {self._under_way.spool}"
            )
            return Run(path=None, run=self.run, warnings=(lost,))

    def _stop_with_parent(self) -> None:
        """Called by the thread that flushes, for which a stop under way waits."""
        if self._lock.acquire(blocking=False):
            try:
                self.stop()
            finally:
                self._lock.release()

    def _abandon_in_child(self) -> None:
        """In a child: nothing of this recording is the child's."""
        _slot.lock = threading.RLock()
        _slot.session = None
        annotate.forget_forwards()
        recorder.forget_parent()
        if self._under_way is not None:
            self._under_way.leave_to_parent()
            annotate.at_first_annotation(self.shared.record_child)


class _Shared:
    def __init__(self, logdir: Path, run: str, options: ProfilerOptions) -> None:
        self._logdir = logdir
        self._run = run
        # What the framework's collectors need does not survive a fork.
        self._options = replace(options, collectors=("host",), delay_ms=None)
        self._owner = os.getpid()
        #: One byte that parent and children have in common.
        self._ended = mmap.mmap(-1, 1)

    def has_ended(self) -> bool:
        return self._ended[0] != 0

    def mark_ended(self) -> None:
        if os.getpid() == self._owner:
            self._ended[0] = 1

    def record_child(self) -> None:
        """Record this child into the parent's run, from its first annotation on."""
        if self.has_ended():
            recorder.stop_recording()
            return
        child = Session(self._logdir, self._run, self._options, parent=self)
        child._start_collectors()  # noqa: SLF001 - its own module
        # Children of multiprocessing end without the interpreter's exit functions.
        util = sys.modules.get("multiprocessing.util")
        if util is not None:
            util.Finalize(None, child.stop, exitpriority=0)


def choose_collectors(options: ProfilerOptions) -> tuple[Collector, ...]:
    """New collectors for a recording, in the order in which they are started."""
    asked = options.collectors
    if asked != "auto":
        for name in asked:
            if name not in COLLECTORS:
                raise BadUsage.unknown_name("collector", name, COLLECTORS)
    collectors: list[Collector] = []
    for name in COLLECTORS:
        if asked != "auto" and name not in asked:
            continue
        why_not = ""
        try:
            collector = make_collector(name)
            lacking = collector.why_unavailable()
            if lacking is None:
                collectors.append(collector)
            else:
                why_not = f"{lacking.reason} {lacking.remedy}"
        except Exception as error:  # noqa: BLE001 - a collector's edge
            why_not = f"{type(error).__name__}: {error}"
            collectors.append(BrokenCollector(name, error))
        if why_not and asked != "auto":
            raise BadUsage(f"the collector {name!r} cannot record here: {why_not}")
    return tuple(collectors)
