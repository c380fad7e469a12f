"""Real traces of 2021 to 2026 against what was counted in them by other means."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from tests.support.traces.kineto import by_json, check_all, frame, read_file

from stepscope.formats import kineto
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from stepscope.trace.model import TraceData

    Shared = Callable[[str], Path]

FILES = {
    "resnet50_num_workers_0": "kineto/resnet50_num_workers_0/"
    "worker0.1623143089861.pt.trace.json.gz",
    "resnet50_num_workers_4": "kineto/resnet50_num_workers_4/"
    "worker0.1623212756351.pt.trace.json.gz",
    "hta": "kineto/hta_df_index_resolver/df_index_resolver.json.gz",
    "h100": "kineto/tracelens_qwen1.5_0.5b_h100/"
    "Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz",
    "mi300": "kineto/tracelens_qwen1.5_0.5b_mi300/"
    "Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz",
    "no_schedule": "torch_cpu/no_schedule/trace.json.gz",
    "window 1": "torch_cpu/schedule_dataloader/"
    "worker0.1795166805281480958.pt.trace.json.gz",
    "window 2": "torch_cpu/schedule_dataloader/"
    "worker0.1795166807492105553.pt.trace.json.gz",
}
DLRM = "kineto/dlrm_8rank_v100"

#: Rank → kernels, kernel µs, NCCL kernels, NCCL µs, step µs, DataLoader µs.
RANKS = {
    0: (245, 6_832, 8, 5_798, 14_455, 1_101),
    1: (310, 12_582, 8, 11_336, 19_901, 1_100),
    2: (246, 4_560, 8, 3_492, 13_017, 1_283),
    3: (315, 11_014, 8, 9_774, 19_313, 1_406),
    4: (251, 7_713, 8, 6_587, 17_979, 1_048),
    5: (245, 7_292, 8, 6_251, 17_797, 1_081),
    6: (246, 4_609, 8, 3_558, 13_091, 1_298),
    7: (246, 2_805, 8, 1_746, 12_509, 1_157),
}

#: Item → kernels, kernel µs.
KERNELS = {
    "resnet50_num_workers_0": (8_772, 591_532),
    "resnet50_num_workers_4": (8_868, 594_868),
    "hta": (19_370, 977_859),
    "h100": (1_465, 45_432.698),
    "mi300": (1_516, 43_062.042),
}

#: Item → durations of its steps in ms, rounded to a tenth.
STEPS = {
    "resnet50_num_workers_0": [176.1, 174.0, 176.9, 181.3, 176.5, 164.3],
    "resnet50_num_workers_4": [181.6, 123.9, 126.8, 126.3, 163.5, 116.1],
    "hta": [345.8, 365.3, 346.1, 344.3, 336.3],
    "h100": [47.2],
    "mi300": [42.7],
    "no_schedule": [],
    "window 1": [141.7, 134.9, 176.0, 292.0],
    "window 2": [271.4, 391.8, 307.9, 332.0],
}

#: Item → calls of the DataLoader, their ms together.
DATA_LOADER = {
    "resnet50_num_workers_0": (6, 415.8),
    "resnet50_num_workers_4": (6, 8.5),
    "no_schedule": (11, 713.5),
    "window 1": (4, 12.7),
    "window 2": (4, 20.0),
}

MEMORY = {"hta": 28_010, "h100": 2_450, "mi300": 2_692, "no_schedule": 6_360}


def each(items: Iterable[str]) -> list[Any]:
    """Items as parameters; those of others are marked as such."""
    marks = {item: pytest.mark.profiles for item in FILES if "kineto/" in FILES[item]}
    return [pytest.param(item, marks=marks.get(item, ()), id=item) for item in items]


@pytest.fixture
def trace(request: pytest.FixtureRequest, shared_profile: Shared) -> TraceData:
    return read_file(shared_profile(FILES[request.param]))


def named(trace: TraceData, pattern: str) -> pl.DataFrame:
    """Events on threads whose names match."""
    events, tracks = frame(trace, "events"), frame(trace, "tracks")
    names = frame(trace, "event_types")["name"]
    on_thread = tracks["kind"].gather(events["track"]) == "thread"
    matches = names.str.contains(pattern).gather(events["type"])
    return events.filter(on_thread & matches)


@pytest.mark.slow(seconds=0.5)
@pytest.mark.parametrize("item", each(FILES))
@pytest.mark.sweep(every=3)
def test_every_event_of_every_class_is_there(item: str, shared_profile: Shared) -> None:
    path = shared_profile(FILES[item])
    trace = read_file(path)
    check_all(trace)
    given = by_json(path)
    kept = [it for it in given if it["ph"] in "Xi"]
    events = frame(trace, "events")
    assert events.height == len(kept)
    assert events["dur_ps"].sum() == pytest.approx(
        sum(it.get("dur", 0) for it in kept) * 10**6, rel=1e-12
    )
    counted = Counter(it["name"] for it in kept)
    names = frame(trace, "event_types")["name"].gather(events["type"])
    assert dict(names.value_counts().iter_rows()) == dict(counted)
    values = sum(
        value is not None for it in kept for value in it.get("args", {}).values()
    )
    stats = frame(trace, "stats")
    # The links between ops and the ops of their gradients are added.
    key = trace.strings.index("fwdbwd") if "fwdbwd" in trace.strings else -1
    assert stats.filter(pl.col("key") != key).height == values
    refused = frame(trace, "quality").filter(pl.col("severity") != "info")
    assert refused.is_empty()


@pytest.mark.parametrize("trace", each(KERNELS), indirect=True)
def test_kernels_and_their_time(
    trace: TraceData, request: pytest.FixtureRequest
) -> None:
    count, total_us = KERNELS[request.node.callspec.params["trace"]]
    activity = frame(trace, "device_activity")
    kernels = activity.filter(pl.col("kind").is_in(["kernel", "collective"]))
    assert kernels.height == count
    assert kernels["dur_ps"].sum() == round(total_us * 10**6)


@pytest.mark.parametrize("trace", each(STEPS), indirect=True)
def test_steps_are_ranges_of_threads(
    trace: TraceData, request: pytest.FixtureRequest
) -> None:
    steps = named(trace, r"^ProfilerStep#\d+$").sort("start_ps")
    found = [round(it / 10**9, 1) for it in steps["dur_ps"].to_list()]
    assert found == STEPS[request.node.callspec.params["trace"]]


@pytest.mark.parametrize("trace", each(DATA_LOADER), indirect=True)
def test_waiting_for_the_data_loader(
    trace: TraceData, request: pytest.FixtureRequest
) -> None:
    calls = frame(trace, "iterators")
    count, total_ms = DATA_LOADER[request.node.callspec.params["trace"]]
    assert calls.height == count
    assert calls["dur_ps"].sum() / 10**9 == pytest.approx(total_ms, abs=0.06)


@pytest.mark.parametrize("trace", each(MEMORY), indirect=True)
def test_every_memory_event_is_an_allocation(
    trace: TraceData, request: pytest.FixtureRequest
) -> None:
    allocations = frame(trace, "allocations")
    assert allocations.height == MEMORY[request.node.callspec.params["trace"]]
    assert allocations["start_ps"].is_sorted()
    on_device = allocations.filter(~pl.col("allocator").eq("cpu"))
    # Each total is the one before it and what this event took or gave.
    change = pl.when(pl.col("kind") == "allocate").then("allocated_bytes")
    signed = change.otherwise(-pl.col("allocated_bytes"))
    wrong = on_device.filter(
        (pl.col("heap_bytes") - pl.col("heap_bytes").shift()) != signed
    )
    assert len(wrong) <= len(on_device) // 1000


@pytest.mark.profiles
@pytest.mark.parametrize("rank", RANKS)
def test_ranks_of_one_step_on_eight_gpus(rank: int, shared_profile: Shared) -> None:
    hosts = {
        it.host: it for it in kineto.name_hosts(list(shared_profile(DLRM).iterdir()))
    }
    trace = kineto.read(hosts[f"rank{rank}"])
    check_all(trace)
    activity = frame(trace, "device_activity")
    kernels = activity.filter(pl.col("kind").is_in(["kernel", "collective"]))
    nccl = activity.filter(pl.col("kind") == "collective")
    step = named(trace, "^ProfilerStep#10$")
    assert (
        kernels.height,
        kernels["dur_ps"].sum() // 10**6,
        nccl.height,
        nccl["dur_ps"].sum() // 10**6,
        step["dur_ps"].item() // 10**6,
        frame(trace, "iterators")["dur_ps"].sum() // 10**6,
    ) == RANKS[rank]
    # Each file lists all eight devices; one of them worked.
    devices = frame(trace, "devices")
    assert devices.height == 8
    assert devices.filter(pl.col("activities") > 0)["device"].to_list() == [rank]
    notes = frame(trace, "quality")["message"].to_list()
    assert any(f"rank {rank} of 8" in note for note in notes)


@pytest.mark.profiles
def test_compute_hardly_differs_between_ranks_and_waiting_does(
    shared_profile: Shared,
) -> None:
    compute, waiting = [], []
    for host in kineto.name_hosts(list(shared_profile(DLRM).iterdir())):
        activity = frame(kineto.read(host), "device_activity")
        sums = dict(activity.group_by("kind").agg(pl.col("dur_ps").sum()).iter_rows())
        compute.append(sums["kernel"])
        waiting.append(sums["collective"])
    assert max(compute) / min(compute) < 1.3
    assert waiting.index(min(waiting)) == 7
    assert waiting.index(max(waiting)) == 1


@pytest.mark.profiles
@pytest.mark.parametrize("item", ["hta", "resnet50_num_workers_0", "h100", "mi300"])
def test_kernels_find_the_op_around_their_launch(
    item: str, shared_profile: Shared
) -> None:
    """Find by brute force the shortest op around the launch call on its thread."""
    path = shared_profile(FILES[item])
    given = by_json(path)
    trace = read_file(path)
    ops: dict[str, list[tuple[float, float, str]]] = {}
    for it in given:
        if it.get("cat") in ("cpu_op", "Operator") and "#" not in it["name"]:
            ops.setdefault(str(it["tid"]), []).append(
                (it["ts"], it["ts"] + it["dur"], it["name"])
            )
    calls = {
        it["args"]["correlation"]: it
        for it in given
        if it.get("cat") in ("cuda_runtime", "cuda_driver", "Runtime")
    }
    activity = frame(trace, "device_activity").filter(pl.col("kind") == "kernel")
    # Every so many kernels, as the search is quadratic.
    chosen = activity.gather_every(max(1, activity.height // 150))
    agree = 0
    for row in chosen.iter_rows(named=True):
        call = calls.get(row["correlation"])
        around = [] if call is None else [
            (end - begin, name)
            for begin, end, name in ops[str(call["tid"])]
            if begin <= call["ts"] and call["ts"] + call["dur"] <= end
        ]  # fmt: skip
        found = None if row["op"] is None else trace.strings[row["op"]]
        if not around:
            agree += found is None
            continue
        shortest = min(around)[0]
        agree += found in {name for length, name in around if length == shortest}
    # Whole microseconds let a call seem to end after its op.
    assert agree >= 0.97 * chosen.height


@pytest.mark.profiles
def test_collectives_on_their_own_stream(shared_profile: Shared) -> None:
    trace = read_file(shared_profile(FILES["hta"]))
    activity = frame(trace, "device_activity")
    nccl = activity.filter(pl.col("kind") == "collective")
    assert nccl.height == 2_020
    assert nccl["dur_ps"].sum() == 357_343 * 10**6
    assert nccl["stream"].unique().to_list() == [14]
    assert (
        "This recording is of rank 1 of 2 (nccl)." in frame(trace, "quality")["message"]
    )


@pytest.mark.profiles
def test_a_device_that_is_listed_under_another_number(shared_profile: Shared) -> None:
    trace = read_file(shared_profile(FILES["mi300"]))
    assert frame(trace, "devices").select("device", "name", "vendor").rows() == [
        (2, "AMD Instinct MI300X VF", "AMD")
    ]
    assert frame(trace, "device_activity")["device"].unique().to_list() == [2]
    assert set(frame(trace, "allocations")["allocator"]) == {"cpu", "hip:0"}


@pytest.mark.profiles
def test_the_marker_on_the_stream_is_no_second_step(shared_profile: Shared) -> None:
    for item, step_ms, span_ms in (("h100", 47.151, 34.892), ("mi300", 42.739, 33.131)):
        trace = read_file(shared_profile(FILES[item]))
        events, tracks = frame(trace, "events"), frame(trace, "tracks")
        names = frame(trace, "event_types")["name"].gather(events["type"])
        kinds = tracks["kind"].gather(events["track"])
        found = {
            kind: round(dur / 10**9, 3)
            for kind, name, dur in zip(kinds, names, events["dur_ps"], strict=True)
            if name == "ProfilerStep#6"
        }
        assert found == {"thread": step_ms, "derived": span_ms}


def test_the_recording_itself_is_no_work(shared_profile: Shared) -> None:
    trace = read_file(shared_profile(FILES["no_schedule"]))
    tracks, events = frame(trace, "tracks"), frame(trace, "events")
    recording = tracks.filter(pl.col("name") == "Recording").row(0, named=True)
    rows = events[recording["event_begin"] : recording["event_end"]]
    assert rows["dur_ps"].max() == 9_576_108_199_000
    environment = frame(trace, "environment").row(0, named=True)
    length = environment["end_ps"] - environment["begin_ps"]
    assert length < 9_576_108_199_000
    assert environment["hostname"] == "vm"
    absolute = environment["stop_unix_ns"] - environment["start_unix_ns"]
    assert absolute >= 9_576_108_199
    device = trace.table("device_activity")
    assert isinstance(device, Unavailable)
    assert device.code == "NO_DEVICE_PLANE"


@pytest.mark.profiles
def test_absolute_times_are_those_of_the_clock(shared_profile: Shared) -> None:
    # The harness noted the time when it had written the file.
    data = gzip.decompress(shared_profile(FILES["h100"]).read_bytes())
    noted = json.loads(data)["metadata"]["timestamp"]
    trace = read_file(shared_profile(FILES["h100"]))
    start = frame(trace, "environment")["start_unix_ns"].item() / 10**9
    assert 0 < noted - start < 60
