"""What a host thread spends time on: the codes of events, and what follows from each.

Definition: docs/definitions/host-time.md#classes.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from stepscope.derive.names.event_kinds import SYSTEM_CLASSES, HostClass
from stepscope.frozen import Frozen


class Owner(Frozen, frozen=True, eq=True):
    """What an instant of a step is spent on.

    Attributes:
        category: The category of the results that the owner's time is part of.
        display: The category under the name that TensorFlow's guides use.
    """

    name: str
    category: str
    display: str


_OTHER: Final = ("other", "All others")
_COPIES: Final = ("device_to_device", "Device to device")
_COMPUTE_32: Final = ("device_compute_32", "Device compute")

#: What a device works on. Where activities overlap, the first of them is charged.
_BUSY: Final = (
    Owner("compute_16", "device_compute_16", "Device compute"),
    Owner("compute_tf32", *_COMPUTE_32),
    Owner("compute_32", *_COMPUTE_32),
    Owner("compute_64", *_COMPUTE_32),
    Owner("memset", *_COPIES),
    Owner("collective", "device_collectives", "Device to device"),
    Owner("copy_within", *_COPIES),
    Owner("copy_out", "output", "Output"),
    Owner("copy_in", "input", "Input"),
    Owner("transfer_wait", *_COPIES),
)
#: Why a device does nothing, or what the host does where there is no device. An instant
#: for which several hold belongs to the first.
_IDLE: Final = (
    Owner("profiler", *_OTHER),
    Owner("switch", *_OTHER),
    Owner("queued", *_OTHER),
    Owner("compile", "compilation", "Compilation"),
    Owner("peer", "device_collectives", "Device to device"),
    Owner("input", "input", "Input"),
    Owner("output", "output", "Output"),
    Owner("host_compute", "host_compute", "Host compute"),
    Owner("launch", "kernel_launch", "Kernel launch"),
    Owner("sync", *_OTHER),
    Owner("between", *_OTHER),
    Owner("unexplained", *_OTHER),
)
#: All owners: those of busy time in the order of charging, then those of idle time.
#: Definition: docs/where-a-steps-time-goes.md#owners.
OWNERS: Final = (*_BUSY, *_IDLE)
BUSY_OWNERS: Final = tuple(owner.name for owner in _BUSY)
IDLE_OWNERS: Final = tuple(owner.name for owner in _IDLE)
#: Busy owners up to this one are work that a device should spend its time on: all but
#: transfers of input, and waiting for transfers.
LAST_WORKING: Final = "copy_out"
#: Kind of device activity → owner of its time; kernels are divided by their precision.
OWNER_OF_KIND: Final = {
    "kernel": "compute_32",
    "collective": "collective",
    "memset": "memset",
    "p2p_copy": "copy_within",
    "local_copy": "copy_within",
    "d2h": "copy_out",
    "h2d": "copy_in",
    "transfer_wait": "transfer_wait",
}
#: Where an instant lies: while a step's own work goes on, or from its end to the next.
PLACES: Final = ("inside", "between")

#: The ten categories of the results, in the order of the contract.
CATEGORIES: Final = (
    "compilation",
    "input",
    "output",
    "kernel_launch",
    "host_compute",
    "device_collectives",
    "device_to_device",
    "device_compute_16",
    "device_compute_32",
    "other",
)


def category_owners(category: str) -> tuple[str, ...]:
    """Return the names of the owners whose time is part of a category."""
    return tuple(owner.name for owner in OWNERS if owner.category == category)


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
