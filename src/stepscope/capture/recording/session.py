"""The recording of a process, from its start to its file; only one runs at a time.

A recording never fails the program. An exception of a collector, a full disk or a
read-only directory becomes a warning of the run. Only a second recording and unknown
options are errors, which are raised before anything starts.
"""

from __future__ import annotations

import contextlib
import functools
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
from stepscope.capture.base import annotate
from stepscope.capture.base.clock import ClockPair
from stepscope.capture.base.main_thread import MAIN_THREAD_S, at_safe_point
from stepscope.capture.base.options import ProfilerOptions
from stepscope.capture.base.process_end import process_end
from stepscope.capture.base.program_log import log_line
from stepscope.capture.base.run import Run, long_wait
from stepscope.capture.collectors.contract import Rehearsing
from stepscope.capture.collectors.registry import (
    COLLECTORS,
    BrokenCollector,
    make_collector,
)
from stepscope.capture.recording.running import UnderWay
from stepscope.errors import AlreadyRecording, BadUsage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from stepscope.capture.collectors.contract import Collector

#: Maximum seconds that `stop` waits for the cancelled thread of a delayed start.
_ENDS_WITHIN_S: Final = 1.0
_CAPTURE_FOLDER: Final = str(Path(__file__).resolve().parents[1])


class StandBy(Protocol):
    """A recorder that runs between recordings, such as the flight recorder."""

    def pause_for_recording(self) -> None:
        """Stop recording, because another recording begins."""

    def resume_after_recording(self) -> None:
        """Record again, because the other recording has ended."""


class _Slot:
    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.session: Session | None = None
        self.stand_by: StandBy | None = None


_slot: Final = _Slot()


def current_session() -> Session | None:
    """Return the recording in progress in this process."""
    return _slot.session


def set_stand_by(flight: StandBy | None) -> None:
    """Set the recorder that runs between recordings; None removes it."""
    _slot.stand_by = flight


