"""The same small program in every form that PyTorch has written it in."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from tests.support.traces.kineto import PID, check_all, frame, read_file

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

EPOCH_US = 1_694_128_201_000_000
BASE_NS = 1_751_410_836_000_000_000


def program(
    *, names: dict[str, str], start_us: float, external: str, text_ids: bool
) -> list[dict[str, Any]]:
    """One step: input, an op, its launch, its kernel, a copy, a memset, a block."""
    thread = str(PID) if text_ids else PID
    stream: str | int = "stream 7" if text_ids else 7
    host = {"ph": "X", "pid": PID, "tid": thread}
    device = {"ph": "X", "pid": 0, "tid": stream}

    def at(offset: float) -> float:
        return start_us + offset

    return [
        {**device, "cat": names["kernel"], "name": "sgemm", "ts": at(60), "dur": 20,
         "args": {"device": 0, "stream": 7, "correlation": 11, external: 3,
                  "grid": [8, 1, 1], "block": [128, 1, 1],
                  "registers per thread": 32, "shared memory": 1024,
                  "est. achieved occupancy %": 25}},
        {**device, "cat": names["copy"], "name": "Memcpy HtoD (Pageable -> Device)",
         "ts": at(30), "dur": 5,
         "args": {"device": 0, "stream": 7, "correlation": 10, "bytes": 4096}},
        {**device, "cat": names["fill"], "name": "Memset (Device)", "ts": at(36),
         "dur": 1, "args": {"device": 0, "stream": 7, "correlation": 12, "bytes": 64}},
        {**host, "cat": names["op"], "name": "aten::mm", "ts": at(40), "dur": 30,
         "args": {external: 3, "Input Dims": [[8, 4], [4, 2]],
                  "Input type": ["float", "float"]}},
        {**host, "cat": names["call"], "name": "cudaLaunchKernel", "ts": at(50),
         "dur": 6, "args": {"cbid": 211, "correlation": 11, external: 3}},
        {**host, "cat": names["range"], "name": "ProfilerStep#4", "ts": at(0),
         "dur": 100, "args": {external: 1}},
        {**host, "cat": names["range"], "ts": at(2), "dur": 25,
         "name": "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
         "args": {external: 2}},
        {"ph": "i", "s": "t", "name": "[memory]", "pid": PID, "tid": PID,
         "ts": at(45), "args": {"Device Type": 1, "Device Id": 0, "Bytes": 512}},
        {"ph": "X", "cat": "Trace", "name": "PyTorch Profiler (0)", "pid": "Spans",
         "tid": "PyTorch Profiler", "ts": at(-10), "dur": 200, "args": {"Op count": 0}},
        {"ph": "M", "name": "process_labels", "pid": 3, "tid": 0, "ts": at(0),
         "args": {"labels": "GPU 3"}},
        {"ph": "s", "id": 11, "cat": "ac2g", "name": "ac2g", "pid": PID, "tid": PID,
         "ts": at(50)},
        {"ph": "f", "id": 11, "cat": "ac2g", "name": "ac2g", "pid": 0, "tid": 7,
         "ts": at(60), "bp": "e"},
    ]  # fmt: skip


OLD = {
    "op": "Operator", "range": "Operator", "call": "Runtime", "kernel": "Kernel",
    "copy": "Memcpy", "fill": "Memset",
}  # fmt: skip
NEW = {
    "op": "cpu_op", "range": "user_annotation", "call": "cuda_runtime",
    "kernel": "kernel", "copy": "gpu_memcpy", "fill": "gpu_memset",
}  # fmt: skip

OBJECT = {"schemaVersion": 1, "deviceProperties": []}


def of_2020() -> tuple[Any, int]:
    events = program(
        names=OLD, start_us=EPOCH_US, external="external id", text_ids=True
    )
    return events, EPOCH_US * 1000


def of_2021() -> tuple[Any, int]:
    events = program(
        names=OLD, start_us=EPOCH_US, external="external id", text_ids=True
    )
    return {**OBJECT, "traceEvents": events}, EPOCH_US * 1000


def of_2022() -> tuple[Any, int]:
    events = program(
        names=NEW, start_us=EPOCH_US, external="External id", text_ids=False
    )
    return {"traceEvents": events, **OBJECT}, EPOCH_US * 1000


def of_early_2024() -> tuple[str, int]:
    # Three decimals after sixteen digits: written as text, a double has not so many.
    events = program(names=NEW, start_us=0, external="External id", text_ids=False)
    for event in events:
        event["ts"] = f"@{EPOCH_US + event['ts']}.123@"
    text = json.dumps({**OBJECT, "traceEvents": events})
    return text.replace('"@', "").replace('@"', ""), EPOCH_US * 1000 + 123


def since_2024() -> tuple[Any, int]:
    events = program(
        names=NEW, start_us=1_428_625_731_000.5, external="External id", text_ids=False
    )
    top = {"displayTimeUnit": "ms", "baseTimeNanoseconds": BASE_NS}
    return {**OBJECT, "traceEvents": events, **top}, (BASE_NS + 1_428_625_731_000_500)


GENERATIONS = {
    "late 2020": of_2020,
    "2021": of_2021,
    "2022": of_2022,
    "early 2024": of_early_2024,
    "since 2024": since_2024,
}


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
@pytest.mark.parametrize("generation", GENERATIONS)
def test_every_generation_gives_the_same_tables(
    generation: str, pack: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    document, start_unix_ns = GENERATIONS[generation]()
    text = document if isinstance(document, str) else json.dumps(document)
    # Neither name nor ending says that it is packed.
    path = tmp_path / "trace.json"
    path.write_bytes(pack(text.encode()))

    trace = read_file(path)

    check_all(trace)
    types = frame(trace, "event_types")["name"]
    events = frame(trace, "events").select(
        pl.col("track"),
        types.gather(frame(trace, "events")["type"]).alias("name"),
        pl.col("start_ps") // 1_000_000,
        pl.col("dur_ps") // 1_000_000,
    )
    assert events.rows() == [
        (0, "ProfilerStep#4", 10, 100),
        (0, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 12, 25),
        (0, "aten::mm", 50, 30),
        (0, "[memory]", 55, 0),
        (0, "cudaLaunchKernel", 60, 6),
        (1, "Memcpy HtoD (Pageable -> Device)", 40, 5),
        (1, "Memset (Device)", 46, 1),
        (1, "sgemm", 70, 20),
        (2, "PyTorch Profiler (0)", 0, 200),
    ]
    activity = frame(trace, "device_activity")
    assert activity.select(
        "device", "stream", "kind", "correlation", "bytes"
    ).rows() == [
        (0, 7, "h2d", 10, 4096),
        (0, 7, "memset", 12, 64),
        (0, 7, "kernel", 11, None),
    ]
    assert trace.strings[activity["op"][2]] == "aten::mm"
    assert trace.strings[activity["shape"][2]] == "float[8,4], float[4,2]"
    assert frame(trace, "iterators")["dur_ps"].to_list() == [25_000_000]
    assert frame(trace, "allocations")["allocated_bytes"].to_list() == [512]
    environment = frame(trace, "environment").row(0, named=True)
    assert environment["start_unix_ns"] == start_unix_ns - 10_000
    assert environment["stop_unix_ns"] == start_unix_ns - 10_000 + 200_000


@pytest.mark.parametrize(
    ("generation", "noted"),
    [("2022", 1), ("early 2024", 0), ("since 2024", 0)],
)
def test_a_resolution_of_a_microsecond_is_said(
    generation: str, noted: int, tmp_path: Path
) -> None:
    document, _ = GENERATIONS[generation]()
    path = tmp_path / "trace.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    kinds = frame(read_file(path), "quality")["kind"].to_list()
    assert kinds.count("resolution_1_us") == noted
