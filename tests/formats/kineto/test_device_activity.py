"""What ran on devices, which call launched it, and which op it belongs to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from tests.support.traces import blueprint
from tests.support.traces.kineto import PID, call, check_all, complete, frame, kernel

from stepscope.derive.consistency import consistency
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepscope.trace.model import TraceData

    Build = Callable[..., TraceData]


def op(name: str, ts: float, dur: float, external: int | None = None) -> dict[str, Any]:
    args = {} if external is None else {"External id": external}
    return complete(name, ts, dur, args=args)


def ops_of(trace: TraceData) -> list[str | None]:
    """The op of each activity."""
    handles = frame(trace, "device_activity")["op"].to_list()
    return [None if handle is None else trace.strings[handle] for handle in handles]


def copy(name: str, **args: Any) -> dict[str, Any]:
    return complete(
        name, 5, 5, cat="gpu_memcpy", pid=0, tid=7,
        args={"device": 0, "stream": 7, **args},
    )  # fmt: skip


def test_a_kernel_belongs_to_the_op_of_its_external_id(trace_of: Build) -> None:
    # On another thread, so that nothing else can lead there.
    trace = trace_of(
        [
            op("aten::other", 0, 50, 1),
            complete("aten::mm", 0, 50, tid=9, args={"External id": 2}),
            call("cudaLaunchKernel", 10, 5, correlation=7),
            kernel("sgemm", 30, 5, correlation=7, **{"External id": 2}),
        ]
    )
    check_all(trace)
    assert ops_of(trace) == ["aten::mm"]


def test_the_external_id_of_the_launch_call_serves_as_well(trace_of: Build) -> None:
    trace = trace_of(
        [
            op("aten::other", 0, 50, 1),
            complete("aten::mm", 0, 50, tid=9, args={"External id": 2}),
            call("cudaLaunchKernel", 10, 5, correlation=7, **{"External id": 2}),
            kernel("sgemm", 30, 5, correlation=7),
        ]
    )
    assert ops_of(trace) == ["aten::mm"]


def test_without_an_id_the_innermost_op_around_the_call_is_the_one(
    trace_of: Build,
) -> None:
    trace = trace_of(
        [
            op("aten::linear", 0, 50, 1),
            op("aten::addmm", 5, 30, 2),
            op("aten::before", 6, 2, 3),
            complete("cudaLaunchKernelExC", 9, 9, cat="cuda_runtime"),
            complete("cuLaunchKernel", 10, 5, cat="cuda_driver",
                     args={"correlation": 7}),
            kernel("sgemm", 40, 5, correlation=7),
        ]
    )  # fmt: skip
    assert ops_of(trace) == ["aten::addmm"]


def test_an_id_that_repeats_the_correlation_says_nothing(trace_of: Build) -> None:
    # An op happens to have the same id; it is not the one.
    trace = trace_of(
        [
            op("aten::stranger", 80, 5, 7),
            op("aten::mm", 0, 50, 1),
            call("cudaLaunchKernel", 10, 5, correlation=7, **{"External id": 7}),
            kernel("sgemm", 30, 5, correlation=7, **{"External id": 7}),
        ]
    )
    assert ops_of(trace) == ["aten::mm"]
    quality = frame(trace, "quality")
    noted = quality.filter(pl.col("kind") == "external_ids_repeat_correlation")
    assert noted["count"].to_list() == [2]


def test_ranges_are_no_ops_even_where_they_are_called_operators(
    trace_of: Build,
) -> None:
    trace = trace_of(
        [
            complete("ProfilerStep#3", 0, 90, cat="Operator"),
            complete("Optimizer.step#SGD.step", 5, 50, cat="Operator"),
            complete("cudaLaunchKernel", 10, 5, cat="Runtime", args={"correlation": 7}),
            complete("k", 30, 5, cat="Kernel", pid=0, tid="stream 7",
                     args={"correlation": 7}),
        ]
    )  # fmt: skip
    assert ops_of(trace) == [None]
    (note,) = (
        note
        for note in blueprint.profile(trace).derived(trace.host, consistency)
        if note.kind == "kernels_without_op"
    )
    assert note.count == 1
    assert note.message == (
        "1 of 1 kernels (5.00 µs, 100.0 % of kernel time) belong to no op. "
        "1 (5.00 µs): their launch calls are outside of all ops."
    )


def test_a_graph_launch_gives_its_op_to_all_its_kernels(trace_of: Build) -> None:
    trace = trace_of(
        [
            op("aten::graphed", 0, 30),
            call("cudaGraphLaunch", 10, 5, correlation=3),
            *(
                kernel(f"node {at}", 40 + 5 * at, 4, correlation=3, **{"graph id": 1})
                for at in range(3)
            ),
        ]
    )
    activity = frame(trace, "device_activity")
    assert activity["correlation"].to_list() == [3, 3, 3]
    assert ops_of(trace) == ["aten::graphed"] * 3


def test_activity_without_a_call_is_kept_and_counted(trace_of: Build) -> None:
    trace = trace_of(
        [
            op("aten::mm", 0, 30),
            call("cudaLaunchKernel", 10, 5, correlation=3),
            kernel("ours", 20, 5, correlation=3),
            kernel("from before", 30, 5, correlation=1),
            kernel("unnumbered", 40, 5),
        ]
    )
    assert ops_of(trace) == ["aten::mm", None, None]
    activity = frame(trace, "device_activity")
    assert activity["process"].to_list() == [PID, PID, PID]
    note = frame(trace, "quality").filter(pl.col("kind") == "activity_without_launch")
    assert note["count"].to_list() == [2]


def test_calls_of_every_vendor_are_launches(trace_of: Build) -> None:
    trace = trace_of(
        [
            call("cudaLaunchKernel", 0, 5, correlation=1),
            complete("cuLaunchKernel", 9, 5, cat="cuda_driver",
                     args={"correlation": 2, "cbid": 307}),
            complete("hipLaunchKernel", 19, 5, cat="cuda_runtime",
                     args={"correlation": 3, "cid": 211, "bytes": "4"}),
            complete("zeCommandQueue", 29, 5, cat="xpu_runtime",
                     args={"correlation": 4}),
            complete("cudaGetDevice", 39, 5, cat="cuda_runtime"),
            kernel("k", 50, 1, correlation=1),
        ]
    )  # fmt: skip
    launches = frame(trace, "launches")
    assert launches["correlation"].to_list() == [1, 2, 3, 4]
    assert launches["process"].unique().to_list() == [PID]


@pytest.mark.parametrize(
    ("name", "words", "kind"),
    [
        ("Memcpy HtoD (Pageable -> Device)", None, "h2d"),
        ("Memcpy DtoH (Device -> Pinned)", None, "d2h"),
        ("Memcpy DtoD (Device -> Device)", None, "local_copy"),
        ("Memcpy PtoP (Device -> Device)", None, "p2p_copy"),
        ("Memcpy (Device -> Pageable)", None, "d2h"),
        ("CopyHostToDevice", None, "h2d"),
        ("Memcpy", "DtoH", "d2h"),
        ("Memcpy", "HostToDevice", "h2d"),
    ],
)
def test_a_copy_goes_where_its_name_says(
    name: str, words: str | None, kind: str, trace_of: Build
) -> None:
    args = {"bytes": 64} if words is None else {"bytes": 64, "kind": words}
    activity = frame(trace_of([copy(name, **args)]), "device_activity")
    assert activity.select("kind", "bytes").rows() == [(kind, 64)]


def test_copies_within_the_host_are_no_activity(trace_of: Build) -> None:
    trace = trace_of([copy("Memcpy HtoH (Pageable -> Pinned)"), kernel("k", 9, 1)])
    assert frame(trace, "device_activity")["kind"].to_list() == ["kernel"]


def test_a_copy_that_says_nothing_is_local_and_counted(trace_of: Build) -> None:
    trace = trace_of([copy("Memcpy (Unknown)")])
    assert frame(trace, "device_activity")["kind"].to_list() == ["local_copy"]
    kinds = frame(trace, "quality")["kind"].to_list()
    assert "copies_without_direction" in kinds


def test_collectives_are_told_by_their_names(trace_of: Build) -> None:
    trace = trace_of(
        [
            kernel("ncclKernel_AllReduce_RING_LL_Sum_float", 0, 5),
            kernel("ncclDevKernel_Broadcast", 10, 5),
            kernel("elementwise_kernel", 20, 5),
        ]
    )
    kinds = frame(trace, "device_activity")["kind"].to_list()
    assert kinds == ["collective", "collective", "kernel"]


def test_launch_shapes_are_numbered_once(trace_of: Build) -> None:
    shape = {
        "grid": [8, 2, 1], "block": [128, 1, 1], "registers per thread": 32,
        "shared memory": 0, "est. achieved occupancy %": 0,
    }  # fmt: skip
    trace = trace_of(
        [
            kernel("a", 0, 5, **shape),
            kernel("b", 10, 5, **shape),
            kernel("c", 20, 5, **{**shape, "registers per thread": 40}),
            kernel("of a graph on ROCm", 30, 5),
        ]
    )
    check_all(trace)
    activity = frame(trace, "device_activity")
    assert activity["geometry"].to_list() == [0, 0, 1, None]
    geometries = frame(trace, "geometries")
    assert geometries.select(
        "registers", "shared_memory_bytes", "block_x", "grid_x", "grid_y",
        # What the grid achieves is no theoretical occupancy.
        "occupancy_percent",
    ).rows() == [(32, 0, 128, 8, 2, None), (40, 0, 128, 8, 2, None)]  # fmt: skip


def test_impossible_launch_details_are_unknown_and_counted(trace_of: Build) -> None:
    trace = trace_of(
        [
            kernel("k", 0, 5, **{
                "registers per thread": 17_179_869_185,
                "block": [1024, 1024, 1],
                "grid": [0, 1, 1],
                "shared memory": -4,
            }),
        ]
    )  # fmt: skip
    geometries = trace.table("geometries")
    assert isinstance(geometries, Unavailable)
    assert geometries.code == "NO_KERNEL_DETAILS"
    notes = frame(trace, "quality").filter(
        pl.col("kind") == "impossible_launch_details"
    )
    assert sorted(notes["scope"]) == [
        "block", "grid", "registers", "shared memory",
    ]  # fmt: skip


def test_rocm_devices_are_paired_where_there_is_one_of_each(trace_of: Build) -> None:
    listed = [{"id": 0, "name": "AMD Instinct MI300X VF", "computeMajor": 9,
               "computeMinor": 4, "numSms": 304, "totalGlobalMem": 2**37,
               "warpSize": 64}]  # fmt: skip
    trace = trace_of(
        [kernel("k", 0, 5, device=2, stream=0)],
        deviceProperties=listed,
        hip_runtime_version=60443483,
    )
    devices = frame(trace, "devices")
    assert devices.select(
        "device", "name", "vendor", "cores", "memory_bytes", "activities"
    ).rows() == [(2, "AMD Instinct MI300X VF", "AMD", 304, 2**37, 1)]
    assert "device_ids_differ" in frame(trace, "quality")["kind"].to_list()


def test_devices_that_differ_in_number_stay_unmatched(trace_of: Build) -> None:
    listed = [{"id": 0, "name": "NVIDIA A100"}, {"id": 1, "name": "NVIDIA A100"}]
    trace = trace_of([kernel("k", 0, 5, device=9)], deviceProperties=listed)
    devices = frame(trace, "devices")
    assert devices.select("device", "name", "vendor", "activities").rows() == [
        (0, "NVIDIA A100", "Nvidia", 0),
        (1, "NVIDIA A100", "Nvidia", 0),
        (9, None, None, 1),
    ]
    notes = frame(trace, "quality").filter(pl.col("kind") == "device_ids_differ")
    assert notes["severity"].to_list() == ["warning"]


def test_absent_devices_have_a_reason(trace_of: Build) -> None:
    nothing = trace_of([op("aten::mm", 0, 5)])
    listed = trace_of([call("cudaMalloc", 0, 5)], deviceProperties=[{"id": 0}])
    codes = {
        name: table.code
        for name in ("device_activity", "geometries", "launches", "devices")
        if isinstance(table := nothing.table(name), Unavailable)
    }
    assert codes == dict.fromkeys(
        ("device_activity", "geometries", "launches", "devices"), "NO_DEVICE_PLANE"
    )
    silent = listed.table("device_activity")
    assert isinstance(silent, Unavailable)
    assert silent.code == "NO_DEVICE_EVENTS"


def test_scalars_do_not_count_as_operands(trace_of: Build) -> None:
    operands = {
        "External id": 1,
        "Input Dims": [[8, 4], [], [[2, 2], [3]], [4]],
        "Input type": ["c10::Half", "Double", "float", ""],
    }
    trace = trace_of(
        [
            complete("aten::cat", 0, 30, args=operands),
            call("cudaLaunchKernel", 10, 5, correlation=3),
            kernel("k", 40, 4, correlation=3),
        ]
    )
    (handle,) = frame(trace, "device_activity")["shape"]
    assert trace.strings[handle] == "c10::Half[8,4], float[2,2], float[3]"


@pytest.mark.parametrize(
    ("category", "name", "said", "kind"),
    [
        ("gpu_memcpy", "CopyDeviceToDevice", {}, "local_copy"),
        ("gpu_memcpy", "CopyHostToDevice", {"kind": "unknown"}, "h2d"),
        ("gpu_memcpy", "Memcpy PtoP (Device -> Device)", {}, "p2p_copy"),
        ("gpu_memcpy", "Copy", {"kind": "PeerToPeer"}, "p2p_copy"),
        ("kernel", "CopyDeviceToDevice", {}, "local_copy"),
        ("kernel", "CopyDeviceToHost", {}, "d2h"),
        ("kernel", "hipMemcpyAsync", {"kind": "HostToDevice"}, "h2d"),
        ("kernel", "__amd_rocclr_copyBuffer.kd", {}, "local_copy"),
        ("kernel", "__amd_rocclr_fillBufferAligned", {}, "memset"),
        ("kernel", "copy_kernel_vectorized", {}, "kernel"),
    ],
)
def test_copies_are_copies_on_every_vendor(
    trace_of: Build, category: str, name: str, said: dict[str, Any], kind: str
) -> None:
    args = {"device": 0, "stream": 7, "bytes": 64, **said}
    event = complete(name, 5, 5, cat=category, pid=0, tid=7, args=args)
    found = frame(trace_of([event]), "device_activity")
    assert found.select("kind", "bytes").rows() == [(kind, 64)]


def test_a_record_about_a_collective_is_not_the_op_of_its_kernel(
    trace_of: Build,
) -> None:
    trace = trace_of(
        [
            op("c10d::allreduce_", 0, 50, 1),
            op("record_param_comms", 5, 40, 2),
            call("cudaLaunchKernel", 10, 5, correlation=7),
            kernel("ncclDevKernel", 30, 5, correlation=7, **{"External id": 2}),
        ]
    )
    check_all(trace)
    assert ops_of(trace) == ["c10d::allreduce_"]
    types = frame(trace, "event_types")
    said = dict(types.select("name", "op").rows())
    assert said["record_param_comms"] is False
    assert said["c10d::allreduce_"] is True


@pytest.mark.parametrize(
    "category", ["mtia_ccp_events", "mtia_runtime", "hpu_op", "privateuse1_driver"]
)
def test_work_of_a_device_that_nobody_understands_is_said_to_be_there(
    trace_of: Build, category: str
) -> None:
    trace = trace_of(
        [op("aten::mm", 0, 50, 1), complete("work", 5, 5, cat=category, pid=3, tid=1)]
    )
    check_all(trace)
    for name in ("device_activity", "devices"):
        absent = trace.table(name)
        assert isinstance(absent, Unavailable)
        assert absent.code == "UNKNOWN_DEVICE"
        assert category in absent.reason
    notes = {note.kind: note for note in trace.quality_notes()}
    assert notes["device_not_understood"].count == 1


def test_arrows_to_a_device_without_a_category_show_that_it_worked(
    trace_of: Build,
) -> None:
    arrow = {"name": "async_npu", "cat": "async_npu", "id": 8, "pid": 1, "tid": 1}
    trace = trace_of(
        [
            op("aten::zeros", 0, 50, 1),
            arrow | {"ph": "s", "ts": 10},
            arrow | {"ph": "f", "bp": "e", "ts": 60, "pid": 800, "tid": 3},
            {"name": "ZerosLike", "ph": "X", "ts": 60, "dur": 5, "pid": 800, "tid": 3},
        ]
    )
    check_all(trace)
    absent = trace.table("device_activity")
    assert isinstance(absent, Unavailable)
    assert absent.code == "UNKNOWN_DEVICE"
    assert "1 events of the category async_npu" in absent.reason


def test_calls_of_a_foreign_runtime_with_known_kernels_are_understood(
    trace_of: Build,
) -> None:
    trace = trace_of(
        [complete("launch", 0, 5, cat="xpu_runtime"), kernel("gemm", 10, 5)]
    )
    assert frame(trace, "device_activity").height == 1
    kinds = {note.kind for note in trace.quality_notes()}
    assert "device_not_understood" not in kinds


def test_of_a_rank_of_several_no_device_is_called_unused(trace_of: Build) -> None:
    listed = [{"id": number, "name": "GPU"} for number in range(8)]
    trace = trace_of(
        [kernel("gemm", 10, 5)],
        deviceProperties=listed,
        distributedInfo={"backend": "nccl", "rank": 3, "world_size": 16},
    )
    (note,) = [one for one in trace.quality_notes() if one.kind == "idle_devices"]
    assert "one of 16" in note.message
    assert "idle" not in note.message
    assert frame(trace, "environment").select("rank", "processes").rows() == [(3, 16)]


def test_activities_of_a_stream_that_overlap_are_noted(trace_of: Build) -> None:
    """The second begins 5 µs before the first ends; the third, on another stream, 7."""
    trace = trace_of(
        [
            kernel("a", 10, 20, stream=7),
            kernel("b", 25, 20, stream=7),
            kernel("c", 23, 20, stream=9),
        ]
    )
    (note,) = (
        note for note in trace.quality_notes() if note.kind == "overlapping_activity"
    )
    assert note.count == 1
    assert "by up to 5.00 µs" in note.message
