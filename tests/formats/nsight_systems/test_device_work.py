"""Kernels, copies and memsets of databases become what ran on devices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.traces.kineto import check_all, frame
from tests.support.traces.nsight import (
    KERNEL,
    MEMCPY,
    MEMSET,
    NVTX,
    RUNTIME,
    SYNC,
    call,
    copy,
    global_id,
    kernel,
    read_file,
    span,
    write,
)

from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from pathlib import Path

    from stepscope.trace.model import TraceData


def test_a_kernel_carries_its_time_its_launch_and_its_shape(tmp_path: Path) -> None:
    trace = read_file(
        write(
            tmp_path / "a.sqlite",
            {
                KERNEL: [kernel("void gemm(float*)", 1_500, 4_000, 9)],
                RUNTIME: [call("cudaLaunchKernel_v7000", 1_000, 1_200, 9)],
            },
        )
    )
    check_all(trace)
    work, calls = frame(trace, "device_activity"), frame(trace, "launches")
    types = frame(trace, "event_types")["name"]
    assert work.select("kind", "start_ps", "dur_ps", "correlation").rows() == [
        ("kernel", 500_000, 2_500_000, 9)
    ]
    assert types[work["type"][0]] == "void gemm(float*)"
    assert types[calls["type"][0]] == "cudaLaunchKernel"
    assert work["process"].to_list() == calls["process"].to_list() == [4242]
    assert frame(trace, "geometries").row(0) == (
        *(32, 256, 1024, 1280),
        *(128, 1, 1, 2, 2, 2),
        None,
    )
    assert frame(trace, "tracks")["kind"].to_list() == ["thread", "stream"]


@pytest.mark.parametrize(
    ("row", "name", "kind"),
    [
        (
            {"copyKind": 1, "srcKind": 0, "dstKind": 2},
            "Memcpy HtoD (Pageable -> Device)",
            "h2d",
        ),
        (
            {"copyKind": 2, "srcKind": 2, "dstKind": 1},
            "Memcpy DtoH (Device -> Pinned)",
            "d2h",
        ),
        (
            {"copyKind": 3, "srcKind": 1, "dstKind": 3},
            "Memcpy HtoD (Pinned -> Array)",
            "h2d",
        ),
        ({"copyKind": 8}, "Memcpy DtoD", "local_copy"),
        ({"copyKind": 10}, "Memcpy PtoP", "p2p_copy"),
        (
            {"copyKind": 8, "srcDeviceId": 0, "dstDeviceId": 1},
            "Memcpy PtoP",
            "p2p_copy",
        ),
        ({"copyKind": 11}, "Memcpy HtoD (unified memory)", "h2d"),
        (
            {"copyKind": 0, "srcKind": 2, "dstKind": 0},
            "Memcpy DtoH (Device -> Pageable)",
            "d2h",
        ),
        ({"copyKind": 99}, "Memcpy Unknown", "local_copy"),
    ],
)
def test_a_copy_says_what_it_moved_between(
    tmp_path: Path, row: dict[str, int], name: str, kind: str
) -> None:
    file = write(tmp_path / "a.sqlite", {MEMCPY: [{**copy(1, 5, 9, 1), **row}]})
    trace = read_file(file)
    work = frame(trace, "device_activity")
    assert work.select("kind", "bytes").rows() == [(kind, 4096)]
    assert frame(trace, "event_types")["name"].to_list() == [name]
    kinds = {note.kind for note in trace.quality_notes()}
    assert ("copies_without_direction" in kinds) == (name == "Memcpy Unknown")


def test_a_copy_within_the_host_is_an_event_and_no_work_of_the_device(
    tmp_path: Path,
) -> None:
    trace = read_file(write(tmp_path / "a.sqlite", {MEMCPY: [copy(9, 5, 9, 1)]}))
    assert isinstance(trace.table("device_activity"), Unavailable)
    assert len(frame(trace, "events")) == 1


def test_of_memory_that_moves_by_itself_no_call_is_known(tmp_path: Path) -> None:
    rows = {MEMCPY: [copy(11, 5, 9, 0)], RUNTIME: [call("cuInit", 0, 3, 0)]}
    trace = read_file(write(tmp_path / "a.sqlite", rows))
    assert frame(trace, "device_activity")["correlation"].to_list() == [None]
    assert isinstance(trace.table("launches"), Unavailable)


def test_rows_without_a_device_or_that_end_before_they_begin_are_counted(
    tmp_path: Path,
) -> None:
    rows = {
        KERNEL: [
            kernel("fine", 0, 10, 1),
            kernel("backward", 30, 20, 2),
            kernel("nowhere", 30, 40, 3, deviceId=None),
            kernel("far", 10**18, 10**18 + 5, 4),
            kernel("text", "soon", 40, 5),  # type: ignore[arg-type]
            kernel("alike", 40, 40, None),
        ]
    }
    trace = read_file(write(tmp_path / "a.sqlite", rows))
    check_all(trace)
    assert len(frame(trace, "device_activity")) == 2
    refused = {
        note.scope.partition(",")[0]: note.count
        for note in trace.quality_notes()
        if note.kind == "refused_events"
    }
    assert refused == {
        "without a time": 2,
        "without a device": 1,
        "weeks away from all other events": 1,
    }


def test_impossible_launch_shapes_are_unknown(tmp_path: Path) -> None:
    file = write(
        tmp_path / "a.sqlite",
        {KERNEL: [kernel("k", 0, 5, 1, registersPerThread=2**40, gridX=-1)]},
    )
    trace = read_file(file)
    shape = frame(trace, "geometries").row(0, named=True)
    assert shape["registers"] is None
    assert shape["grid_x"] is None
    assert shape["block_x"] == 128
    found = {
        note.scope
        for note in trace.quality_notes()
        if note.kind == "impossible_launch_details"
    }
    assert found == {"registers", "grid"}


def test_a_name_without_text_is_its_number_and_noted(tmp_path: Path) -> None:
    file = write(
        tmp_path / "a.sqlite",
        {KERNEL: [kernel("lost", 0, 5, 1)], MEMSET: [copy(1, 6, 9, 2)]},
        "DELETE FROM StringIds",
    )
    trace = read_file(file)
    types = frame(trace, "event_types")
    assert types["name"].to_list() == ["#1", "Memset"]
    assert types["known"].to_list() == [False, True]
    assert "names_missing" in {note.kind for note in trace.quality_notes()}


def test_waits_lie_beside_the_streams_on_the_device_of_their_context(
    tmp_path: Path,
) -> None:
    """Some releases write device 0 for every context."""
    other = {"deviceId": 1, "contextId": 2, "streamId": 15}
    wait = {
        "start": 20,
        "end": 30,
        "syncType": 3,
        "deviceId": 0,
        "contextId": 2,
        "streamId": 15,
        "globalPid": global_id(),
    }
    whole = {**wait, "syncType": 4, "streamId": 2**32 - 1}
    file = write(
        tmp_path / "a.sqlite",
        {
            KERNEL: [kernel("a", 0, 5, 1), kernel("b", 0, 5, 2, **other)],
            SYNC: [wait, whole],
        },
    )
    tracks = frame(read_file(file), "tracks")
    assert tracks.select("device", "kind", "name").rows() == [
        (0, "stream", "stream 7"),
        (1, "stream", "stream 15"),
        (1, "asynchronous", "synchronisation"),
        (1, "asynchronous", "stream 15: synchronisation"),
    ]


def clocked(path: Path, late: int, *, drift: int = 0) -> TraceData:
    """Ten kernels, each waited for, on a device whose clock is late by some time."""
    at = range(0, 10**9, 10**8)
    off = {t: late + drift * place for place, t in enumerate(at)}
    wait = {"syncType": 3, "deviceId": 0, "contextId": 1, "streamId": 7}
    wait["globalPid"] = global_id()
    # A release that writes a stream's waits for events, which return at once, as waits.
    at_once = {**wait, "start": 10**8 + 10, "end": 10**8 + 12, "correlationId": 77}
    file = write(
        path / "a.sqlite",
        {
            KERNEL: [kernel("k", t + o, t + o + 90, t + 1) for t, o in off.items()],
            RUNTIME: [
                *(call("cudaLaunchKernel_v7000", t, t + 9, t + 1) for t in at),
                call("cudaStreamWaitEvent_v3020", 10**8 + 9, 10**8 + 13, 77),
            ],
            SYNC: [
                *(
                    {"start": t + 10, "end": t + 100, **wait, "correlationId": None}
                    for t in at
                ),
                at_once,
            ],
        },
    )
    return read_file(file)


@pytest.mark.parametrize("late", [50_000_000, -50_000_000])
def test_a_clock_that_launches_and_waits_agree_on_is_put_right(
    tmp_path: Path, late: int
) -> None:
    """A kernel begins 0 ns after its call, and ends 10 ns before its wait does."""
    trace = clocked(tmp_path, late)
    assert after_their_calls(trace) == [5_000] * 10
    (note,) = [it for it in trace.quality_notes() if it.kind in CLOCKS]
    assert (note.kind, note.count) == ("device_clock_moved", 10)
    assert ("50.0 ms late" if late > 0 else "50.0 ms early") in note.message


def test_a_clock_that_is_right_is_left_alone(tmp_path: Path) -> None:
    trace = clocked(tmp_path, 0)
    kinds = {note.kind for note in trace.quality_notes()}
    assert not kinds & CLOCKS
    assert after_their_calls(trace) == [0] * 10


def test_a_clock_that_drifts_is_left_alone_and_noted(tmp_path: Path) -> None:
    trace = clocked(tmp_path, 50_000_000, drift=1_000_000)
    (note,) = [it for it in trace.quality_notes() if it.kind in CLOCKS]
    assert (note.kind, note.count) == ("late_device_clock", 10)
    assert "by up to 59.0 ms" in note.message
    late = [(50 + place) * 10**9 for place in range(10)]
    assert after_their_calls(trace) == late


CLOCKS = {"device_clock_moved", "late_device_clock"}


def after_their_calls(trace: TraceData) -> list[int]:
    work = frame(trace, "device_activity").select("correlation", "start_ps")
    called = frame(trace, "launches").select("correlation", called="start_ps")
    both = work.join(called, on="correlation").sort("called")
    return both.select(both["start_ps"] - both["called"])[:, 0].to_list()


def test_launches_whose_kernels_the_window_cut_off_are_counted(tmp_path: Path) -> None:
    file = write(
        tmp_path / "a.sqlite",
        {
            KERNEL: [kernel("k", 20, 30, 1)],
            RUNTIME: [
                call("cudaLaunchKernel_v7000", 0, 5, 1),
                call("cuLaunchKernelEx", 40, 45, 2),
                # A graph has as many kernels as it has nodes.
                call("cudaGraphLaunch_v10000", 50, 55, 3),
            ],
        },
    )
    (note,) = [it for it in read_file(file).quality_notes() if it.kind[:4] == "work"]
    assert note.count == 1
    assert note.message.startswith("1 of 2 kernel launches")


def test_graphs_that_were_recorded_as_a_whole_are_said_to_be_missing(
    tmp_path: Path,
) -> None:
    file = write(
        tmp_path / "a.sqlite",
        {
            NVTX: [span("step 1", 0, 9)],
            "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": [{"start": 2, "end": 8}],
        },
    )
    assert "graphs_as_a_whole" in {it.kind for it in read_file(file).quality_notes()}
