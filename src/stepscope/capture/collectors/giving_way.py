"""A framework has one profiler, and it is the program's before it is ours.

Where the program starts it while we record with it, our part of the framework ends at
that moment and is kept; where it runs already, ours does not begin. Either is said in
one line. What else is recorded goes on.
"""

from __future__ import annotations

import abc
import functools
import os
import threading
import time
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, Protocol

from stepscope.capture.collectors.contract import Collected
from stepscope.capture.ground.encoding import OWN_THREADS
from stepscope.capture.ground.leaving import leaving
from stepscope.errors import NO_FRAME

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from stepscope.capture.collectors.left_over import OpenRecordings
    from stepscope.capture.ground.clock import ClockPair
    from stepscope.capture.ground.options import ProfilerOptions

#: Profilers want to be started by the thread that imported their framework.
_BUSY: Final = (
    "its profiler is started by the main thread, which was busy outside of Python or "
    "importing when the recording began"
)


class FrameworkRecording(Protocol):
    """A recording of a framework whose profiler gives an XSpace."""

    def stop(self) -> bytes:
        """End it and return a serialized XSpace."""

    def leave(self) -> None:
        """Let go of it as the process ends; read nothing where the framework can."""


class Entrance(NamedTuple):
    """One way by which a program starts a framework's profiler itself.

    Attributes:
        owner: The module that the framework looks the function up in at every call.
        name: Name of the function in that module.
        starts: What the function starts, for people.
    """

    owner: Any
    name: str
    starts: str


class GivesWay(abc.ABC):
    """What the collectors of frameworks share; each says how its own part is done.

    Attributes:
        framework: Name of the framework, for people.
        left_over: Recordings of ours that nobody ended.
        traces_python: Whether it notes Python's calls, which only one tracer can.
    """

    framework: ClassVar[str]
    left_over: ClassVar[OpenRecordings]

    def __init__(self) -> None:
        self.traces_python = False
        self._own_calls = threading.RLock()
        self._beginning = False
        self._process = os.getpid()
        self._began_s = 0.0
        self._kept: Collected | None = None
        self._undo: list[Callable[[], None]] = []

    def start(self, options: ProfilerOptions, clock: ClockPair) -> None:
        """Begin to record, unless the program's own profiler runs.

        Raises:
            Exception: The framework refuses.
        """
        with self._own_calls:
            self.left_over.end_all()
            why_not = self._why_not()
            if why_not is not None:
                said = f"{self.framework} was not recorded: {why_not}"
                self._kept = Collected(b"", (said,))
                return
            # A thread of the program that enters now waits until ours has begun.
            self._beginning = True
            try:
                self._undo = [self._guarded(it) for it in self._entrances()]
                self._begin(options, clock)
            except BaseException:
                self._unguard()
                raise
            finally:
                self._beginning = False
            self._began_s = time.monotonic()

    def halt(self) -> None:
        """End the recording; once more does nothing.

        Raises:
            Exception: The framework lost what it had recorded.
        """
        with self._own_calls:
            self._unguard()
            if self._kept is None:
                self._halt()

    def stop(self) -> Collected:
        """End the recording; nothing was collected where none began.

        Raises:
            Exception: The framework lost what it had recorded.
        """
        with self._own_calls:
            self._unguard()
            kept, self._kept = self._kept, None
            return self._end() if kept is None else kept

    def drop(self) -> None:
        """End the recording, and read nothing of it.

        Raises:
            Exception: The framework refuses.
        """
        with self._own_calls:
            self._unguard()
            if self._kept is None:
                self._drop()

    def exit(self) -> None:
        """Let go of the recording at the end of the process, as fast as that goes.

        Raises:
            Exception: The framework refuses.
        """
        with self._own_calls:
            self._unguard()
            if self._kept is None:
                self._exit()

    @abc.abstractmethod
    def _begin(self, options: ProfilerOptions, clock: ClockPair) -> None:
        """Begin to record."""

    @abc.abstractmethod
    def _halt(self) -> None:
        """Record no more; once more does nothing."""

    @abc.abstractmethod
    def _end(self) -> Collected:
        """Halt, and hand over; nothing was collected where nothing had begun."""

    def _drop(self) -> None:
        """Halt, and forget what was recorded."""
        self._halt()

    @abc.abstractmethod
    def _exit(self) -> None:
        """Let go of what was recorded: the process ends."""

    @abc.abstractmethod
    def _entrances(self) -> Iterable[Entrance]:
        """Yield the ways in that this version of the framework has."""

    @abc.abstractmethod
    def _programs_own(self) -> str | None:
        """Return which profiler of the program's own runs now, for people."""

    def _why_not(self) -> str | None:
        """Return why ours is not to begin now; None where it may."""
        runs = self._programs_own()
        if runs is not None:
            return f"{runs} runs already"
        if threading.current_thread().name.startswith(OWN_THREADS):
            return _BUSY
        return None

    def _give_way(self, to: str) -> None:
        # A forked child has none of its parent's recordings.
        if os.getpid() != self._process:
            return
        with leaving.undisturbed(), self._own_calls:
            if self._beginning or self._kept is not None or not self._undo:
                return
            recorded_s = time.monotonic() - self._began_s
            try:
                ended = self._end()
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

    def _guarded(self, entrance: Entrance) -> Callable[[], None]:
        """Give way whenever the program comes in here; what ends it."""
        owner, name, starts = entrance
        original = getattr(owner, name, None)
        if original is None:
            return _nothing

        # Of a class it has the attributes too, for whoever looks at them.
        @functools.wraps(original)
        def entered(*args: Any, **kwargs: Any) -> Any:
            self._give_way(starts)
            with NO_FRAME:
                return original(*args, **kwargs)

        setattr(owner, name, entered)

        def undo() -> None:
            # Somebody may have put something else there.
            if getattr(owner, name) is entered:
                setattr(owner, name, original)

        return undo

    def _unguard(self) -> None:
        undone, self._undo = self._undo, []
        for undo in undone:
            undo()


def _nothing() -> None:
    pass
