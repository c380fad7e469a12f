"""What a collector is: the one door between a source of events and a recording."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

if TYPE_CHECKING:
    from stepscope.capture.ground.clock import ClockPair
    from stepscope.capture.ground.options import ProfilerOptions
    from stepscope.capture.ground.spool import Fragment
    from stepscope.unavailable import Unavailable


class Collected(NamedTuple):
    """What a collector recorded.

    Attributes:
        xspace: A serialized XSpace. Times of its lines count from
            `profile_start_time` of its own `Task Environment` plane, or from the clock
            that `start_collecting` was given where it has none. Empty bytes: nothing.
        warnings: What was lost or ignored, a sentence each.
        holds_annotations: The annotations that were forwarded to this collector
            (`annotate.remove_forward` says whether they were) stand in it, with their
            values, on their threads: they are then left out of the host's own.
        remarks: What is as ever, and is told in the file and the run alone: no line
            of the program's output says it.
    """

    xspace: bytes
    warnings: tuple[str, ...] = ()
    holds_annotations: bool = False
    remarks: tuple[str, ...] = ()


class Collector(Protocol):
    """One source of events. A new object is made for every recording.

    Any exception that it raises becomes a warning of the recording; none reaches the
    program. Calls come from the thread that starts and stops the recording.
    """

    name: str

    def why_unavailable(self) -> Unavailable | None:
        """Return None where it can record now; else why not, and the way out.

        With `collectors="auto"` a collector that is not available is passed over; its
        reason is no warning, because a program without that framework lacks nothing.
        Nothing is imported that the program has not imported itself.
        """
        return None

    def start_collecting(self, options: ProfilerOptions, clock: ClockPair) -> None:
        """Begin to record. `hand_over` reports what an option cannot do here."""

    def hand_over(self) -> Collected:
        """End, and hand over; it must succeed after a start that failed."""


@runtime_checkable
class Halting(Protocol):
    """A collector that can end its recording before it hands anything over.

    All of them are halted before the first collector is stopped: no recording holds
    what `hand_over` does to put a recording together.
    """

    def halt_collecting(self) -> None:
        """Record no more; once more does nothing.

        Where it raises, what was recorded is lost, and `hand_over` is not called.
        """


@runtime_checkable
class Counting(Protocol):
    """A collector of whose events each takes time to store, for which programs wait."""

    def count_events(self) -> int | None:
        """Return how many were recorded until now; None where that is not known.

        Called once, between two steps, by the thread that started the recording.
        """


@runtime_checkable
class Dropping(Protocol):
    """A collector whose recording can be ended without the cost of reading it."""

    def drop_events(self) -> None:
        """End; called in place of `hand_over`, after `halt_collecting`."""


@runtime_checkable
class Exiting(Protocol):
    """A collector whose recording takes long to end, and need not end at the exit."""

    def leave_at_exit(self) -> None:
        """Leave it as it is: the process ends, and nothing else is called."""


@runtime_checkable
class Streaming(Protocol):
    """A collector whose events are spooled while it records: a kill spares them.

    What `take_fragment` gave is not given again by `hand_over`.
    """

    def take_fragment(self) -> Fragment:
        """Take what was recorded since the last call.

        Times count from the clock that `start_collecting` was given. Called by another
        thread than that, never by two at once. Empty bytes: nothing new.
        """


@runtime_checkable
class TracesPython(Protocol):
    """A collector whose framework can note Python's calls itself.

    Only one tracer has Python's profiling hook, so those that start later are asked for
    none.

    Attributes:
        traces_python: Whether it notes them in this recording; known once it began.
    """

    traces_python: bool
