"""Rules, shared by all readers, that derive the kind of a device event from its name.

The rules are tables of name prefixes, tried in order on the lower-case name without
blanks; so one prefix matches `MemcpyH2D`, `MEMCPYHtoD` and `Memcpy HtoD`.

Definition: docs/definitions/device-work.md#kinds-of-device-work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Kind of events without device work: allocations, overhead, markers, counters.
NOT_ACTIVITY: Final = "not_activity"

#: Kind of a copy whose name does not contain its direction.
SOME_COPY: Final = "some_copy"

#: Kind of activity → prefixes of the name. The first match wins. Among unified memory
#: events (`um_`) only page migrations move bytes.
_BEGINNINGS: Final = {
    "h2d": ("memcpyh2d", "memcpyhtod", "um_bytes_transfer_htod"),
    "d2h": ("memcpyd2h", "memcpydtoh", "um_bytes_transfer_dtoh"),
    "p2p_copy": ("memcpyp2p", "memcpyptop", "um_bytes_transfer_dtod"),
    "local_copy": ("memcpyd2d", "memcpydtod"),
    NOT_ACTIVITY: (
        *("memcpyh2h", "memcpyhtoh", "um_", "unifiedmemory", "memoryalloc"),
        *("memoryfree", "memoryresidency", "memalloc", "memfree", "hostregister"),
        *("hostunregister", "nvtx:"),
    ),
    SOME_COPY: ("memcpy",),
    "memset": ("memset",),
}

#: Names of kernels that are copies and memsets: a driver runs these as kernels, or
#: AMD's tracers list them among the kernels.
_COPY_KERNELS: Final = {
    "h2d": ("copyhosttodevice", "hipmemcpyhtod"),
    "d2h": ("copydevicetohost", "hipmemcpydtoh"),
    "p2p_copy": ("copypeertopeer", "hipmemcpypeer"),
    "local_copy": (
        *("__amd_rocclr_copybuffer", "__amd_rocclr_copyimage"),
        *("copydevicetodevice", "hipmemcpydtod"),
    ),
    NOT_ACTIVITY: ("copyhosttohost",),
    SOME_COPY: ("hipmemcpy",),
    "memset": ("__amd_rocclr_fillbuffer", "__amd_rocclr_fillimage", "hipmemset"),
}

#: Full names of events on a stream that record the tracer's own overhead.
_OVERHEAD: Final = frozenset(
    {"Overhead", "COMPILER", "BUFFER_FLUSH", "INSTRUMENTATION", "RESOURCE"}
)

#: A kernel whose name contains one of these parts is a collective.
COLLECTIVE_NAME_PARTS: Final = (
    *("nccl", "rccl", "msccl", "nvshmem", "deep_ep"),
    *("multimem_all_", "multimem_one_shot", "multimem_reduce_scatter"),
    *("one_shot_all_reduce", "two_shot_all_reduce", "quick_all_reduce"),
    *("allreduce_fusion_kernel", "cross_device_reduce"),
)

#: HLO categories of collectives; `-start` or `-done` may follow.
COLLECTIVE_CATEGORIES: Final = frozenset(
    {
        *("all-reduce", "all-gather", "reduce-scatter", "all-to-all"),
        *("collective-permute", "collective-broadcast", "ragged-all-to-all"),
    }
)

#: Prefixes of the op types of collectives.
COLLECTIVE_OP_TYPES: Final = (
    *("NcclAllReduce", "NcclReduce", "NcclBroadcast", "CollectiveReduce"),
    *("CollectiveGather", "CollectiveBcast", "CollectiveAllToAll"),
)

_HOST_MEMORY: Final = frozenset({"pageable", "pinned", "host"})
_DEVICE_MEMORY: Final = frozenset(
    {"device", "array", "device_static", "managed", "managed_static"}
)

#: Word in a stream's name → kind of device activity on the stream. Words of
#: `_BEGINNINGS` may also be in the name.
_LINE_TYPES: Final = {"compute": "kernel", "kernel": "kernel", "cudagraph": "kernel"}
_IDLE_LINE_TYPES: Final = frozenset({"overhead", "generic", "unifiedmemory"})


def kind_of_name(name: str, *, launched: bool = False) -> str:
    """Return the kind of activity that a name means, `SOME_COPY` or `NOT_ACTIVITY`.

    A name that matches no rule is a kernel. A copy between two devices may have the
    name of a local copy; then only its details distinguish them.

    Args:
        name: Name as recorded.
        launched: Whether the event has launch details. An event with launch details is
            a kernel regardless of its name, or a copy that a driver runs as a kernel.
    """
    compact = name[:64].replace(" ", "").lower()
    kind = _kind_of_beginning(compact, _COPY_KERNELS)
    if kind is None and not launched:
        kind = _kind_of_beginning(compact, _BEGINNINGS)
    if kind is not None:
        return kind
    if name in _OVERHEAD and not launched:
        return NOT_ACTIVITY
    lower = name.lower()
    if any(part in lower for part in COLLECTIVE_NAME_PARTS):
        return "collective"
    return "kernel"


def copy_kind(source: str | None, destination: str | None) -> str | None:
    """Return the kind of a copy, given the kinds of its source and destination memory.

    Returns:
        A kind of activity; `NOT_ACTIVITY` for a copy within the host; None if unknown.
    """
    return {
        ("host", "device"): "h2d",
        ("device", "host"): "d2h",
        ("device", "device"): "local_copy",
        ("host", "host"): NOT_ACTIVITY,
    }.get((_memory_side(source), _memory_side(destination)))


def kind_of_line_type(word: str) -> str | None:
    """Return the activity kind of a word in a stream's name; None if unknown."""
    compact = word.strip().lower()
    if compact in _IDLE_LINE_TYPES:
        return NOT_ACTIVITY
    return _LINE_TYPES.get(compact) or _kind_of_beginning(compact, _BEGINNINGS)


def _kind_of_beginning(
    name: str, beginnings: Mapping[str, tuple[str, ...]]
) -> str | None:
    kinds = (kind for kind, texts in beginnings.items() if name.startswith(texts))
    return next(kinds, None)


def is_collective_category(category: str) -> bool:
    """Return whether an HLO category is a collective, or the start or end of one."""
    base_category = category.removesuffix("-start").removesuffix("-done")
    return base_category in COLLECTIVE_CATEGORIES


def kind_of_wait(instruction: str) -> str | None:
    """Return the activity kind of an HLO category or instruction that waits.

    `copy-start` begins a transfer and continues; `copy-done.3` waits for its end.

    Returns:
        None for an instruction that does not wait for earlier work.
    """
    opcode = instruction.rstrip("0123456789.")
    if not opcode.endswith("-done"):
        return None
    return "collective" if is_collective_category(opcode) else "transfer_wait"


def is_collective_op(annotation: str) -> bool:
    """Return whether an op's annotation `scope/name:Type` belongs to a collective."""
    _, _, op_type = annotation.partition(":")
    return op_type.startswith(COLLECTIVE_OP_TYPES)


def _memory_side(memory: str | None) -> str:
    word = (memory or "").lower()
    if word in _HOST_MEMORY:
        return "host"
    return "device" if word in _DEVICE_MEMORY else "unknown"
