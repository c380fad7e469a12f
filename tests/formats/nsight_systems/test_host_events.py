"""Calls, ranges and what PyTorch writes into their names."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
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

from stepscope.derive.host.event_nesting import LaunchingOps, launching_ops
from stepscope.derive.profile_data import ProfileData
from stepscope.derive.steps.chosen import Steps, steps

if TYPE_CHECKING:
    from pathlib import Path

    from stepscope.trace.model import TraceData


def names_of(trace: TraceData) -> list[str]:
    types = frame(trace, "event_types")["name"]
    return types.gather(frame(trace, "events")["type"]).to_list()


def test_names_of_calls_lose_the_version_of_the_interface(tmp_path: Path) -> None:
    recorded = (
        "cudaLaunchKernel_v7000",
        "cudaMemcpyAsync_ptsz_v7000",
        "cudaStreamGetCaptureInfo_v2_v11030",
        "cuMemcpyHtoD_v2",
        "cuLaunchKernel_ptsz",
    )
    calls = [call(name, at, at + 1, at + 1) for at, name in enumerate(recorded)]
    trace = read_file(write(tmp_path / "a.sqlite", {RUNTIME: calls}))
    assert names_of(trace) == [
        "cudaLaunchKernel",
        "cudaMemcpyAsync",
        "cudaStreamGetCaptureInfo_v2",
        "cuMemcpyHtoD_v2",
        "cuLaunchKernel",
    ]


def test_a_call_that_older_releases_record_twice_counts_once(tmp_path: Path) -> None:
    """The second record, of class 67, carries the stack; alone it is the call."""
    calls = [
        call("cudaMalloc", 10, 90, 1, eventClass=67),
        call("cudaMalloc_v3020", 11, 80, 1),
        call("cudaFree", 100, 120, 2, eventClass=67),
    ]
    trace = read_file(write(tmp_path / "a.sqlite", {RUNTIME: calls}))
    assert names_of(trace) == ["cudaMalloc", "cudaFree"]
    assert frame(trace, "launches")["dur_ps"].to_list() == [69_000, 20_000]


def test_ranges_of_pytorch_are_ops_and_their_ids_are_values(tmp_path: Path) -> None:
    ranges = [
        span("forward, op_id = 3", 0, 90),
        span("aten::mul, seq = 12, op_id = 4, sizes = [[2, 3], []]", 1, 20),
        span("MulBackward0, seq = 12", 30, 40),
        span("nvFuser::run", 50, 60),
        span("ncclAllReduce", 70, 80, domainId=2),
    ]
    trace = read_file(write(tmp_path / "a.sqlite", {NVTX: ranges}))
    check_all(trace)
    types = frame(trace, "event_types").select("name", "op", "annotation")
    assert types.rows() == [
        ("forward", False, True),
        ("aten::mul", True, False),
        ("MulBackward0", True, False),
        ("nvFuser::run", None, None),
        ("ncclAllReduce", None, None),
    ]
    values = frame(trace, "stats")
    texts = pl.Series(trace.strings)
    keys = texts.gather(values["key"]).to_list()
    shown = [
        texts[value] if kind == 7 else value
        for kind, value in values.select("kind", "value").rows()
    ]
    assert list(zip(values["event"], keys, shown, strict=True)) == [
        (0, "op_id", 3),
        (1, "op_id", 4),
        (1, "seq", 12),
        (1, "sizes", "[[2, 3], []]"),
        (2, "seq", 12),
    ]


def test_ranges_of_pyprof_are_named_by_what_they_call(tmp_path: Path) -> None:
    """DLProf puts them around calls of PyTorch; the story: a name filled two lines."""
    operand = "[{'name': '', 'type': 'tensor', 'shape': (6,), 'dtype': 'float32'}]"
    stack = "/<module>/net::cuda/Conv2d::_apply/<lambda>/cuda"
    ranges = [
        span(f"{{'traceMarker': ['a.py:34'], 'funcStack': '{stack}'}}", 0, 9),
        span(f"{{'mod': 'Tensor', 'op': 'cuda', 'args': {operand}}}", 1, 8),
        span("{'mod': 'torch.nn.functional', 'op': 'linear', 'args': []}", 10, 12),
        span("{'mode': 'train'}", 12, 13),
    ]
    trace = read_file(write(tmp_path / "a.sqlite", {NVTX: ranges}))
    check_all(trace)
    assert frame(trace, "event_types").select("name", "annotation").rows() == [
        ("cuda (a.py:34)", True),
        ("Tensor.cuda", True),
        ("torch.nn.functional.linear", True),
        ("{'mode': 'train'}", True),
    ]


def test_texts_of_ranges_may_be_ids_and_marks_have_no_length(tmp_path: Path) -> None:
    ranges = [
        {**span("", 0, 9), "text": None, "textId": "forward"},
        span("saved", 4, None, eventType=34),
        span("open", 5, None),
        span("DALI", 0, None, eventType=75),
    ]
    trace = read_file(write(tmp_path / "a.sqlite", {NVTX: ranges}))
    assert names_of(trace) == ["forward", "saved"]
    assert frame(trace, "events")["dur_ps"].to_list() == [9_000, 0]
    (note,) = [it for it in trace.quality_notes() if it.kind == "refused_events"]
    assert note.count == 1
    assert "open when the recording ended" in note.message


def test_ranges_with_two_ends_do_not_nest_among_those_of_their_thread(
    tmp_path: Path,
) -> None:
    ranges = [span("a", 0, 6, eventType=60), span("b", 3, 9, eventType=60)]
    tracks = frame(
        read_file(write(tmp_path / "a.sqlite", {NVTX: [*ranges, span("c", 1, 2)]})),
        "tracks",
    )
    assert tracks["kind"].to_list() == ["thread", "asynchronous"]
    assert (tracks["event_end"] - tracks["event_begin"]).to_list() == [1, 2]


def test_calls_of_the_system_count_on_threads_that_call_cuda(tmp_path: Path) -> None:
    other = global_id(thread=2)
    rows = {
        RUNTIME: [call("cudaMalloc_v3020", 5, 8, 1)],
        "OSRT_API": [
            {"start": 0, "end": 3, "nameId": "read", "globalTid": global_id(thread=1)},
            {"start": 0, "end": 99, "nameId": "poll", "globalTid": other},
        ],
        "ThreadNames": [
            {"nameId": "python", "globalTid": global_id(thread=1)},
            {"nameId": "secret", "globalTid": global_id(process=7, thread=1)},
        ],
    }
    trace = read_file(write(tmp_path / "a.sqlite", rows))
    assert names_of(trace) == ["read", "cudaMalloc"]
    assert frame(trace, "tracks")["name"].to_list() == ["python (1)"]


def test_numbered_ranges_are_the_steps_and_ops_launch_the_kernels(
    tmp_path: Path,
) -> None:
    ranges, calls, kernels = [], [], []
    for step in range(4):
        at = step * 1_000_000
        ranges += [
            span(f"step {step}", at, at + 900_000),
            span(f"aten::mm, op_id = {step}", at + 100, at + 9_000),
        ]
        calls.append(call("cudaLaunchKernel_v7000", at + 200, at + 4_000, step + 1))
        kernels.append(kernel("gemm", at + 5_000, at + 800_000, step + 1))
    rows = {NVTX: ranges, RUNTIME: calls, KERNEL: kernels}
    trace = read_file(write(tmp_path / "a.sqlite", rows))
    profile = ProfileData("a", {trace.host: trace})
    found = profile.derived(trace.host, steps)
    assert found.rows["name"].to_list() == [f"step {step}" for step in range(4)]
    assert isinstance(found, Steps)
    launched = profile.derived(trace.host, launching_ops)
    assert isinstance(launched, LaunchingOps)
    assert (launched.op >= 0).all()
