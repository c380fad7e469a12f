"""Several processes and GPUs in one database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.traces.kineto import check_all, frame
from tests.support.traces.nsight import (
    KERNEL,
    RUNTIME,
    call,
    global_id,
    kernel,
    read_file,
    span,
    write,
)

from stepscope.derive.profile_data import ProfileData
from stepscope.derive.verdicts.recorded_devices import device_signals
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from pathlib import Path

OTHER = 4300


def two_processes(**more: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Both use the correlation id 1, stream 7 and what they call device 0."""
    return {
        KERNEL: [
            kernel("ours", 100, 200, 1),
            kernel("theirs", 150, 250, 1, globalPid=global_id(OTHER)),
        ],
        RUNTIME: [
            call("cudaLaunchKernel_v7000", 10, 20, 1),
            call("cudaMalloc_v3020", 30, 40, 2),
            call("cuLaunchKernel", 50, 60, 1, globalTid=global_id(OTHER, 1)),
        ],
        **more,
    }


def test_one_correlation_id_means_a_call_of_each_process(tmp_path: Path) -> None:
    trace = read_file(write(tmp_path / "a.sqlite", two_processes()))
    check_all(trace)
    work, calls = frame(trace, "device_activity"), frame(trace, "launches")
    pairs = work.join(calls, on=["process", "correlation"])
    assert work["process"].to_list() == [4242, OTHER]
    assert len(pairs) == 2
    assert pairs["start_ps_right"].to_list() == [0, 40_000]


def test_equal_streams_of_two_processes_are_two_tracks(tmp_path: Path) -> None:
    tracks = frame(read_file(write(tmp_path / "a.sqlite", two_processes())), "tracks")
    assert tracks.select("plane", "name").rows() == [
        ("/host:CPU", "thread 1"),
        (f"/host:CPU [{OTHER}]", "thread 1"),
        ("/device:GPU:0", "stream 7 of process 4242"),
        ("/device:GPU:0", f"stream 7 of process {OTHER}"),
    ]


def test_equal_ordinals_are_told_apart_by_the_table_of_devices(tmp_path: Path) -> None:
    """The order of `id` is not that of the ordinals."""
    gpus = [
        {"id": 5, "cuDevice": 1, "name": "second", "clockRate": 1_410_000_000},
        {"id": 6, "cuDevice": 0, "name": "first", "clockRate": 1_980_000_000},
    ]
    of_process = [
        {"gpuId": 6, "cudaId": 0, "pid": 4242},
        {"gpuId": 5, "cudaId": 0, "pid": OTHER},
    ]
    rows = two_processes(TARGET_INFO_GPU=gpus, TARGET_INFO_CUDA_DEVICE=of_process)
    trace = read_file(write(tmp_path / "a.sqlite", rows))
    devices = frame(trace, "devices").select("device", "name", "clock_hz", "activities")
    assert devices.rows() == [
        (0, "first", 1_980_000_000, 1),
        (1, "second", 1_410_000_000, 1),
    ]
    assert "ambiguous_devices" not in {it.kind for it in trace.quality_notes()}


def test_equal_ordinals_without_that_table_are_one_device_in_doubt(
    tmp_path: Path,
) -> None:
    trace = read_file(write(tmp_path / "a.sqlite", two_processes()))
    assert frame(trace, "devices")["device"].to_list() == [0]
    assert "ambiguous_devices" in {it.kind for it in trace.quality_notes()}


@pytest.mark.parametrize(("names", "shown"), [("ab", None), ("aa", "a")])
def test_of_gpus_with_one_number_what_they_have_in_common_is_known(
    tmp_path: Path, names: str, shown: str | None
) -> None:
    """Where each process sees one GPU, each is its number 0."""
    gpus = [
        {"id": at, "cuDevice": 0, "name": name, "smCount": 108}
        for at, name in enumerate(names)
    ]
    rows = {KERNEL: [kernel("k", 0, 5, 1)], "TARGET_INFO_GPU": gpus}
    devices = frame(read_file(write(tmp_path / "a.sqlite", rows)), "devices")
    assert devices.select("name", "cores").rows() == [(shown, 108)]


