"""What a host thread spends time on: codes of events, and the owner of each code.

Definition: docs/definitions/host-time.md#classes.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from stepscope.derive.names.event_kinds import SYSTEM_CLASSES, HostClass
from stepscope.derive.step_time.owners import OWNERS
from stepscope.frozen import Frozen


class HostCode(IntEnum):
    """What a thread does during an event; 0 means the code of the enclosing event."""

    NOTHING = 0
    #: A consumer waits for an input pipeline; counts on any thread.
    INPUT_WAIT = 1
    #: Fetching input without an input pipeline; counts on step threads.
    OWN_INPUT = 2
    #: The outermost iterator of a pipeline; an input wait if a step calls it.
    ITERATOR = 3
    COMPILE = 4
    #: Tracing a function: only the self time of the tracing event.
    TRACING = 5
    LAUNCH = 6
    HOST_COMPUTE = 7
    SYNC = 8
    #: Work of an input pipeline, ahead of the consumer.
    PIPELINE = 9
    #: An op that may or may not launch device work, because launches are unknown.
    LAUNCH_OR_COMPUTE = 10
    #: A call that waits for work on other threads; its time is attributed to that work.
    BLOCKED = 11
    #: Preparing a launch: ops that enclose a launch, and short ops between launches.
    DISPATCH = 12
    #: Start, stop and buffer handling of the profiler itself.
    PROFILER = 13
    #: Writing a checkpoint or a summary.
    OUTPUT = 14
    #: A garbage collection.
    GARBAGE = 15
    #: Waiting for other workers in a collective.
    PEER = 16
    #: Waiting until a result of the device is available to the program.
    READ_BACK = 17
    #: A call that starts a copy to the host and waits for the copy.
    COPY_OUT = 18
    #: A call that starts a copy from the host and waits for the copy.
    COPY_IN = 19
    #: `LAUNCH` and `DISPATCH` merged; no single event has this code.
    LAUNCHING = 20
    #: A long operating system call that waits, for example for a thread.
    SYSTEM_WAIT = 21
    #: A long operating system call that reads a file or a pipe.
    FILE_READ = 22
    #: Any other long operating system call.
    SYSTEM_CALL = 23


class HostTime(Frozen, frozen=True, eq=True):
    """The owner of the time of events with a code, and when the code applies.

    Attributes:
        owner: Owner to which the account charges the time if no earlier owner applies.
        also: Other owners, and kinds of work, whose time may be named after such an
            event; None if no time may be, not even that of `owner`.
        of_class: Class whose events always have this code; None without such a class.
        is_sticky: Whether the code also applies to all events nested in such an event.
    """

    code: HostCode
    owner: str
    also: tuple[str, ...] | None = ()
    of_class: HostClass | None = None
    is_sticky: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """Return owners and kinds of work whose time may be named after such events."""
        return () if self.also is None else (self.owner, *self.also)


#: All codes with an owner. Other events show the owner for `NOTHING` and `BLOCKED`.
HOST_TIMES: Final = (
    HostTime(HostCode.PROFILER, "profiler", (), HostClass.PROFILER, is_sticky=True),
    HostTime(
        HostCode.COMPILE, "compile", ("startup",), HostClass.COMPILE, is_sticky=True
    ),
    HostTime(HostCode.TRACING, "compile", ("startup",)),
    HostTime(HostCode.PEER, "peer"),
    HostTime(HostCode.INPUT_WAIT, "input", is_sticky=True),
    HostTime(HostCode.OWN_INPUT, "input", (), HostClass.INPUT_WAIT, is_sticky=True),
    HostTime(HostCode.ITERATOR, "input", is_sticky=True),
    HostTime(HostCode.PIPELINE, "input", None, HostClass.DATASET, is_sticky=True),
    HostTime(HostCode.COPY_IN, "input"),
    HostTime(HostCode.FILE_READ, "input", (), HostClass.FILE_READ),
    HostTime(HostCode.OUTPUT, "output", ("writing",), HostClass.OUTPUT, is_sticky=True),
    HostTime(HostCode.READ_BACK, "output", ("sync",), HostClass.READ_BACK),
    HostTime(HostCode.COPY_OUT, "output"),
    HostTime(
        HostCode.HOST_COMPUTE, "host_compute", ("debugging",), HostClass.HOST_COMPUTE
    ),
    HostTime(
        HostCode.GARBAGE,
        "host_compute",
        ("between", "garbage"),
        HostClass.GARBAGE,
        is_sticky=True,
    ),
    HostTime(HostCode.SYSTEM_CALL, "host_compute", (), HostClass.SYSTEM_CALL),
    HostTime(HostCode.LAUNCH, "launch", ("startup",), HostClass.LAUNCH),
    HostTime(HostCode.LAUNCHING, "launch", None),
    HostTime(HostCode.DISPATCH, "launch", ("host_compute", "debugging")),
    HostTime(HostCode.LAUNCH_OR_COMPUTE, "launch", ("debugging",)),
    HostTime(HostCode.SYNC, "sync", (), HostClass.SYNC),
    HostTime(HostCode.SYSTEM_WAIT, "sync", (), HostClass.SYSTEM_WAIT),
)
#: Codes of waiting for another thread, whose activity explains the wait.
THREAD_WAITS: Final = (HostCode.BLOCKED, HostCode.SYSTEM_WAIT)
OWNER_OF_CODE: Final = {it.code: it.owner for it in HOST_TIMES}
_CATEGORY_OF_OWNER: Final = {owner.name: owner.category for owner in OWNERS}
CATEGORY_OF_CODE: Final = {it.code: _CATEGORY_OF_OWNER[it.owner] for it in HOST_TIMES}
#: Codes that also apply to all nested events.
STICKY: Final = tuple(it.code for it in HOST_TIMES if it.is_sticky)
#: Code of each class whose events have the same code everywhere.
CODE_OF_CLASS: Final = {
    it.of_class: it.code
    for it in HOST_TIMES
    if it.of_class is not None and it.of_class not in SYSTEM_CLASSES
}
#: Code of long calls, by class of operating system calls.
CODE_OF_SYSTEM_CLASS: Final = {
    it.of_class: it.code for it in HOST_TIMES if it.of_class in SYSTEM_CLASSES
}


def codes_that_name(owner: str) -> tuple[HostCode, ...]:
    """Return codes of events whose names say what an owner's time was spent on."""
    return tuple(host_time.code for host_time in HOST_TIMES if owner in host_time.names)
