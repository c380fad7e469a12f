"""Interface of collectors, which connect sources of events to a recording."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol, runtime_checkable

if TYPE_CHECKING:
    from stepscope.capture.base.clock import ClockPair
    from stepscope.capture.base.options import ProfilerOptions
    from stepscope.capture.base.spool import Fragment
    from stepscope.unavailable import Unavailable


class Collected(NamedTuple):
    """Result of a collector.

    Attributes:
        xspace: A serialized XSpace; empty bytes if nothing was recorded. Times count
            from `profile_start_time` of its `Task Environment` plane, or, without that
            plane, from the clock passed to `start_collecting`.
        warnings: One sentence for each loss or ignored option.
        holds_annotations: Whether `xspace` contains the annotations that were forwarded
            to this collector (see `annotate.remove_forward`), with values and threads.
            If true, the host collector's copies of them are left out.
        remarks: Sentences about normal conditions, stored but not printed.
    """

    xspace: bytes
    warnings: tuple[str, ...] = ()
    holds_annotations: bool = False
    remarks: tuple[str, ...] = ()


class Collector(Protocol):
    """One source of events. Each recording creates a new collector object.

    Any exception of a collector becomes a warning of the recording and does not reach
    the program. Methods are called on the thread that starts and stops the recording.
    """

    name: str

    def why_unavailable(self) -> Unavailable | None:
        """Return None if recording is possible now; else the reason and a remedy.

        With `collectors="auto"` an unavailable collector is skipped. The reason for
        skipping is not a warning, because a program that does not use a framework lacks
        nothing. The method must import no module that the program has not imported.
        """
        return None

    def start_collecting(self, options: ProfilerOptions, clock: ClockPair) -> None:
        """Begin to record; `hand_over` warns about options that have no effect."""

    def hand_over(self) -> Collected:
        """Stop and return the result; must also succeed after a failed start."""


class ThreadCollector(Collector):
    """Base of collectors that record on a thread of their own.

    Attributes:
        activity: What the thread does, for the warning if an error ends it.
    """

    activity: ClassVar[str]

    def __init__(self) -> None:
        self._clock: ClockPair | None = None
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._failures: tuple[str, ...] = ()

    def record_until_stopped(self) -> None:
        """Record until `_stop` is set; called on the thread."""

    def halt_collecting(self) -> None:
        """Stop the thread; before that, no call can fail and leave it running."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _start_thread(self, name: str) -> None:
        thread = threading.Thread(
            target=self._record_until_error, name=f"stepscope-{name}", daemon=True
        )
        thread.start()
        self._thread = thread

    def _record_until_error(self) -> None:
        try:
            self.record_until_stopped()
        except Exception as error:  # noqa: BLE001 - an error of one collector
            text = f"{type(error).__name__}: {error}"
            self._failures = (f"{self.activity} ended early: {text}",)


@runtime_checkable
class Halting(Protocol):
    """A collector that can stop recording before it returns its result.

    All such collectors are halted before the first `hand_over`, so that no collector
    records how the events of another one are assembled.
    """

    def halt_collecting(self) -> None:
        """Stop recording; a second call does nothing.

        If the method raises, the events are lost, and `hand_over` is not called.
        """


@runtime_checkable
class Rehearsing(Protocol):
    """A collector that must know if its recording directly precedes another one."""

    def prepare_rehearsal(self) -> None:
        """Prepare for a recording that is dropped when the next one begins at once."""


@runtime_checkable
class Dropping(Protocol):
    """A collector that can stop without the cost of reading its events."""

    def drop_events(self) -> None:
        """Stop recording; called instead of `hand_over`, after `halt_collecting`."""


@runtime_checkable
class Exiting(Protocol):
    """A collector that is slow to stop, and need not stop when the process exits."""

    def leave_at_exit(self) -> None:
        """Abandon the recording: the process exits, and no other method is called."""


@runtime_checkable
class Streaming(Protocol):
    """A collector whose events are spooled while it records, so they survive a kill.

    `hand_over` does not return events that `take_fragment` has returned.
    """

    def take_fragment(self) -> Fragment:
        """Take the events recorded since the last call; empty bytes without new ones.

        Times count from the clock passed to `start_collecting`. Called on a different
        thread from `start_collecting`, but never by two threads at once.
        """


@runtime_checkable
class TracesPython(Protocol):
    """A collector whose framework can record Python calls itself.

    Only one tracer can use Python's profiling hook, so collectors that start later must
    not record Python calls.

    Attributes:
        traces_python: Whether the framework records Python calls; set at the start.
    """

    traces_python: bool
