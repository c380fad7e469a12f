"""What a host thread spends time on: the codes of events, and what follows from each.

Definition: docs/definitions/host-time.md#classes.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from stepscope.derive.names.event_kinds import SYSTEM_CLASSES, HostClass
from stepscope.derive.step_time.owners import OWNERS
from stepscope.frozen import Frozen


class HostCode(IntEnum):
    """What an event stands for on its thread; 0 leaves it to what encloses it."""

    NOTHING = 0
    #: A consumer asks an input pipeline for data; counts on any thread.
    INPUT_WAIT = 1
    #: Fetching input in another way; counts on step threads.
    OWN_INPUT = 2
    #: The outermost iterator of a pipeline; an input wait where a step calls it.
    ITERATOR = 3
    COMPILE = 4
    #: Tracing a function: its own time only, not that of what it calls.
    TRACING = 5
    LAUNCH = 6
    HOST_COMPUTE = 7
    SYNC = 8
    #: An input pipeline's own work, ahead of the consumer.
    PIPELINE = 9
    #: An op that may or may not launch device work.
    LAUNCH_OR_COMPUTE = 10
    #: A call that waits for what other threads do for it; nothing by itself.
    BLOCKED = 11
    #: The host's way to a launch: ops that enclose one, and short ops between them.
    DISPATCH = 12
    #: The recording's own start, stop and buffers.
    PROFILER = 13
    #: Writing a checkpoint or a summary.
    OUTPUT = 14
    #: A garbage collection.
    GARBAGE = 15
    #: Waiting for other workers in a collective.
    PEER = 16
    #: Handing a result of a device to the program, until it is there.
    READ_BACK = 17
    #: A call that begins a copy to the host and waits for it.
    COPY_OUT = 18
    #: A call that begins a copy from the host and waits for it.
    COPY_IN = 19
    #: Launching: `LAUNCH` and `DISPATCH` as one; no event has it.
    LAUNCHING = 20
    #: A long call of the operating system that waits: for another thread, say.
    SYSTEM_WAIT = 21
    #: A long call of the operating system that reads a file or a pipe.
    FILE_READ = 22
    #: Any other long call of the operating system.
    SYSTEM_CALL = 23


class HostTime(Frozen, frozen=True, eq=True):
    """What follows from the code of an event.

    Attributes:
        owner: Owner of the time in the account, wherever that is not another one's.
        names: Owners and topics whose time such events may name.
        of_class: Class whose events have this code wherever they lie; None for none.
        is_sticky: Whether it keeps everything that is nested in it.
    """

    code: HostCode
    owner: str
    names: tuple[str, ...] = ()
    of_class: HostClass | None = None
    is_sticky: bool = False


#: All codes but `NOTHING` and `BLOCKED`, whose time is that of others.
HOST_TIMES: Final = (
    HostTime(
        HostCode.PROFILER, "profiler", ("profiler",), HostClass.PROFILER, is_sticky=True
    ),
    HostTime(
        HostCode.COMPILE, "compile", ("compile",), HostClass.COMPILE, is_sticky=True
    ),
    HostTime(HostCode.TRACING, "compile", ("compile",)),
    HostTime(HostCode.PEER, "peer", ("peer",)),
    HostTime(HostCode.INPUT_WAIT, "input", ("input",), is_sticky=True),
    HostTime(
        HostCode.OWN_INPUT, "input", ("input",), HostClass.INPUT_WAIT, is_sticky=True
    ),
    HostTime(HostCode.ITERATOR, "input", ("input",), is_sticky=True),
    HostTime(HostCode.PIPELINE, "input", (), HostClass.DATASET, is_sticky=True),
    HostTime(HostCode.COPY_IN, "input", ("input",)),
    HostTime(HostCode.FILE_READ, "input", ("input",), HostClass.FILE_READ),
    HostTime(
        HostCode.OUTPUT,
        "output",
        ("output", "writing"),
        HostClass.OUTPUT,
        is_sticky=True,
    ),
    HostTime(HostCode.READ_BACK, "output", ("output", "sync"), HostClass.READ_BACK),
    HostTime(HostCode.COPY_OUT, "output", ("output",)),
    HostTime(
        HostCode.HOST_COMPUTE,
        "host_compute",
        ("host_compute", "debugging"),
        HostClass.HOST_COMPUTE,
    ),
    HostTime(
        HostCode.GARBAGE,
        "host_compute",
        ("host_compute", "between", "garbage"),
        HostClass.GARBAGE,
        is_sticky=True,
    ),
    HostTime(
        HostCode.SYSTEM_CALL, "host_compute", ("host_compute",), HostClass.SYSTEM_CALL
    ),
    HostTime(HostCode.LAUNCH, "launch", ("launch",), HostClass.LAUNCH),
    HostTime(HostCode.LAUNCHING, "launch"),
    HostTime(HostCode.DISPATCH, "launch", ("launch", "host_compute", "debugging")),
    HostTime(HostCode.LAUNCH_OR_COMPUTE, "launch", ("launch", "debugging")),
    HostTime(HostCode.SYNC, "sync", ("sync",), HostClass.SYNC),
    HostTime(HostCode.SYSTEM_WAIT, "sync", ("sync",), HostClass.SYSTEM_WAIT),
)
OWNER_OF_CODE: Final = {it.code: it.owner for it in HOST_TIMES}
_CATEGORY_OF_OWNER: Final = {owner.name: owner.category for owner in OWNERS}
CATEGORY_OF_CODE: Final = {it.code: _CATEGORY_OF_OWNER[it.owner] for it in HOST_TIMES}
#: These keep everything that is nested in them.
STICKY: Final = tuple(it.code for it in HOST_TIMES if it.is_sticky)
#: Classes whose code does not depend on where the event lies.
CODE_OF_CLASS: Final = {
    it.of_class: it.code
    for it in HOST_TIMES
    if it.of_class is not None and it.of_class not in SYSTEM_CLASSES
}
#: Classes of calls of the operating system: long ones have a code.
CODE_OF_SYSTEM_CLASS: Final = {
    it.of_class: it.code for it in HOST_TIMES if it.of_class in SYSTEM_CLASSES
}


def codes_that_name(owner: str) -> tuple[HostCode, ...]:
    """Return the codes of events that may name the time of an owner, or of a topic."""
    return tuple(it.code for it in HOST_TIMES if owner in it.names)
