"""A framework has one profiler, and it is the program's before it is ours.

Where the program starts it while we record with it, our part of the framework ends at
that moment and is kept; where it runs already, ours does not begin. Either is said in
one line. What else is recorded goes on.
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

from stepscope.capture.collectors.contract import Collected
from stepscope.capture.collectors.levels import (
    TracerLevels,
    level_warnings,
    levels_in_force,
)
from stepscope.capture.ground import annotate
from stepscope.capture.ground.encoding import OWN_THREADS
from stepscope.capture.ground.functions import replace_function
from stepscope.capture.ground.leaving import leaving
from stepscope.errors import NO_FRAME
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from stepscope.capture.ground.clock import ClockPair
    from stepscope.capture.ground.options import ProfilerOptions

_log: Final = logging.getLogger(__name__)
#: Profilers want to be started by the thread that imported their framework.
_BUSY: Final = (
    "its profiler is started by the main thread, which was busy outside of Python or "
    "importing when the recording began"
)


class OpenRecordings:
    """How to end each recording of a framework that is under way in this process.

    Stopping one may go wrong. A framework's profiler that stays on refuses the next
    recording, and one of PyTorch's brings the interpreter down when it exits.
    """

    def __init__(self) -> None:
        self._ends: list[tuple[int, Callable[[], object]]] = []
        self._at_exit = False

    def add_recording(self, end: Callable[[], object]) -> None:
        """Remember a recording that began."""
        if not self._at_exit:
            atexit.register(self.end_recordings)
            self._at_exit = True
        self._ends.append((os.getpid(), end))

    def forget_recording(self, end: Callable[[], object]) -> None:
        """Forget a recording, which ended as it should."""
        self._ends = [entry for entry in self._ends if entry[1] != end]

    def end_recordings(self) -> None:
        """End what is still under way, whatever that says; what it recorded is lost."""
        left, self._ends = self._ends, []
        for process, end in left:
            # A forked child has none of its parent's recordings.
            if process != os.getpid():
                continue
            try:
                end()
            except Exception as error:  # noqa: BLE001 - a collector's edge
                _log.debug("a recording that was left over: %s", error)


class Entrance(NamedTuple):
    """One way by which a program starts a framework's profiler itself.

    Attributes:
        owner: The module that the framework looks the function up in at every call.
        starts: What the function starts, for people.
    """

    owner: Any
    name: str
    starts: str


class GivesWay(abc.ABC):
    """What the collectors of frameworks share; each says how its own part is done.

    Attributes:
        name: The module that a program imports, too.
        no_profiler: Why some versions cannot be recorded, and the remedy.
        traces_python: Whether it notes Python's calls, which only one tracer can.
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
        self._kept: Collected | None = None
        self._undo: list[Callable[[], None]] = []

    def why_unavailable(self) -> Unavailable | None:
        """Return why the framework cannot be recorded; None where it can."""
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
                self._kept = Collected(b"", (text,))
                return
            # A thread of the program that enters now waits until ours has begun.
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
        """End the recording; once more does nothing."""
        self._end_unless_kept(self.halt_recording)

    def drop_events(self) -> None:
        """End the recording, and read nothing of it."""
        self._end_unless_kept(self.drop_recording)

    def leave_at_exit(self) -> None:
        """Let go of the recording at the end of the process, as fast as that goes."""
        self._end_unless_kept(self.leave_recording)

    def _end_unless_kept(self, end: Callable[[], None]) -> None:
        with self._own_calls:
            self._unguard_entrances()
            if self._kept is None:
                end()

    def hand_over(self) -> Collected:
        """End the recording; nothing was collected where none began."""
        with self._own_calls:
            self._unguard_entrances()
            kept, self._kept = self._kept, None
            return self.end_recording() if kept is None else kept

    @abc.abstractmethod
    def has_profiler(self) -> bool:
        """Return whether the framework, which is imported, can be recorded."""

    @abc.abstractmethod
    def begin_recording(self, options: ProfilerOptions, clock: ClockPair) -> None:
        """Begin to record."""

    @abc.abstractmethod
    def halt_recording(self) -> None:
        """Record no more; once more does nothing."""

    @abc.abstractmethod
    def end_recording(self) -> Collected:
        """Halt, and hand over; nothing was collected where nothing had begun."""

    def drop_recording(self) -> None:
        """Halt, and forget what was recorded."""
        self.halt_recording()

    @abc.abstractmethod
    def leave_recording(self) -> None:
        """Let go of what was recorded: the process ends."""

    @abc.abstractmethod
    def list_entrances(self) -> Iterable[Entrance]:
        """Yield the ways in that this version of the framework has."""

    @abc.abstractmethod
    def program_profiler(self) -> str | None:
        """Return which profiler of the program's own runs now, for people."""

    def _give_way(self, to: str) -> None:
        # A forked child has none of its parent's recordings.
        if os.getpid() != self._process:
            return
        with leaving.undisturbed(), self._own_calls:
            if self._beginning or self._kept is not None or not self._undo:
                return
            recorded_s = time.monotonic() - self._began_s
            try:
                ended = self.end_recording()
            except Exception as error:  # noqa: BLE001 - the edge to the program
                lost = (
                    f"what {self.framework} recorded is lost: "
                    f"{type(error).__name__}: {error}"
                )
                ended = Collected(b"", (lost,))
            why = (
                f"the program started {to}: {self.framework} was recorded until then, "
                f"for {recorded_s:.1f} s; annotations and counters went on"
            )
            self._kept = ended._replace(warnings=(why, *ended.warnings))

    def _guard_entrance(self, entrance: Entrance) -> Callable[[], None] | None:
        owner, name, starts = entrance
        original = getattr(owner, name, None)
        if original is None:
            return None

        # Of a class it has the attributes too, for whoever looks at them.
        @functools.wraps(original)
        def enter_and_give_way(*args: Any, **kwargs: Any) -> Any:
            self._give_way(starts)
            with NO_FRAME:
                return original(*args, **kwargs)

        return replace_function(owner, name, enter_and_give_way)

    def _unguard_entrances(self) -> None:
        undone, self._undo = self._undo, []
        for undo in undone:
            undo()


