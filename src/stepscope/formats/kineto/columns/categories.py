"""Classes of events, from the phase, the category and, for a few events, the name.

The process number does not show the class: for a GPU it is the ordinal of the device,
and in a container the process number of a program may be equally small.

Definition: docs/formats/kineto.md#tracks.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from stepscope.patterns import Pattern
from stepscope.xspace.op_links import BOOKKEEPING


class EventClass(IntEnum):
    """Class of an event; the classes up to `OTHER` become rows of `events`."""

    OP = 0
    ANNOTATION = 1  # a range that the program or its framework named
    PYTHON = 2
    API = 3  # a call of a runtime or a driver
    MEMORY = 4  # an allocation or a deallocation
    INSTANT = 5  # any other instant on a thread
    KERNEL = 6
    COPY = 7
    FILL = 8  # a memset
    DEVICE_ANNOTATION = 9  # the span of an annotation, repeated on a stream
    SYNC = 10
    COUNTERS = 11  # counters of one kernel
    OVERHEAD = 12
    RECORDING = 13  # the time range of the recording
    OTHER = 14  # an undocumented category
    NAME = 15  # name of a process or thread
    LINK = 16  # an arrow from an op to the op of its gradient
    FLOW = 17  # an arrow whose id repeats a correlation id
    UNKNOWN_PHASE = 18


#: Classes of events on host threads.
ON_THREAD: Final = (
    EventClass.OP,
    EventClass.ANNOTATION,
    EventClass.PYTHON,
    EventClass.API,
    EventClass.MEMORY,
    EventClass.INSTANT,
)
#: Classes of device activity on streams.
ON_DEVICE: Final = (EventClass.KERNEL, EventClass.COPY, EventClass.FILL)

#: Lower-case category → class of its events. Until 2022 categories had other names.
_OF_CATEGORY: Final = {
    "cpu_op": EventClass.OP,
    "operator": EventClass.OP,
    "user_annotation": EventClass.ANNOTATION,
    "python_function": EventClass.PYTHON,
    "kernel": EventClass.KERNEL,
    "gpu_memcpy": EventClass.COPY,
    "memcpy": EventClass.COPY,
    "gpu_memset": EventClass.FILL,
    "memset": EventClass.FILL,
    "gpu_user_annotation": EventClass.DEVICE_ANNOTATION,
    "cuda_sync": EventClass.SYNC,
    "cuda_profiler_range": EventClass.COUNTERS,
    "overhead": EventClass.OVERHEAD,
    "trace": EventClass.RECORDING,
    "runtime": EventClass.API,
}
#: Matches `cuda_runtime`, `cuda_driver`, and the same categories of other vendors.
_API: Final = Pattern(r"(?P<vendor>[a-z0-9]+)_(?:runtime|driver)\Z")
#: Vendors whose device activity has the known categories above.
_KNOWN_VENDORS: Final = frozenset({"cuda", "hip", "roc", "rocm"})
#: Matches categories of devices whose activity is undocumented.
_FOREIGN: Final = Pattern(
    r"(?:mtia|hpu|xpu|npu|mlu|musa|maca|ipu|tpu|glow|privateuse\w*?)(?:_|\Z)"
)
#: Categories of arrows that end at device activity which has no category.
_TO_FOREIGN: Final = frozenset({"async_npu"})
_LINKS: Final = frozenset({"fwdbwd", "forward_backward"})

#: Matches names of the framework's ranges, which older files record as operators.
_ANNOTATION: Final = Pattern(
    r"ProfilerStep#\d+|Optimizer\.\w+#|enumerate\(DataLoader\)#|(?:nccl|gloo|hccl):"
)


def event_class(phase: str | None, category: str | None) -> EventClass:
    """Return the class of an event; later, names may change the class of an instant."""
    lower = (category or "").lower()
    if phase == "X":
        known_class = _OF_CATEGORY.get(lower)
        if known_class is None and _API.match(lower):
            return EventClass.API
        return EventClass.OTHER if known_class is None else known_class
    if phase in ("i", "I"):
        return EventClass.INSTANT
    if phase in ("s", "t", "f"):
        return EventClass.LINK if lower in _LINKS else EventClass.FLOW
    return EventClass.NAME if phase == "M" else EventClass.UNKNOWN_PHASE


def is_foreign(phase: str | None, category: str | None) -> bool:
    """Return whether an event shows activity of an unsupported device.

    Runtime calls of an unknown vendor show such activity, and so do the ends of arrows
    to an unsupported device.
    """
    lower = (category or "").lower()
    if phase == "f":
        return lower in _TO_FOREIGN
    if phase != "X":
        return False
    api = _API.match(lower)
    if api is not None:
        return api["vendor"] not in _KNOWN_VENDORS
    return lower not in _OF_CATEGORY and _FOREIGN.match(lower) is not None


def holds_ranges(category: str | None) -> bool:
    """Return whether a category contains both operators and the program's ranges."""
    return (category or "").lower() == "operator"


def is_annotation(name: str) -> bool:
    """Return whether an event in the category of operators has the name of a range."""
    return name in BOOKKEEPING or _ANNOTATION.match(name) is not None
