"""Makes damaged PyTorch traces for the loop in `case_loop.py`.

Each case is a trace of one of the generations of the format, changed as bytes (cuts,
flips, runs, splices) and as JSON (numbers, texts, lists and names of other types or of
absurd size in the place of others), half of them gzipped and some of these damaged
again.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

TESTS = Path(__file__).resolve().parents[1]
for folder in (str(TESTS.parent), str(TESTS / "fuzz")):
    if folder not in sys.path:
        sys.path.insert(0, folder)

from fuzz_decoder import cut, flip, run, splice  # noqa: E402 - needs the path above
from tests.support.traces.kineto import (  # noqa: E402
    PID,
    call,
    complete,
    kernel,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Random = np.random.Generator

#: Events of a recorded trace that stand in one case.
_RECORDED: Final = 24
#: What may stand in the place of any value.
_ODD: Final = (
    "null", "true", "[]", "{}", '""', "-1", "0", "-0.0", "1e999", "-1e999", "1e-400",
    "NaN", "Infinity", "0.1", "9223372036854775807", "9223372036854775808",
    "18446744073709551616", "-9223372036854775809", "9" * 400, "1" * 5000,
    '"NaN"', '"7"', '"-3.5"', '"\\ud800"', '"\\u0000"', '"stream 7"', '"x"', "[1,2]",
    '[[1,2],[3,"a"]]', '{"a":{"b":1}}', "[" * 60 + "]" * 60, "[" * 3000, "2147483648",
    "4294967295", "1e18", '"' + "n" * 3000 + '"', "oops", "'single'", "1,", ",",
    "1e99999999999999999999", "[1e99999999999999999999]", str(-(2**127)), str(2**128),
    "[" * 400 + "]" * 400, "[" * 960 + "]" * 960, '{"a":' * 900 + "1" + "}" * 900,
    '{"a":36893488147419103232,"b":NaN}', "[36893488147419103232,NaN]",
)  # fmt: skip
#: Names of fields and of values that mean something.
_MEANINGFUL: Final = (
    "ph", "cat", "name", "pid", "tid", "ts", "dur", "id", "args", "External id",
    "correlation", "device", "stream", "Bytes", "Addr", "Device Type", "Device Id",
    "Total Allocated", "Total Reserved", "Input Dims", "Input type", "grid", "block",
    "Sequence number", "Fwd thread id", "traceEvents", "deviceProperties",
    "distributedInfo", "baseTimeNanoseconds", "X", "i", "s", "f", "M", "cpu_op",
    "kernel", "Operator", "Runtime", "gpu_memcpy", "gpu_memset", "cuda_runtime",
    "cuda_sync", "fwdbwd", "[memory]", "user_annotation", "python_function", "Trace",
)  # fmt: skip
_VALUE: Final = re.compile(
    rb'-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|"(?:[^"\\]|\\.)*"|true|false|null'
)


@cache
def sources() -> list[bytes]:
    """A small whole trace of each generation, and pieces of a recorded one."""
    current = {
        "schemaVersion": 1, "baseTimeNanoseconds": 1_700_000_000_000_000_000,
        "deviceProperties": [{"id": 0, "name": "V100", "totalGlobalMem": 2**34,
                              "computeMajor": 7, "computeMinor": 0, "numSms": 80}],
        "distributedInfo": {"backend": "nccl", "rank": 1, "world_size": 2},
        "traceEvents": _current(),
    }  # fmt: skip
    older = {"schemaVersion": 1, "traceEvents": _capitalised()}
    documents: list[Any] = [current, older, _capitalised()]
    made = [json.dumps(it).encode() for it in documents]
    made.append(json.dumps(current, indent=2).encode())
    (path,) = (TESTS / "data" / "torch_train").glob("*.gz")
    recorded = json.loads(gzip.decompress(path.read_bytes()))
    events = recorded["traceEvents"]
    for first in range(0, len(events) - _RECORDED, len(events) // 8):
        part = {**recorded, "traceEvents": events[first : first + _RECORDED]}
        made.append(json.dumps(part, indent=1).encode())
    return made


def _current() -> list[dict[str, Any]]:
    number = {"Sequence number": 4, "Fwd thread id": 0}
    node = {"Sequence number": 4, "Fwd thread id": 1}
    memory = {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "s": "t",
              "pid": PID, "tid": PID}  # fmt: skip
    totals = {"Device Type": 1, "Device Id": 0, "Addr": 4096, "Total Reserved": 2**20}
    arrow = {"cat": "fwdbwd", "name": "fwdbwd", "id": 3, "pid": PID, "tid": PID}
    launch = {"grid": [10, 1, 1], "block": [128, 1, 1], "registers per thread": 32,
              "shared memory": 64, "est. achieved occupancy %": 50}  # fmt: skip
    return [
        complete("ProfilerStep#3", 0, 900.5, cat="user_annotation"),
        complete("aten::mm", 10.25, 50, args={
            "External id": 7, "Input Dims": [[4, 2], [2, 4]],
            "Input type": ["float", "float"], **number}),
        call("cudaLaunchKernel", 20, 9, correlation=5, **{"External id": 7}),
        kernel("sgemm<float>", 80, 50, correlation=5, **launch),
        complete("Memcpy HtoD (Pageable -> Device)", 140, 8, cat="gpu_memcpy", pid=0,
                 tid=7, args={"device": 0, "stream": 7, "correlation": 6, "bytes": 99}),
        complete("Memset (Device)", 150, 2, cat="gpu_memset", pid=0, tid=7,
                 args={"device": 0, "stream": 7, "correlation": 9, "bytes": 4}),
        complete("Stream Sync", 155, 3, cat="cuda_sync", pid=0, tid=7,
                 args={"device": 0, "stream": -1}),
        complete("train.py(3): step", 5, 200, cat="python_function",
                 args={"Python id": 1, "Python parent id": None}),
        complete("enumerate(DataLoader)#_Single.__next__", 2, 5,
                 cat="user_annotation"),
        complete("MmBackward0", 300, 20, tid=9, args=node),
        {**memory, "ts": 12, "args": {"Bytes": 64, "Total Allocated": 64, **totals}},
        {**memory, "ts": 60, "args": {"Bytes": -64, "Total Allocated": 0, **totals}},
        {**arrow, "ph": "s", "ts": 10.25}, {**arrow, "ph": "f", "tid": 9, "ts": 300},
        {"ph": "M", "name": "thread_name", "pid": PID, "tid": PID, "ts": 0,
         "args": {"name": "thread main"}},
        {"ph": "X", "cat": "Trace", "name": "PyTorch Profiler (0)", "pid": "Spans",
         "tid": "PyTorch Profiler", "ts": 0, "dur": 1000, "args": {"Op count": 0}},
        {"ph": "i", "s": "g", "name": "Record Window End", "pid": "", "tid": "",
         "ts": 1000},
    ]  # fmt: skip


def _capitalised() -> list[dict[str, Any]]:
    return [
        complete("ProfilerStep#3", 0, 90, cat="Operator", tid="25738"),
        complete("aten::mm", 5, 50, cat="Operator", tid="25738",
                 args={"External id": 7, "Input dims": [[4, 2]]}),
        complete("cudaLaunchKernel", 10, 5, cat="Runtime", tid="25738",
                 args={"correlation": 7, "external id": 7}),
        complete("k", 30, 5, cat="Kernel", pid=0, tid="stream 7",
                 args={"correlation": 7, "device": 0, "stream": 7}),
        complete("Memcpy DtoH (Device -> Pinned)", 40, 1, cat="Memcpy", pid=0,
                 tid="stream 7", args={"correlation": 8, "bytes": 16}),
        complete("Memset (Unknown)", 42, 1, cat="Memset", pid=0, tid="stream 7"),
        {"ph": "s", "id": 7, "pid": PID, "tid": PID, "ts": 10, "cat": "async",
         "name": "launch"},
        {"ph": "i", "name": "[memory]", "pid": PID, "tid": PID, "ts": 6, "s": "t",
         "args": {"Bytes": 8, "Device Id": 0, "Device Type": 1}},
    ]  # fmt: skip


def replace(data: bytearray, random: Random) -> None:
    """Put something odd in the place of a value or of a name."""
    places = [found.span() for found in _VALUE.finditer(data)]
    if places:
        begin, end = places[int(random.integers(len(places)))]
        data[begin:end] = _ODD[int(random.integers(len(_ODD)))].encode()


def rename(data: bytearray, random: Random) -> None:
    """Put a meaningful word in the place of another text."""
    places = [it.span() for it in _VALUE.finditer(data) if it[0][:1] == b'"']
    if places:
        begin, end = places[int(random.integers(len(places)))]
        word = _MEANINGFUL[int(random.integers(len(_MEANINGFUL)))]
        data[begin:end] = f'"{word}"'.encode()


def swap(data: bytearray, random: Random) -> None:
    """Exchange two values."""
    places = [found.span() for found in _VALUE.finditer(data)]
    if len(places) > 1:
        first, second = sorted(random.choice(len(places), 2, replace=False).tolist())
        (begin, end), (later, last) = places[first], places[second]
        one, other = bytes(data[begin:end]), bytes(data[later:last])
        data[later:last] = one
        data[begin:end] = other


MUTATIONS: Final[Sequence[Callable[[bytearray, Random], None]]] = (
    *(replace, replace, replace, rename, rename, swap),
    *(cut, flip, run, splice),
)


def case(random: Random) -> bytes:
    """One damaged file."""
    whole = sources()
    data = bytearray(whole[int(random.integers(len(whole)))])
    for _ in range(int(random.integers(1, 6))):
        if data:
            MUTATIONS[int(random.integers(len(MUTATIONS)))](data, random)
    if random.integers(2):
        return bytes(data)
    packed = bytearray(gzip.compress(bytes(data), 1, mtime=0))
    if not random.integers(3):
        (cut, flip, run, splice)[int(random.integers(4))](packed, random)
    return bytes(packed)
