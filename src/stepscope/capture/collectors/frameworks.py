"""Sharing a framework's single profiler with the program, which has priority.

If the program starts the framework's profiler during a recording, the recording of the
framework ends at that moment and is kept. If the program's profiler already runs, the
recording of the framework does not begin. In both cases the recording has a warning.
"""

from __future__ import annotations

import abc
import atexit
import functools
import logging
import os
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, Protocol

from stepscope.capture.base import annotate
from stepscope.capture.base.encoding import OWN_THREADS
from stepscope.capture.base.functions import replace_function
from stepscope.capture.base.process_end import process_end
from stepscope.capture.collectors.contract import Collected
from stepscope.capture.collectors.levels import (
    TracerLevels,
    level_warnings,
    levels_in_force,
)
from stepscope.errors import NO_FRAME
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from stepscope.capture.base.clock import ClockPair
    from stepscope.capture.base.options import ProfilerOptions

_log: Final = logging.getLogger(__name__)
#: Error text: a profiler must start on the thread that imported its framework.
_BUSY: Final = (
    "its profiler must start on the main thread, which was busy outside of Python or "
    "importing when the recording began"
)


class OpenRecordings:
    """The stop functions of framework recordings in progress in this process.

    Stopping a recording may fail. A framework's profiler that stays on refuses the next
    recording. PyTorch's also crashes the interpreter at exit.
    """

    def __init__(self) -> None:
        self._ends: list[tuple[int, Callable[[], object]]] = []
        self._at_exit = False

    def add_recording(self, end: Callable[[], object]) -> None:
        """Register the stop function of a recording that began."""
        if not self._at_exit:
            atexit.register(self.end_recordings)
            self._at_exit = True
        self._ends.append((os.getpid(), end))

    def forget_recording(self, end: Callable[[], object]) -> None:
        """Unregister a recording that ended normally."""
        self._ends = [entry for entry in self._ends if entry[1] != end]

    def end_recordings(self) -> None:
        """Stop all registered recordings, ignoring errors; their events are lost."""
        left, self._ends = self._ends, []
        for process, end in left:
            # A forked child does not continue the recordings of its parent.
            if process != os.getpid():
                continue
            try:
                end()
            except Exception as error:  # noqa: BLE001 - an error of one collector
                _log.debug("a recording that was left over: %s", error)


class Entrance(NamedTuple):
    """A function by which a program itself starts a framework's profiler.

    Attributes:
        owner: Module in which the framework looks the function up at each call.
        starts: Name of the profiler that the function starts, for messages.
    """

    owner: Any
    name: str
    starts: str