class Session:
    """A recording in progress.

    Attributes:
        owner: File and line of the program that started the recording.
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
        frame = sys._getframe()  # noqa: SLF001 - the only way to get the caller's frame
        while frame.f_back and frame.f_code.co_filename.startswith(_CAPTURE_FOLDER):
            frame = frame.f_back
        self.owner = f"{frame.f_code.co_filename}:{frame.f_lineno}"
        self.began = ClockPair.now()
        self.shared = parent or _Shared(logdir, run, options)
        self._child = parent is not None
        self._under_way: UnderWay | None = None
        self._delay: threading.Timer | None = None
        #: Warning of the run if nothing was recorded.
        self._nothing = (
            "recording was stopped before it began (delay_ms): nothing was recorded"
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
        rehearsal: bool = False,
    ) -> Session:
        """Start a recording into `<logdir>/plugins/profile/<run>/`.

        Args:
            logdir: Log directory; created if it does not exist.
            options: What to record; None for the defaults.
            run: Name of the run; its processes are its hosts. None creates a new name.
            end: Called instead of `stop` when the process ends; must call `stop`.
            rehearsal: Whether the recording is dropped when another one begins at once.

        Raises:
            AlreadyRecording: Another recording of this process continues.
            BadUsage: A named collector does not exist or cannot record here.
        """
        options = options or ProfilerOptions()
        name = run or rundir.new_run_name(time.time())
        session = cls(Path(logdir).absolute(), name, options)
        session._leave = end or (session.drop if rehearsal else session.stop)
        return session._start_collectors(rehearsal=rehearsal)

    def already(self) -> AlreadyRecording:
        """Return the error for a second recording during this one."""
        since = time.strftime("%H:%M:%S", time.localtime(self.began.wall_ns / 1e9))
        return AlreadyRecording.of(self.owner, since, self.logdir)

    def flush(self) -> None:
        """Store the events so far, so that they survive a kill of the process."""
        under_way = self._under_way
        if under_way is not None:
            with process_end.undisturbed():
                under_way.flusher.flush_collectors()

    @property
    def slowdown(self) -> float | None:
        """Slowdown of the program by recording Python calls; None if unknown."""
        return None if self._under_way is None else self._under_way.slowdown

    def tell(self, sentence: str) -> None:
        """Add a sentence to the warnings of the run and of its file."""
        if self._under_way is not None:
            self._under_way.add_warning(sentence)

    def stop(self, *, save: bool = True) -> Run:
        """Stop the recording, and write its file if `save` is true.

        A second call returns the same run. Collectors are stopped in reverse order.
        After any error the process can still start another recording.
        """
        end = functools.partial(UnderWay.end_collecting, to_file=save)
        left = self._end_once(end)
        # Do not hold the lock during the join: the thread may be waiting for it.
        if self._delay not in (None, threading.current_thread()):
            self._delay.join(_ENDS_WITHIN_S)
        return left

    def drop(self) -> Run:
        """Stop the recording and discard its events without reading them.

        Returns:
            The run of an earlier `stop`; if there was none, a run with only warnings.
        """
        return self._end_once(UnderWay.drop_events)

    def drop_at_exit(self) -> None:
        """Discard the recording at the end of the process, without delaying it."""
        # Another thread may be stopping the recording, which may take long.
        if self._lock.acquire(timeout=_ENDS_WITHIN_S):
            try:
                self._end_once(UnderWay.drop_at_exit)
            finally:
                self._lock.release()

    def halt(self) -> None:
        """Record nothing more; `stop` must follow, from any thread.

        PyTorch's profiler can only be stopped by the thread that started it. Reading
        and storing the recorded events works on any thread.
        """
        with process_end.undisturbed(), self._lock, self._noted_wait():
            if self._left is None and self._under_way is not None:
                self._under_way.halt_collectors()

    def _end_once(self, end: Callable[[UnderWay], Run]) -> Run:
        with process_end.undisturbed(), self._lock:
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
                        log_line(sentence)
            return self._left

    @contextlib.contextmanager
    def _noted_wait(self) -> Iterator[None]:
        began_s = time.monotonic()
        try:
            yield
        finally:
            if threading.current_thread() is threading.main_thread():
                self._waited_s += time.monotonic() - began_s

    def _start_collectors(self, *, rehearsal: bool = False) -> Session:
        try:
            with process_end.undisturbed():
                collectors = choose_collectors(self.options)
                for collector in collectors:
                    if rehearsal and isinstance(collector, Rehearsing):
                        collector.prepare_rehearsal()
                self._take_slot(collectors)
            return self  # noqa: TRY300 - an interrupt before the return is handled too
        except BaseException:
            # Free the process after an interrupt by the user or an exception of one of
            # the program's signal handlers.
            if _slot.session is self:
                self.drop()
            raise

    def _take_slot(self, collectors: Sequence[Collector]) -> None:
        with _slot.lock:
            if _slot.session is not None:
                raise _slot.session.already()
            _slot.session = self
        process_end.watch(end=self._leave, forked=self._abandon_in_child)
        if _slot.stand_by is not None:
            _slot.stand_by.pause_for_recording()
        if not self._child:
            # The recorder may have run only for its listeners; drop those annotations.
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
        process_end.forget()
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
        with process_end.undisturbed(), self._lock:
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
                # Collectors and frameworks may have registered exit handlers meanwhile.
                process_end.come_first()
            except Exception as error:  # noqa: BLE001 - must not fail the program
                self._nothing = f"nothing is recorded: {type(error).__name__}: {error}"
                log_line(self._nothing)

    def _end_under_way(self, end: Callable[[UnderWay], Run]) -> Run:
        if self._delay is not None:
            self._delay.cancel()
        if self._under_way is None:
            return Run(path=None, run=self.run, warnings=(self._nothing,))
        if process_end.by_signal:
            self._under_way.add_warning("SIGTERM ended the recording")
        try:
            return end(self._under_way)
        except Exception as error:  # noqa: BLE001 - must not fail the program
            lost = (
                f"the recording could not be ended ({type(error).__name__}: {error}); "
                f"the events stored so far are in {self._under_way.spool}"
            )
            return Run(path=None, run=self.run, warnings=(lost,))

    def _stop_with_parent(self) -> None:
        """Stop the recording, called by the flush thread of a forked child."""
        if self._lock.acquire(blocking=False):
            try:
                self.stop()
            finally:
                self._lock.release()

    def _abandon_in_child(self) -> None:
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
        # Collectors of frameworks do not work after a fork.
        self._options = replace(options, collectors=("host",), delay_ms=None)
        self._owner = os.getpid()
        #: One byte of memory shared by the parent and its children.
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
        child._start_collectors()  # noqa: SLF001 - the same class
        # Children of `multiprocessing` exit without `atexit` handlers.
        util = sys.modules.get("multiprocessing.util")
        if util is not None:
            util.Finalize(None, child.stop, exitpriority=0)


def choose_collectors(options: ProfilerOptions) -> tuple[Collector, ...]:
    """Return new collectors for a recording, in the order of their start."""
    names = options.collectors
    if names != "auto":
        for name in names:
            if name not in COLLECTORS:
                raise BadUsage.unknown_name("collector", name, COLLECTORS)
    collectors: list[Collector] = []
    for name in COLLECTORS:
        if names != "auto" and name not in names:
            continue
        why_not = ""
        try:
            collector = make_collector(name)
            lacking = collector.why_unavailable()
            if lacking is None:
                collectors.append(collector)
            else:
                why_not = f"{lacking.reason} {lacking.remedy}"
        except Exception as error:  # noqa: BLE001 - any collector may fail
            why_not = f"{type(error).__name__}: {error}"
            collectors.append(BrokenCollector(name, error))
        if why_not and names != "auto":
            raise BadUsage(f"the collector {name!r} cannot record here: {why_not}")
    return tuple(collectors)
