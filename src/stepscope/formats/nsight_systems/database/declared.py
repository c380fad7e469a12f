"""The tables and columns of an export that are read; all others are passed over.

An export has a table only if there was something to put into it, and releases add and
drop columns, so that nothing but the required columns of a table is counted on.

Definition: docs/formats/nsight_systems.md#what-is-read.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Wanted(NamedTuple):
    """What is read of one table.

    Attributes:
        required: Columns of integers without which the table says nothing.
        optional: Columns of integers that may be absent.
        texts: Columns of texts that may be absent.
        numbers: Columns of integers or fractions without which the table says nothing.
    """

    required: tuple[str, ...]
    optional: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()


_DEVICE_WORK: Final = ("start", "end", "deviceId", "streamId")
_OF_WORK: Final = ("contextId", "globalPid", "correlationId")
OVERHEADS: Final = ("PROFILER_OVERHEAD", "CUPTI_ACTIVITY_KIND_OVERHEAD")
STRINGS: Final = "StringIds"

WANTED: Final = {
    "CUPTI_ACTIVITY_KIND_KERNEL": Wanted(
        _DEVICE_WORK,
        (
            *_OF_WORK,
            *("demangledName", "shortName", "registersPerThread"),
            *("gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ"),
            *("staticSharedMemory", "dynamicSharedMemory"),
        ),
    ),
    "CUPTI_ACTIVITY_KIND_MEMCPY": Wanted(
        (*_DEVICE_WORK, "copyKind"),
        (*_OF_WORK, "bytes", "srcKind", "dstKind", "srcDeviceId", "dstDeviceId"),
    ),
    "CUPTI_ACTIVITY_KIND_MEMSET": Wanted(_DEVICE_WORK, (*_OF_WORK, "bytes")),
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": Wanted(
        ("start", "end"), ("deviceId", "streamId", *_OF_WORK, "graphId")
    ),
    "CUPTI_ACTIVITY_KIND_RUNTIME": Wanted(
        ("start", "end", "globalTid", "nameId"),
        ("correlationId", "eventClass", "returnValue"),
    ),
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": Wanted(
        ("start", "end", "syncType"),
        (
            *("deviceId", "contextId", "streamId", "globalPid", "correlationId"),
            *("eventId", "eventSyncId"),
        ),
    ),
    "CUPTI_ACTIVITY_KIND_CUDA_EVENT": Wanted(
        ("eventId", "streamId", "correlationId"),
        ("contextId", "globalPid", "eventSyncId"),
    ),
    "CUDA_GPU_MEMORY_USAGE_EVENTS": Wanted(
        ("start", "bytes", "memoryOperationType"),
        ("address", "deviceId", "memKind", "globalPid"),
    ),
    "NVTX_EVENTS": Wanted(
        ("start", "eventType"),
        ("end", "globalTid", "textId", "domainId"),
        ("text",),
    ),
    "OSRT_API": Wanted(("start", "end", "nameId", "globalTid")),
    "SCHED_EVENTS": Wanted(("start", "cpu", "isSchedIn", "globalTid")),
    "COMPOSITE_EVENTS": Wanted(("id", "start", "globalTid")),
    "SAMPLING_CALLCHAINS": Wanted(
        ("id", "symbol", "module", "stackDepth"), ("unresolved",)
    ),
    "GPU_METRICS": Wanted(("timestamp", "typeId", "metricId"), numbers=("value",)),
    "TARGET_INFO_GPU_METRICS": Wanted(("typeId", "metricId"), texts=("metricName",)),
    **dict.fromkeys(OVERHEADS, Wanted(("start", "end"), ("nameId",))),
    "TARGET_INFO_GPU": Wanted(
        (),
        (
            *("id", "deviceId", "cuDevice", "smCount", "clockRate", "totalMemory"),
            *("memoryBandwidth", "computeMajor", "computeMinor"),
        ),
        ("name",),
    ),
    "TARGET_INFO_CUDA_DEVICE": Wanted(("gpuId", "cudaId", "pid")),
    "TARGET_INFO_SESSION_START_TIME": Wanted(("utcEpochNs",)),
    "ANALYSIS_DETAILS": Wanted(("duration",)),
    "ThreadNames": Wanted(("nameId", "globalTid")),
    "DIAGNOSTIC_EVENT": Wanted(("severity",), (), ("text",)),
    "META_DATA_EXPORT": Wanted((), (), ("name",)),
}
"""Table → what is read of it."""

#: Tables with a row for each piece of work, call or range: nearly all of a database.
WORK: Final = (
    "CUPTI_ACTIVITY_KIND_KERNEL",
    "CUPTI_ACTIVITY_KIND_MEMCPY",
    "CUPTI_ACTIVITY_KIND_MEMSET",
    "CUPTI_ACTIVITY_KIND_RUNTIME",
    "NVTX_EVENTS",
    "OSRT_API",
)
#: Tables with a row for each look at a core, turn of a thread or value of a counter.
LOOKS: Final = (
    "GPU_METRICS",
    "SCHED_EVENTS",
    "COMPOSITE_EVENTS",
    "SAMPLING_CALLCHAINS",
)

#: Table → what it holds that its owner may not want to pass on. They are never read.
PRIVATE: Final = {
    "TARGET_INFO_SYSTEM_ENV": "what the machine is and how it is set up",
    "META_DATA_CAPTURE": "the command line and the environment of the program",
    "ProcessStreams": "what the program printed",
    "PROCESSES": "the names of the machine's other processes",
}
