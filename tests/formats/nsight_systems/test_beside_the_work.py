"""Memory of the driver, graphs as a whole, turns on cores, metrics of GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest
from tests.support.traces.kineto import check_all, frame
from tests.support.traces.nsight import (
    KERNEL,
    NVTX,
    RUNTIME,
    call,
    global_id,
    kernel,
    read_file,
    span,
    write,
)

from stepscope.derive.memory.replay import memory_replay
from stepscope.derive.profile_data import ProfileData
from stepscope.derive.trace_rows.counters import counter_curves
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from pathlib import Path

    from stepscope.trace.model import TraceData

MEMORY = "CUDA_GPU_MEMORY_USAGE_EVENTS"
GRAPHS = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
RANGE = {NVTX: [span("step 1", 0, 100_000_000)]}


def block(start: int, size: int, operation: int, **more: Any) -> dict[str, Any]:
    row = {
        "start": start,
        "bytes": size,
        "memoryOperationType": operation,
        "address": 0x7F00,
        "deviceId": 0,
        "memKind": 2,
        "globalPid": global_id(),
    }
    return {**row, **more}


def of(trace: TraceData) -> ProfileData:
    return ProfileData("a", {trace.host: trace})


# ------------------------------------------------------------------------- memory


def test_what_the_driver_gave_and_took_back_is_replayed(tmp_path: Path) -> None:
    """100 bytes, 50 beside them, the first 100 back: the peak is 150."""
    rows = {
        **RANGE,
        MEMORY: [
            block(10, 100, 0, address=1),
            block(30, 100, 1, address=1),
            block(20, 50, 0, address=2),
            block(25, 7, 0, address=3, memKind=1),
        ],
        "TARGET_INFO_GPU": [
            {"name": "H100", "id": 3, "cuDevice": 0, "totalMemory": 80}
        ],
    }
    trace = read_file(write(tmp_path / "a.sqlite", rows))
    check_all(trace)
    found = frame(trace, "allocations")
    columns = ("start_ps", "kind", "allocator", "allocated_bytes", "capacity_bytes")
    assert found.select(columns).rows() == [
        (10_000, "allocate", "GPU_0_driver", 100, 80),
        (20_000, "allocate", "GPU_0_driver", 50, 80),
        (25_000, "allocate", "pinned host memory", 7, None),
        (30_000, "deallocate", "GPU_0_driver", 100, 80),
    ]
    replay = of(trace).derived(trace.host, memory_replay)
    assert not isinstance(replay, Unavailable)
    device, pinned = replay.memories
    assert device.in_use_bytes.tolist() == [100, 150, 50]
    assert pinned.in_use_bytes.tolist() == [7]
    assert (device.unmatched, device.reused) == (0, 0)
    tracks = frame(trace, "tracks").select("plane", "name", "kind").rows()
    assert ("/device:GPU:0", "memory of the driver", "asynchronous") in tracks


def test_an_address_of_all_64_bits_is_no_negative_one(tmp_path: Path) -> None:
    rows = {**RANGE, MEMORY: [block(10, 100, 0, address=-1)]}
    found = frame(read_file(write(tmp_path / "a.sqlite", rows)), "allocations")
    assert found["address"].to_list() == [2**64 - 1]


def test_memory_of_another_process_is_another_memory(tmp_path: Path) -> None:
    rows = {
        **RANGE,
        MEMORY: [block(10, 5, 0), block(11, 6, 0, globalPid=global_id(process=9))],
    }
    found = frame(read_file(write(tmp_path / "a.sqlite", rows)), "allocations")
    names = ["GPU_0_driver", "GPU_0_driver of process 9"]
    assert found["allocator"].to_list() == names


def test_blocks_without_a_size_or_an_operation_are_counted(tmp_path: Path) -> None:
    rows = {
        **RANGE,
        MEMORY: [block(10, 5, 0), block(11, 0, 0), block(12, 5, 7), block(13, -1, 1)],
    }
    trace = read_file(write(tmp_path / "a.sqlite", rows))
    assert len(frame(trace, "allocations")) == 1
    (note,) = [it for it in trace.quality_notes() if it.kind == "refused_events"]
    assert note.count == 3


def test_without_memory_events_the_option_that_records_them_is_said(
    tmp_path: Path,
) -> None:
    found = read_file(write(tmp_path / "a.sqlite", RANGE)).table("allocations")
    assert isinstance(found, Unavailable)
    assert "--cuda-memory-usage=true" in found.remedy


# ------------------------------------------------------------------------- graphs


def graph(start: int, end: int, number: int, **more: Any) -> dict[str, Any]:
    row = {
        "start": start,
        "end": end,
        "deviceId": 0,
        "streamId": 7,
        "contextId": 1,
        "correlationId": number,
        "globalPid": global_id(),
        "graphId": 3,
    }
    return {**row, **more}


def test_a_graph_as_a_whole_is_one_piece_of_work_of_its_launch(tmp_path: Path) -> None:
    rows = {
        RUNTIME: [call("cudaGraphLaunch_v10000", 0, 9, 1)],
        KERNEL: [kernel("k", 200, 300, 2)],
        GRAPHS: [graph(20, 120, 1), graph(0, 0, 4), graph(5, 9, 5, deviceId=2**31 - 1)],
    }
    trace = read_file(write(tmp_path / "a.sqlite", rows))
    check_all(trace)
    work = frame(trace, "device_activity")
    columns = ("kind", "correlation", "start_ps", "dur_ps", "geometry")
    whole, alone = work.select(columns).rows()
    assert whole == ("kernel", 1, 20_000, 100_000, None)
    assert alone[:2] == ("kernel", 2)
    assert frame(trace, "event_types")["name"].to_list() == [
        "cudaGraphLaunch",
        "CUDA graph 3",
        "k",
    ]
    notes = {note.kind: note for note in trace.quality_notes()}
    assert notes["graphs_as_a_whole"].count == 2
    assert "--cuda-graph-trace=node" in (notes["graphs_as_a_whole"].remedy or "")
    # One without times, one that began on the host.
    refused = [it for it in trace.quality_notes() if it.kind == "refused_events"]
    assert sum(it.count for it in refused) == 2


# ------------------------------------------------------------------ turns on cores


def turn(start: int, core: int, thread: int, *, on: bool) -> dict[str, Any]:
    ids = {"globalTid": thread, "cpu": core}
    return {"start": start, "isSchedIn": int(on), **ids}


MAIN = global_id(thread=1)
LOADER = global_id(thread=2)
OTHER = global_id(process=77, thread=77)


def off_core(trace: TraceData) -> list[tuple[str, int, int]]:
    tracks = frame(trace, "tracks").with_row_index("track")
    (track,) = tracks.filter(pl.col("name") == "main (1): without a core")["track"]
    rows = frame(trace, "events").filter(pl.col("track") == track)
    names = frame(trace, "event_types")["name"].gather(rows["type"]).to_list()
    return list(
        zip(names, rows["start_ps"] // 1000, rows["dur_ps"] // 1000, strict=True)
    )


def test_a_thread_without_a_core_waits_or_another_one_has_it(tmp_path: Path) -> None:
    rows = {
        RUNTIME: [call("cudaLaunchKernel_v7000", 0, 5, 1)],
        "OSRT_API": [{"start": 18, "end": 61, "nameId": "poll", "globalTid": MAIN}],
        "ThreadNames": [
            {"nameId": "main", "globalTid": MAIN},
            {"nameId": "loader", "globalTid": LOADER},
            {"nameId": "s3cret", "globalTid": OTHER},
        ],
        "SCHED_EVENTS": [
            turn(0, 4, MAIN, on=True),
            turn(20, 4, MAIN, on=False),
            turn(60, 4, MAIN, on=True),
            turn(100, 4, MAIN, on=False),
            turn(101, 4, LOADER, on=True),
            turn(140, 4, LOADER, on=False),
            turn(150, 5, MAIN, on=True),
            turn(200, 5, MAIN, on=False),
            turn(205, 5, OTHER, on=True),
            turn(230, 5, MAIN, on=True),
            turn(240, 5, MAIN, on=False),
            turn(250, 5, MAIN, on=True),
            turn(260, 5, MAIN, on=False),
        ],
    }
    trace = read_file(write(tmp_path / "a.sqlite", rows))
    check_all(trace)
    assert off_core(trace) == [
        ("off the core: waits in poll", 20, 40),
        ("off the core: the core runs loader (2)", 100, 50),
        ("off the core: the core runs another program", 200, 30),
        ("off the core: no recorded thread took the core", 240, 10),
    ]
    assert "s3cret" not in str(frame(trace, "event_types")["name"].to_list())


def test_the_use_of_the_cores_is_that_of_the_program(tmp_path: Path) -> None:
    """Of 40 ms one thread runs 25 and the last 5, another one the last 10."""
    ms = 1_000_000
    rows = {
        RUNTIME: [call("cudaLaunchKernel_v7000", 0, 5, 1)],
        "SCHED_EVENTS": [
            turn(0, 4, MAIN, on=True),
            turn(25 * ms, 4, MAIN, on=False),
            turn(35 * ms, 4, MAIN, on=True),
            turn(40 * ms, 4, MAIN, on=False),
            turn(30 * ms, 5, LOADER, on=True),
            turn(40 * ms, 5, LOADER, on=False),
            turn(0, 6, OTHER, on=True),
            turn(40 * ms, 6, OTHER, on=False),
        ],
    }
    trace = read_file(write(tmp_path / "a.sqlite", rows))
    (curve,) = curves(trace)
    assert (curve.name, curve.unit) == ("process CPU", "percent")
    assert (curve.time_ps // 10**10).tolist() == [1, 2, 3, 4]
    assert curve.value.tolist() == pytest.approx([100, 100, 50, 150])


def curves(trace: TraceData) -> Any:
    found = of(trace).derived(trace.host, counter_curves)
    assert not isinstance(found, Unavailable)
    return [it for it in found if it.source == "recorded"]


# ------------------------------------------------------------------ metrics of GPUs


def test_metrics_of_a_gpu_are_curves_of_its_device(tmp_path: Path) -> None:
    """Number 2 of the file's list is device 0; a type's lowest bits are that number."""
    kind = 5 << 8 | 2
    metrics = [
        {"typeId": kind, "metricId": 1, "metricName": "SMs Active [Throughput %]"},
        {"typeId": kind, "metricId": 2, "metricName": "GPC Clock Frequency [MHz]"},
    ]
    rows = {
        **RANGE,
        "TARGET_INFO_GPU": [{"name": "H100", "id": 2, "cuDevice": 0}],
        "TARGET_INFO_GPU_METRICS": metrics,
        "GPU_METRICS": [
            {"timestamp": 10, "typeId": kind, "metricId": 1, "value": 40},
            {"timestamp": 20, "typeId": kind, "metricId": 1, "value": 60.5},
            {"timestamp": 20, "typeId": kind, "metricId": 2, "value": 1980},
            {"timestamp": 30, "typeId": kind, "metricId": 9, "value": 1},
            {"timestamp": 40, "typeId": kind, "metricId": 1, "value": "much"},
        ],
    }
    trace = read_file(write(tmp_path / "a.sqlite", rows))
    check_all(trace)
    found = {(it.name, it.unit): it for it in curves(trace)}
    active = found["GPU 0 SMs Active", "percent"]
    assert active.time_ps.tolist() == [10_000, 20_000]
    assert active.value.tolist() == [40.0, 60.5]
    assert found["GPU 0 GPC Clock Frequency", "MHz"].value.tolist() == [1980.0]
    (note,) = [it for it in trace.quality_notes() if it.kind == "refused_events"]
    assert note.count == 2


def test_many_values_of_a_metric_become_means_that_keep_their_sum(
    tmp_path: Path,
) -> None:
    count = 3 * 2**12
    rows = {
        **RANGE,
        "TARGET_INFO_GPU_METRICS": [
            {"typeId": 0, "metricId": 1, "metricName": "A [%]"}
        ],
        "GPU_METRICS": [
            {"timestamp": at, "typeId": 0, "metricId": 1, "value": at % 5}
            for at in range(count)
        ],
    }
    (curve,) = curves(read_file(write(tmp_path / "a.sqlite", rows)))
    assert len(curve.value) == 2**12
    assert np.allclose(curve.value.sum() * 3, sum(at % 5 for at in range(count)))
