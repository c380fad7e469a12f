"""Events stand on the tracks of what they are, in nesting order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from tests.support.traces.kineto import PID, call, check_all, complete, frame, kernel

from stepscope.derive.intervals.nesting import nest_events

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepscope.trace.model import TraceData

    Build = Callable[..., TraceData]


def rows_by_track(trace: TraceData) -> list[tuple[Any, ...]]:
    events, tracks = frame(trace, "events"), frame(trace, "tracks")
    names = frame(trace, "event_types")["name"]
    return [
        (tracks["kind"][row["track"]], tracks["name"][row["track"]], names[row["type"]])
        for row in events.iter_rows(named=True)
    ]


def test_the_category_decides_and_never_the_process(trace_of: Build) -> None:
    # In a container the program may well be process 1, and so is the second GPU.
    trace = trace_of(
        [
            complete("aten::mm", 0, 9, pid=1, tid=1),
            kernel("on the first", 2, 3, device=0, stream=7),
            kernel("on the second", 2, 3, device=1, stream=1),
        ]
    )
    check_all(trace)
    assert rows_by_track(trace) == [
        ("thread", "thread 1", "aten::mm"),
        ("stream", "stream 7", "on the first"),
        ("stream", "stream 1", "on the second"),
    ]
    tracks = frame(trace, "tracks")
    assert tracks.select("plane", "device", "process", "id").rows() == [
        ("/host:CPU", None, 1, 1),
        ("/device:GPU:0", 0, None, 7),
        ("/device:GPU:1", 1, None, 1),
    ]


def test_what_is_no_work_stands_apart(trace_of: Build) -> None:
    trace = trace_of(
        [
            kernel("k", 10, 5),
            complete("ProfilerStep#1", 10, 5, cat="gpu_user_annotation", pid=0, tid=7),
            complete("Stream Sync", 12, 4, cat="cuda_sync", pid=0, tid=7,
                     args={"device": 0, "stream": 7}),
            complete("Context Sync", 13, 4, cat="cuda_sync", pid=0, tid=-1,
                     args={"device": 0, "stream": 4294967295}),
            complete("Buffer Flush", 30, 4, cat="overhead", pid=-1, tid=0),
            complete("PyTorch Profiler (0)", 0, 99, cat="Trace", pid="Spans",
                     tid="PyTorch Profiler"),
            {"ph": "i", "s": "g", "name": "Record Window End", "pid": "", "tid": "",
             "ts": 99},
            complete("op", 1, 2, cat="mtia_ccp_events", pid=8, tid=9),
        ]
    )  # fmt: skip
    check_all(trace)
    assert rows_by_track(trace) == [
        ("stream", "stream 7", "k"),
        ("derived", "stream 7: annotations", "ProfilerStep#1"),
        ("asynchronous", "synchronisation", "Context Sync"),
        ("asynchronous", "stream 7: synchronisation", "Stream Sync"),
        ("overhead", "Profiler overhead", "Buffer Flush"),
        ("asynchronous", "Recording", "PyTorch Profiler (0)"),
        ("asynchronous", "Recording", "Record Window End"),
        ("asynchronous", "thread 9", "op"),
    ]
    assert frame(trace, "device_activity").height == 1
    environment = frame(trace, "environment").row(0, named=True)
    # Time 0 is the recording's begin; work begins with the unknown event.
    assert environment["begin_ps"] == 1_000_000
    assert environment["end_ps"] == 17_000_000
    notes = dict(frame(trace, "quality").select("kind", "count").rows())
    assert notes["unknown_categories"] == 1
    assert notes["profiler_overhead"] == 1


@pytest.mark.parametrize(
    ("recorded_ms", "work_ms", "judged_ms"),
    [
        (3_900, 2_000, (10, 2_010)),
        (4_100, 2_000, (0, 4_100)),
        # Starting and stopping the recorder takes time too.
        (900, 10, (10, 20)),
        (1_100, 10, (0, 1_100)),
        (4, 10, (10, 20)),
    ],
)
def test_a_recording_that_is_mostly_silent_is_judged_as_a_whole(
    trace_of: Build, recorded_ms: int, work_ms: int, judged_ms: tuple[int, int]
) -> None:
    """A loop recorded 155 ms of ops, and then 13.7 s of nothing, as 100 % of them."""
    trace = trace_of(
        [
            complete("aten::mm", 10_000, 1000 * work_ms),
            complete("PyTorch Profiler (0)", 0, 1000 * recorded_ms, cat="Trace",
                     pid="Spans", tid="PyTorch Profiler"),
        ]
    )  # fmt: skip
    (row,) = frame(trace, "environment").select("begin_ps", "end_ps").rows()
    assert row == tuple(1_000_000_000 * it for it in judged_ms)


def test_events_are_sorted_with_parents_first(trace_of: Build) -> None:
    trace = trace_of(
        [
            call("cudaLaunchKernel", 20, 5, correlation=1),
            complete("inner", 10, 40),
            complete("outer", 10, 90),
            complete("equal 1", 60, 5),
            complete("equal 2", 60, 5),
        ]
    )
    names = [row[2] for row in rows_by_track(trace)]
    assert names == ["outer", "inner", "cudaLaunchKernel", "equal 1", "equal 2"]
    parents = nest_events(frame(trace, "tracks"), frame(trace, "events")).parent
    assert parents.tolist() == [-1, 0, 1, 0, 3]


def test_slices_that_overlap_keep_their_times(trace_of: Build) -> None:
    # Rounding to microseconds makes a child outlive its parent.
    trace = trace_of([complete("op", 10, 4), complete("child", 12, 3)])
    nested = nest_events(frame(trace, "tracks"), frame(trace, "events"))
    assert frame(trace, "events")["dur_ps"].to_list() == [4_000_000, 3_000_000]
    assert nested.parent.tolist() == [-1, 0]
    assert nested.self_ps.tolist() == [2_000_000, 3_000_000]
    assert nested.overhangs.tolist() == [1]


def test_a_step_counts_once_though_the_stream_repeats_it(trace_of: Build) -> None:
    trace = trace_of(
        [
            complete("ProfilerStep#6", 0, 90, cat="user_annotation"),
            kernel("k", 50, 30),
            complete("ProfilerStep#6", 50, 30, cat="gpu_user_annotation", pid=0, tid=7),
        ]
    )
    tracks, events = frame(trace, "tracks"), frame(trace, "events")
    names = frame(trace, "event_types")["name"].gather(events["type"])
    step = events.filter(names == "ProfilerStep#6")
    assert tracks["kind"].gather(step["track"]).to_list() == ["thread", "derived"]


def test_a_process_of_number_0_is_the_one_that_was_recorded(trace_of: Build) -> None:
    trace = trace_of(
        [
            complete("aten::mm", 0, 9),
            complete("aten::mm", 20, 9),
            complete("main.py(3): run", 0, 50, cat="python_function", pid=0, tid=0),
        ]
    )
    assert frame(trace, "tracks").select("plane", "process", "id").rows() == [
        ("/host:CPU", PID, PID),
        ("/host:CPU", PID, 0),
    ]


def test_threads_and_streams_have_the_names_that_the_file_gives(
    trace_of: Build,
) -> None:
    trace = trace_of(
        [
            {"ph": "M", "name": "thread_name", "pid": PID, "tid": PID, "ts": 0,
             "args": {"name": "thread 4242 (python)"}},
            {"ph": "M", "name": "thread_name", "pid": 0, "tid": 7, "ts": 0,
             "args": {"name": "stream 7 "}},
            complete("aten::mm", 0, 9),
            complete("aten::mm", 0, 9, pid=77, tid=5),
            complete("aten::mm", 30, 9),
            kernel("k", 5, 5),
        ]
    )  # fmt: skip
    assert frame(trace, "tracks").select("plane", "name").rows() == [
        ("/host:CPU", "thread 4242 (python)"),
        ("/host:CPU [77]", "thread 5"),
        ("/device:GPU:0", "stream 7"),
    ]


def test_what_cannot_be_placed_is_refused_with_examples(trace_of: Build) -> None:
    trace = trace_of(
        [
            complete("good", 1000, 5),
            complete("good", 1010, 5),
            complete("backwards", 1000, -5),
            complete("backwards too", 1000, -1),
            {"ph": "X", "cat": "cpu_op", "name": "never", "pid": 1, "tid": 1, "dur": 3},
            {"ph": "X", "cat": "cpu_op", "name": "open", "pid": 1, "tid": 1, "ts": 3},
            complete("in 1970", -(10**13), 5),
            complete("nowhere", 1000, 5, cat="kernel", pid="?", tid="?"),
            {"ph": "B", "name": "begin", "pid": 1, "tid": 1, "ts": 7},
        ]
    )
    check_all(trace)
    assert frame(trace, "events").height == 2
    quality = frame(trace, "quality").filter(pl.col("kind") == "refused_events")
    assert sorted(quality.select("scope", "count").rows()) == [
        ("weeks away from all other events", 1),
        ("with a negative duration", 2),
        ("without a device", 1),
        ("without a duration", 1),
        ("without a start", 1),
    ]
    negative = quality.filter(pl.col("scope") == "with a negative duration")
    assert "backwards too" in negative["message"][0]
    phases = frame(trace, "quality").filter(pl.col("kind") == "unknown_phases")
    assert phases["message"][0].endswith("B (1).")


def test_ids_of_64_bits_keep_their_bits(trace_of: Build) -> None:
    trace = trace_of([complete("op", 0, 5, tid=2**63 + 5), complete("op", 9, 1)])
    assert sorted(frame(trace, "tracks")["id"]) == [-(2**63) + 5, PID]