def test_an_adapter_without_cuda_takes_no_name_from_the_gpu(tmp_path: Path) -> None:
    """A laptop lists the graphics of its processor first, as number 0."""
    without = dict.fromkeys(("cuDevice", "smCount", "computeMajor"))
    gpus = [
        {"id": 0, "name": "Intel(R) UHD Graphics 630", **without},
        {"id": 1, "name": "RTX 2060", "cuDevice": 0, "smCount": 30, "computeMajor": 7},
    ]
    rows = {KERNEL: [kernel("k", 0, 5, 1)], "TARGET_INFO_GPU": gpus}
    devices = frame(read_file(write(tmp_path / "a.sqlite", rows)), "devices")
    assert devices.select("device", "name", "cores").rows() == [(0, "RTX 2060", 30)]


def test_a_database_of_2020_names_its_gpus_by_ordinal_alone(tmp_path: Path) -> None:
    gpus = [{"deviceId": at, "name": "A100", "isDiscrete": 1} for at in range(2)]
    rows = {KERNEL: [kernel("k", 0, 5, 1)], "TARGET_INFO_GPU": gpus}
    devices = frame(read_file(write(tmp_path / "a.sqlite", rows)), "devices")
    shown = devices.select("device", "name", "cc_major", "cores", "activities")
    assert shown.rows() == [(0, "A100", None, None, 1), (1, "A100", None, None, 0)]


@pytest.mark.parametrize(
    ("called", "code"),
    [
        (["cudaGetDeviceProperties_v12000", "cudaFree_v3020"], "NO_DEVICE_PLANE"),
        (["cudaFree_v3020", "cuLaunchKernelEx"], "NO_DEVICE_EVENTS"),
        (["cudaMemcpyAsync_v3020"], "NO_DEVICE_EVENTS"),
    ],
)
def test_a_device_that_no_call_gives_work_was_not_used(
    tmp_path: Path, called: list[str], code: str
) -> None:
    """Without calls nothing is proven: then CUDA may not have been traced."""
    calls = [call(it, 10 * at, 10 * at + 5, at) for at, it in enumerate(called, 1)]
    trace = read_file(write(tmp_path / "a.sqlite", {RUNTIME: calls}))
    missing = trace.table("device_activity")
    assert isinstance(missing, Unavailable)
    assert missing.code == code
    unused = code == "NO_DEVICE_PLANE"
    assert isinstance(trace.table("launches"), Unavailable) is unused


LOST = "Not all CUDA events might have been collected."


@pytest.mark.parametrize(
    ("called", "noted", "in_doubt"),
    [
        pytest.param([], None, True, id="nothing called"),
        pytest.param(["cuStreamCreate"], LOST, True, id="calls lost"),
        pytest.param(["cuStreamCreate"], "Profiling has started.", False, id="whole"),
        pytest.param(["cuLaunchKernelEx"], LOST, False, id="launched"),
    ],
)
def test_a_listed_gpu_without_work_was_used_only_where_calls_say_so(
    tmp_path: Path, called: list[str], noted: str | None, *, in_doubt: bool
) -> None:
    """Nsight Systems lists the machine's GPUs: a program that ended at once used none.

    What it says of events that it lost has the severity of a remark.
    """
    gpus = [{"id": 0, "cuDevice": 0, "name": "A100", "isDiscrete": 1}]
    rows = {"TARGET_INFO_GPU": gpus, "NVTX_EVENTS": [span("main", 0, 90)]}
    if called:
        rows[RUNTIME] = [call(it, 10, 15, 1) for it in called]
    if noted:
        rows["DIAGNOSTIC_EVENT"] = [{"severity": 1, "text": noted}]
    trace = read_file(write(tmp_path / "a.sqlite", rows))
    kinds = [note.kind for note in trace.quality_notes()]
    assert ("device_in_doubt" in kinds) is in_doubt
    found = ProfileData("run", {"vm": trace}).of_run(device_signals)
    assert found.in_doubt is in_doubt
