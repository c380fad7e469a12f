"""Rules, shared by all readers, that derive the kind of a device event from its name.

The rules are tables of name prefixes, tried in order on the lower-case name without
blanks; so one prefix matches `MemcpyH2D`, `MEMCPYHtoD` and `Memcpy HtoD`.

Definition: docs/definitions/device-work.md#kinds-of-device-work.
"""

from __future__ import annotations

from typing import Final

#: Kind of events without device work: allocations, overhead, markers, counters.
NOT_ACTIVITY: Final = "not_activity"

#: Kind of a copy whose name does not contain its direction.
SOME_COPY: Final = "some_copy"

#: Prefix of the name → kind of activity. The first match wins.
_BEGINNINGS: Final = (
    ("memcpyh2d", "h2d"),
    ("memcpyhtod", "h2d"),
    ("memcpyd2h", "d2h"),
    ("memcpydtoh", "d2h"),
    ("memcpyp2p", "p2p_copy"),
    ("memcpyptop", "p2p_copy"),
    ("memcpyd2d", "local_copy"),
    ("memcpydtod", "local_copy"),
    ("memcpyh2h", NOT_ACTIVITY),
    ("memcpyhtoh", NOT_ACTIVITY),
    ("memcpy", SOME_COPY),
    ("memset", "memset"),
    # Among unified memory events only page migrations move bytes.
    ("um_bytes_transfer_htod", "h2d"),
    ("um_bytes_transfer_dtoh", "d2h"),
    ("um_bytes_transfer_dtod", "p2p_copy"),
    ("um_", NOT_ACTIVITY),
    ("unifiedmemory", NOT_ACTIVITY),
    ("memoryalloc", NOT_ACTIVITY),
    ("memoryfree", NOT_ACTIVITY),
    ("memoryresidency", NOT_ACTIVITY),
    ("memalloc", NOT_ACTIVITY),
    ("memfree", NOT_ACTIVITY),
    ("hostregister", NOT_ACTIVITY),
    ("hostunregister", NOT_ACTIVITY),
    ("nvtx:", NOT_ACTIVITY),
)

#: Names of kernels that are copies and memsets: a driver runs these as kernels, or
#: AMD's tracers list them among the kernels.
_COPY_KERNELS: Final = (
    ("__amd_rocclr_copybuffer", "local_copy"),
    ("__amd_rocclr_copyimage", "local_copy"),
    ("__amd_rocclr_fillbuffer", "memset"),
    ("__amd_rocclr_fillimage", "memset"),
    ("copyhosttodevice", "h2d"),
    ("copydevicetohost", "d2h"),
    ("copydevicetodevice", "local_copy"),
    ("copyhosttohost", NOT_ACTIVITY),
    ("copypeertopeer", "p2p_copy"),
    ("hipmemcpyhtod", "h2d"),
    ("hipmemcpydtoh", "d2h"),
    ("hipmemcpydtod", "local_copy"),
    ("hipmemcpypeer", "p2p_copy"),
    ("hipmemcpy", SOME_COPY),
    ("hipmemset", "memset"),
)

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
    for start, kind in _COPY_KERNELS if launched else (*_COPY_KERNELS, *_BEGINNINGS):
        if compact.startswith(start):
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
    sides = [_memory_side(source), _memory_side(destination)]
    return {
        ("host", "device"): "h2d",
        ("device", "host"): "d2h",
        ("device", "device"): "local_copy",
        ("host", "host"): NOT_ACTIVITY,
    }.get((sides[0], sides[1]))


def kind_of_line_type(word: str) -> str | None:
    """Return the activity kind of a word in a stream's name; None if unknown."""
    compact = word.strip().lower()
    if compact in _IDLE_LINE_TYPES:
        return NOT_ACTIVITY
    if compact in _LINE_TYPES:
        return _LINE_TYPES[compact]
    for beginning, kind in _BEGINNINGS:
        if compact.startswith(beginning):
            return kind
    return None


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