class Framework(abc.ABC):
    """Base of the framework collectors; subclasses implement the framework's part.

    Attributes:
        name: Name of the collector and of the framework's module.
        no_profiler: Reason and remedy for versions that cannot be recorded.
        traces_python: Whether this collector records Python calls; only one tracer can.
    """

    name: str
    framework: ClassVar[str]
    no_profiler: ClassVar[tuple[str, str]]
    left_over: ClassVar[OpenRecordings]

    def __init__(self) -> None:
        self.traces_python = False
        self._own_calls = threading.RLock()
        self._beginning = False
        self._process = os.getpid()
        self._began_s = 0.0
        self._collected: Collected | None = None
        self._undo: list[Callable[[], None]] = []

    def why_unavailable(self) -> Unavailable | None:
        """Return why the framework cannot be recorded; None if it can."""
        if self.name not in sys.modules:
            reason = f"The program has not imported {self.framework}."
            remedy = f"Import {self.name} before the recording starts."
        elif not self.has_profiler():
            reason, remedy = self.no_profiler
        else:
            return None
        return Unavailable(code="NOT_RECORDED", reason=reason, remedy=remedy)

    def start_collecting(self, options: ProfilerOptions, clock: ClockPair) -> None:
        """Begin to record, unless the program's own profiler runs."""
        with self._own_calls:
            self.left_over.end_recordings()
            runs = self.program_profiler()
            is_busy = threading.current_thread().name.startswith(OWN_THREADS)
            if runs is not None or is_busy:
                why_not = _BUSY if runs is None else f"{runs} runs already"
                text = f"{self.framework} was not recorded: {why_not}"
                self._collected = Collected(b"", (text,))
                return
            # A call of the program's profiler now waits until this start is complete.
            self._beginning = True
            try:
                self._undo = [
                    undo
                    for entrance in self.list_entrances()
                    if (undo := self._guard_entrance(entrance)) is not None
                ]
                self.begin_recording(options, clock)
            except BaseException:
                self._unguard_entrances()
                raise
            finally:
                self._beginning = False
            self._began_s = time.monotonic()

    def halt_collecting(self) -> None:
        """Stop the recording; a second call does nothing."""
        self._end_unless_kept(self.halt_recording)

    def drop_events(self) -> None:
        """Stop the recording without reading its events."""
        self._end_unless_kept(self.drop_recording)

    def leave_at_exit(self) -> None:
        """Abandon the recording at the end of the process, as fast as possible."""
        self._end_unless_kept(self.leave_recording)

    def _end_unless_kept(self, end: Callable[[], None]) -> None:
        with self._own_calls:
            self._unguard_entrances()
            if self._collected is None:
                end()

    def hand_over(self) -> Collected:
        """Stop the recording and return it; empty if none began."""
        with self._own_calls:
            self._unguard_entrances()
            collected, self._collected = self._collected, None
            return self.end_recording() if collected is None else collected

    @abc.abstractmethod
    def has_profiler(self) -> bool:
        """Return whether the imported framework can be recorded."""

    @abc.abstractmethod
    def begin_recording(self, options: ProfilerOptions, clock: ClockPair) -> None:
        """Begin to record."""

    @abc.abstractmethod
    def halt_recording(self) -> None:
        """Stop recording; a second call does nothing."""

    @abc.abstractmethod
    def end_recording(self) -> Collected:
        """Halt and return the recording; empty if none had begun."""

    def drop_recording(self) -> None:
        """Halt and discard the recorded events."""
        self.halt_recording()

    @abc.abstractmethod
    def leave_recording(self) -> None:
        """Abandon the recorded events, because the process ends."""

    @abc.abstractmethod
    def list_entrances(self) -> Iterable[Entrance]:
        """Yield the functions that start the profiler in this framework version."""

    @abc.abstractmethod
    def program_profiler(self) -> str | None:
        """Return the name of the program's own profiler that runs now, or None."""

    def _yield_to_program(self, to: str) -> None:
        # A forked child does not continue the recordings of its parent.
        if os.getpid() != self._process:
            return
        with process_end.undisturbed(), self._own_calls:
            if self._beginning or self._collected is not None or not self._undo:
                return
            recorded_s = time.monotonic() - self._began_s
            try:
                ended = self.end_recording()
            except Exception as error:  # noqa: BLE001 - an error must not reach the program
                lost = (
                    f"the recording of {self.framework} is lost: "
                    f"{type(error).__name__}: {error}"
                )
                ended = Collected(b"", (lost,))
            warning = (
                f"the program started {to}: {self.framework} was recorded until then, "
                f"for {recorded_s:.1f} s; annotations and counters continued"
            )
            self._collected = ended._replace(warnings=(warning, *ended.warnings))

    def _guard_entrance(self, entrance: Entrance) -> Callable[[], None] | None:
        owner, name, starts = entrance
        original = getattr(owner, name, None)
        if original is None:
            return None

        # `wraps` also copies the attributes of a class, for code that reads them.
        @functools.wraps(original)
        def enter_and_give_way(*args: Any, **kwargs: Any) -> Any:
            self._yield_to_program(starts)
            with NO_FRAME:
                return original(*args, **kwargs)

        return replace_function(owner, name, enter_and_give_way)

    def _unguard_entrances(self) -> None:
        undone, self._undo = self._undo, []
        for undo in undone:
            undo()


class FrameworkRecording(Protocol):
    """A recording by a framework's profiler that returns an XSpace."""

    def stop_session(self) -> bytes:
        """Stop the recording and return a serialized XSpace."""

    def leave_session(self) -> None:
        """Abandon the recording as the process ends, if possible without reading it."""


class XSpaceCollector(Framework):
    """Base of collectors whose framework returns an XSpace with annotations."""

    def __init__(self) -> None:
        super().__init__()
        self._recording: FrameworkRecording | None = None
        self._was_given = False
        self._xspace: bytes | None = None
        self._requested = TracerLevels(host=2, device=1, python=0)
        self._warnings: list[str] = []

    @abc.abstractmethod
    def open_recording(
        self, levels: TracerLevels, options: ProfilerOptions
    ) -> FrameworkRecording:
        """Begin a recording by the framework's profiler."""

    @staticmethod
    @abc.abstractmethod
    def make_annotation(name: str, stats: Mapping[str, object]) -> Any:
        """Return the framework's own annotation object."""

    def begin_recording(self, options: ProfilerOptions, clock: ClockPair) -> None:
        """Begin to record, and forward annotations to the framework."""
        del clock
        self._warnings = []
        self._requested = TracerLevels.asked(options)
        self._recording = self.open_recording(self._requested, options)
        self.left_over.add_recording(self._recording.stop_session)
        annotate.add_forward(self.make_annotation)

    def halt_recording(self) -> None:
        """Stop recording and keep the recorded events."""
        self._was_given |= annotate.remove_forward(self.make_annotation)
        recording, self._recording = self._recording, None
        if recording is not None:
            self._xspace = recording.stop_session()
            self.left_over.forget_recording(recording.stop_session)

    def leave_recording(self) -> None:
        """Abandon the recorded events, because the process ends."""
        annotate.remove_forward(self.make_annotation)
        recording, self._recording = self._recording, None
        if recording is not None:
            self.left_over.forget_recording(recording.stop_session)
            recording.leave_session()

    def end_recording(self) -> Collected:
        """Halt and return the recording, with warnings about its tracer levels."""
        self.halt_recording()
        xspace = self._xspace
        if xspace is None:
            return Collected(b"", tuple(self._warnings))
        levels = levels_in_force(xspace)
        differ = level_warnings(self.framework, self._requested, levels)
        # Annotations are critical events: every host level above 0 records them.
        holds = self._was_given and levels is not None and levels.host > 0
        return Collected(xspace, (*self._warnings, *differ), holds)