class FrameworkRecording(Protocol):
    """A recording of a framework whose profiler gives an XSpace."""

    def stop_session(self) -> bytes:
        """End it and return a serialized XSpace."""

    def leave_session(self) -> None:
        """Let go of it as the process ends; read nothing where the framework can."""


class GivesXSpace(GivesWay):
    """What the collectors share whose framework gives an XSpace, annotations in it."""

    def __init__(self) -> None:
        super().__init__()
        self._recording: FrameworkRecording | None = None
        self._was_given = False
        self._xspace: bytes | None = None
        self._asked = TracerLevels(host=2, device=1, python=0)
        self._warnings: list[str] = []

    @abc.abstractmethod
    def open_recording(
        self, asked: TracerLevels, options: ProfilerOptions
    ) -> FrameworkRecording:
        """Begin a recording of the framework's."""

    @staticmethod
    @abc.abstractmethod
    def make_annotation(name: str, stats: Mapping[str, object]) -> Any:
        """Return the framework's own annotation."""

    def begin_recording(self, options: ProfilerOptions, clock: ClockPair) -> None:
        """Begin to record, and hand annotations on."""
        del clock
        self._warnings = []
        self._asked = TracerLevels.asked(options)
        self._recording = self.open_recording(self._asked, options)
        self.left_over.add_recording(self._recording.stop_session)
        annotate.add_forward(self.make_annotation)

    def halt_recording(self) -> None:
        """Record no more, and keep what was recorded."""
        self._was_given |= annotate.remove_forward(self.make_annotation)
        recording, self._recording = self._recording, None
        if recording is not None:
            self._xspace = recording.stop_session()
            self.left_over.forget_recording(recording.stop_session)

    def leave_recording(self) -> None:
        """Let go of what was recorded: the process ends."""
        annotate.remove_forward(self.make_annotation)
        recording, self._recording = self._recording, None
        if recording is not None:
            self.left_over.forget_recording(recording.stop_session)
            recording.leave_session()

    def end_recording(self) -> Collected:
        """Halt, and hand over with what is to be said of the levels in force."""
        self.halt_recording()
        xspace = self._xspace
        if xspace is None:
            return Collected(b"", tuple(self._warnings))
        levels = levels_in_force(xspace)
        differ = level_warnings(self.framework, self._asked, levels)
        # Annotations are critical: any host level but 0 records them.
        holds = self._was_given and levels is not None and levels.host > 0
        return Collected(xspace, (*self._warnings, *differ), holds)
