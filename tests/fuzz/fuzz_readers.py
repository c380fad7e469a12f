"""Throws damaged files at the readers; finds crashes, not wrong numbers.

    python tests/fuzz/fuzz_readers.py [FORMAT…] [--cases 20000] [--seconds 600]

Traces (kineto) and memory snapshots (snapshot) of PyTorch, tables of Nsight Compute
(ncu), databases of Nsight Systems (nsight), JAX's memory profiles (pprof), timelines
that were made for viewers (timeline): small whole ones, changed as values (odd ones in
the place of any) and as bytes. Some are packed, and some of these damaged again.
"""

from __future__ import annotations

import gzip
import json
import pickle
import sqlite3
import sys
import tempfile
from contextlib import closing, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

TESTS = Path(__file__).resolve().parents[1]
for folder in (str(TESTS.parent), str(TESTS / "fuzz")):
    if folder not in sys.path:
        sys.path.insert(0, folder)

from case_loop import damage_loop, run_loops  # noqa: E402 - needs the path above
from fuzz_decoder import cut, flip, lengthen, run, splice  # noqa: E402
from fuzz_kineto import case, rename, replace, sources, swap  # noqa: E402
from tests.support.traces import nsight, nsight_compute  # noqa: E402
from tests.support.traces.snapshots import snapshot  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

__all__ = ["LOOPS", "damage_loop", "main", "sources"]

Random = np.random.Generator

_BYTES: Final = (cut, flip, run, splice)
#: Recorded files are changed as a whole where they are not longer than this.
_LONGEST_SOURCE: Final = 30_000

# ------------------------------------------------------------------ odd values

#: What may take the place of any value of a pickle or a database.
_ODD: Final[tuple[object, ...]] = (
    *(None, True, False, 0, -1, 1, 7, 2**31, 2**32 - 1, 2**53, 2**61, 2**62),
    *(2**63 - 1, -(2**63), 2**50 - 1, 2**40, 1.5, -0.0, 1e300),
    *(float("nan"), float("inf"), float("-inf"), "", "x", "7", "a\nb\x1b[2J\x00"),
    *("n" * 3000, "\ud800", b"", b"\xff\x00"),
)
#: And of a pickle alone.
_ODD_OF_PICKLES: Final[tuple[object, ...]] = (
    *(2**63, 2**64 - 1, 2**64, -(2**63) - 1, 2**100, -(2**120), 2**126),
    *([], {}, (), [[]], [None], {"a": 1}, [{}], {1: 2}, ("x", 1)),
)


def _pick(random: Random, choices: Sequence[Any]) -> Any:
    return choices[int(random.integers(len(choices)))]


def _damaged(content: bytes, random: Random, mutations: Sequence[Any]) -> bytes:
    """Return the content after some changes; some are packed, some of these damaged."""
    data = bytearray(content)
    for _ in range(int(random.integers(0, 4))):
        if data:
            _pick(random, mutations)(data, random)
    if random.integers(4):
        return bytes(data)
    packed = bytearray(gzip.compress(bytes(data), 1, mtime=0))
    if not random.integers(3):
        _pick(random, _BYTES)(packed, random)
    return bytes(packed)


# ------------------------------------------------------------- Nsight Compute

_ODD_CELLS: Final = (
    *("", '"', '""', '"""', ";", ",", "\n", "\r\n", "\r", "\0", "nan", "inf", "-1"),
    *("0", "1e308", "-1e308", "1e-400", "1" * 400, "9" * 19, "9" * 20, "1,234,567"),
    *("1.234.567,8", "0,5", "(1, 2, 3)", "(0, 0, 0)", "(99999999999, 1, 1)", "n/a"),
    *("٣", "²", "\ud7ff", "x" * 3000, "ID", "Process ID", "Metric Name", "Rule Name"),
    *("Metric Value", "Kernel Name", "Kbyte", "us", "/", "byte/", "==ERROR== x"),
    *("\x1b[2J", '"ID","Process ID"', '"ID', "Metric Unit", "Estimated Speedup"),
)


def _cell(data: bytearray, random: Random) -> None:
    """Put something odd in the place of a cell, or between two."""
    marks = [place for place, byte in enumerate(data) if byte in b'",;\n']
    if len(marks) > 1:
        first = int(random.integers(len(marks) - 1))
        begin, end = marks[first] + int(random.integers(2)), marks[first + 1]
        data[begin:end] = _pick(random, _ODD_CELLS).encode("utf-8", "surrogatepass")


def _mark(data: bytearray, random: Random) -> None:
    """Add, drop or exchange a quote, a delimiter or the end of a line."""
    marks = [place for place, byte in enumerate(data) if byte in b'",;\n']
    if random.integers(2):
        # The headers are what all rows are read by.
        marks = [place for place in marks if place < 400]
    if marks:
        place = _pick(random, marks)
        other = _pick(random, (b"", b'"', b'""', b",", b";", b"\n", b'"\n"'))
        data[place : place + int(random.integers(2))] = other


@cache
def _ncu_sources() -> list[bytes]:
    long = nsight_compute.long(
        *nsight_compute.long_rows(
            nsight_compute.launch(0, "gemm<float, 4>(float*)"),
            ("Duration", "us", "12.51"),
            ("Registers Per Thread", "register/thread", "32"),
            ("Memory Throughput", "Gbyte/second", "1,234.5"),
            ("gpu__time_duration.sum", "ns", "5"),
        ),
        nsight_compute.line(
            *nsight_compute.launch(0, "gemm<float, 4>(float*)"), "Occupancy", "", "",
            "", "Rule", "OPT", 'Said ""so"" in\ntwo lines', "local", "12.5",
        ),
        *nsight_compute.long_rows(
            nsight_compute.launch(1, "relu", grid=(1, 2, 3)), ("Duration", "ms", "0,5")
        ),
    )  # fmt: skip
    units = {
        "gpu__time_duration.sum": "us",
        "launch__registers_per_thread": "register/thread",
        "dram__bytes_read.sum": "Mbyte",
        "sm__warps_active.avg.pct_of_peak_sustained_active": "%",
    }
    wide = nsight_compute.wide(
        units,
        [
            (nsight_compute.launch(0, "gemm"), ("12.5", "32", "8.19", "55.5")),
            (nsight_compute.launch(1, "relu"), ("1.5", "16", "n/a", "1,005.5")),
        ],
    )
    said = "==PROF== Connected to process 1\nloss 0.5\n"
    texts = [long, wide, said + wide + said + long, long.replace('"', "")]
    texts.append(wide.replace(",", ";"))
    recorded = gzip.decompress(
        (TESTS / "data" / "gpu" / "kernels" / "counters.csv.gz").read_bytes()
    )
    lines = recorded.splitlines(keepends=True)
    part = b"".join(lines[:3])[:_LONGEST_SOURCE]
    return [*(text.encode() for text in texts), long.encode("utf-16"), part]


def _ncu_case(random: Random) -> bytes:
    mutations = (_cell, _cell, _mark, _mark, *_BYTES)
    return _damaged(_pick(random, _ncu_sources()), random, mutations)


# ---------------------------------------------------------- memory snapshots


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every container and key of a value, the innermost ones too."""
    keys = range(len(value)) if isinstance(value, list) else list(value)
    for key in keys:
        yield value, key
        if isinstance(value[key], list | dict):
            yield from _places(value[key])


def _odd_snapshot(random: Random) -> bytes:
    value: Any = snapshot()
    # Stacks are shared in a snapshot; a copy of each may be changed by itself.
    value = json.loads(json.dumps(value))
    if not random.integers(5):
        value = value["segments"]
    for _ in range(int(random.integers(1, 5))):
        places = list(_places(value))
        if not places:
            break
        container, key = _pick(random, places)
        match int(random.integers(4)):
            case 0 if isinstance(container, dict):
                container[_pick(random, _KEYS)] = container.pop(key)
            case 1:
                other, place = _pick(random, places)
                container[key] = json.loads(json.dumps(other[place], default=str))
            case _:
                container[key] = _pick(random, (*_ODD, *_ODD_OF_PICKLES))
    protocol = int(random.integers(2, 6))
    try:
        return pickle.dumps(value, protocol)
    except UnicodeEncodeError:
        # Half of a pair of characters: a pickler writes it in its own way.
        return pickle.dumps(snapshot(), protocol)


_KEYS: Final = (
    *("device", "address", "total_size", "blocks", "size", "state", "requested_size"),
    *("frames", "filename", "line", "name", "action", "addr", "time_us", "stream"),
    *("segments", "device_traces", "", 7, "\n"),
)


def _snapshot_case(random: Random) -> bytes:
    if random.integers(2):
        return _odd_snapshot(random)
    return _damaged(_odd_snapshot(random), random, (flip, cut, run, splice, lengthen))


# ------------------------------------------------------------ Nsight Systems


@cache
def _database() -> bytes:
    """Return a small database with a table of every sort."""
    thread = {"globalTid": nsight.global_id(thread=1)}
    at = range(0, 4_000, 100)
    wait = {"syncType": 3, "deviceId": 0, "contextId": 1, "streamId": 7}
    wait["globalPid"] = nsight.global_id()
    tables: dict[str, list[nsight.Row]] = {
        nsight.KERNEL: [nsight.kernel(f"gemm {t}", t, t + 50, t + 1) for t in at],
        nsight.MEMCPY: [nsight.copy(1, t + 50, t + 60, t + 2) for t in at],
        nsight.MEMSET: [
            {**nsight.copy(1, t + 70, t + 75, t + 3), "memKind": 2} for t in at[:4]
        ],
        nsight.RUNTIME: [
            nsight.call("cudaLaunchKernel_v7000", t, t + 9, t + 1) for t in at
        ],
        nsight.SYNC: [
            {"start": t, "end": t + 9, "correlationId": t, **wait} for t in at
        ],
        nsight.NVTX: [nsight.span(f"step {t}", t, t + 90) for t in at],
        "OSRT_API": [
            {"start": t, "end": t + 5, "nameId": "poll", **thread} for t in at
        ],
        "SCHED_EVENTS": [
            {"start": t, "cpu": 1, "isSchedIn": t // 100 % 2, **thread} for t in at
        ],
        "COMPOSITE_EVENTS": [{"id": t, "start": t, **thread} for t in at],
        "SAMPLING_CALLCHAINS": [
            {"id": t, "symbol": "f", "module": "m", "stackDepth": 0, "unresolved": 0}
            for t in at
        ],
        "GPU_METRICS": [
            {"timestamp": t, "typeId": 5, "metricId": 1, "value": t % 100} for t in at
        ],
        "TARGET_INFO_GPU_METRICS": [
            {"typeId": 5, "metricId": 1, "metricName": "SMs Active [Throughput %]"}
        ],
        "CUDA_GPU_MEMORY_USAGE_EVENTS": [
            {"start": t, "bytes": t + 1, "memoryOperationType": t // 100 % 2}
            | {"address": t, "deviceId": 0, "memKind": 2}
            | {"globalPid": nsight.global_id()}
            for t in at
        ],
        "CUPTI_ACTIVITY_KIND_CUDA_EVENT": [
            {"eventId": t, "streamId": 7, "correlationId": t + 1, "contextId": 1}
            | {"globalPid": nsight.global_id(), "eventSyncId": t}
            for t in at
        ],
        "PROFILER_OVERHEAD": [
            {"start": t, "end": t + 2, "nameId": "flush"} for t in at
        ],
        "TARGET_INFO_GPU": [
            {"name": "H100", "id": 0, "cuDevice": 0, "smCount": 132}
            | {"clockRate": 1_980_000_000, "totalMemory": 2**36}
            | {"memoryBandwidth": 3_352_320_000_000, "computeMajor": 9}
            | {"computeMinor": 0}
        ],
        "TARGET_INFO_CUDA_DEVICE": [{"gpuId": 0, "cudaId": 0, "pid": nsight.PID}],
        "TARGET_INFO_SESSION_START_TIME": [{"utcEpochNs": 1_700_000_000_000_000_000}],
        "ANALYSIS_DETAILS": [{"duration": 4_000}],
        "ThreadNames": [{"nameId": "python", **thread}],
        "DIAGNOSTIC_EVENT": [{"severity": 2, "text": "something was lost"}],
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        return nsight.write(Path(folder) / "a.sqlite", tables).read_bytes()


def _odd_database(random: Random) -> bytes:
    with closing(sqlite3.connect(":memory:")) as base:
        base.deserialize(_database())
        tables = [
            name
            for (name,) in base.execute("SELECT name FROM sqlite_master ORDER BY name")
        ]
        for _ in range(int(random.integers(0, 6))):
            table = _pick(random, tables)
            columns = [it[1] for it in base.execute(f'PRAGMA table_info("{table}")')]
            column, value = _pick(random, columns), _pick(random, _ODD)
            if value == "\ud800":
                value = b"\xed\xa0\x80"
            some = int(random.integers(1, 60))
            # A key takes no text.
            with suppress(sqlite3.IntegrityError):
                base.execute(
                    f'UPDATE OR IGNORE "{table}" SET "{column}" = ? '  # noqa: S608
                    f"WHERE rowid % {some} = 0",
                    (value,),
                )
        if not random.integers(4):
            base.execute(f'DROP TABLE "{_pick(random, tables)}"')
        base.commit()
        return base.serialize()


def _page(data: bytearray, random: Random) -> None:
    """Change the header of a page, or put another page in its place."""
    size = 4096
    pages = max(1, len(data) // size)
    page = int(random.integers(pages)) * size
    if random.integers(2):
        other = int(random.integers(pages)) * size
        data[page : page + size] = data[other : other + size]
    elif page + 200 < len(data):
        data[page + int(random.integers(200))] = int(random.integers(256))


def _nsight_case(random: Random) -> bytes:
    data = _odd_database(random)
    if random.integers(2):
        return data
    return _damaged(data, random, (_page, _page, *_BYTES))


# ---------------------------------------------------- JAX's memory profiles


def _varint(value: int) -> bytes:
    value &= 2**64 - 1
    made = bytearray()
    while value > 0x7F:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*made, value])


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _sized(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _odd_number(random: Random, usual: int) -> int:
    """Return the number of a field: as a rule the usual one."""
    odd = (0, 1, 2**31, 2**32, 2**50 - 1, 2**50, 2**62, 2**63 - 1, 2**63, 2**64 - 1)
    return usual if random.integers(12) else _pick(random, odd)


def _odd_profile(random: Random) -> bytes:
    """Return a profile of some samples, a few of its numbers odd."""

    def odd(usual: int) -> int:
        return _odd_number(random, usual)

    texts = ["", "allocations", "count", "space", "bytes", "device", "cuda:1", "kind"]
    texts += ["buffer", "executable", "step", "/home/me/train.py", "x\n\x1b[2J\0"]
    made = _sized(1, _number(1, 1) + _number(2, 2))
    made += _sized(1, _number(1, 3) + _number(2, 4))
    for sample in range(int(random.integers(1, 6))):
        labels = _sized(3, _number(1, 5) + _number(2, odd(6)))
        labels += _sized(3, _number(1, 7) + _number(2, odd(8 + sample % 2)))
        values = _varint(odd(3)) + _varint(odd(4096 << sample))
        made += _sized(2, _sized(1, _varint(odd(1))) + _sized(2, values) + labels)
    line = _sized(4, _number(1, odd(1)) + _number(2, odd(30)))
    made += _sized(4, _number(1, 1) + line)
    made += _sized(5, _number(1, 1) + _number(2, odd(10)) + _number(4, odd(11)))
    made += b"".join(_sized(6, text.encode()) for text in texts)
    return made + _number(9, odd(1_700_000_000_000_000_000))


def _pprof_case(random: Random) -> bytes:
    if random.integers(2):
        return _odd_profile(random)
    if random.integers(2):
        whole = _odd_profile(random)
    else:
        packed = (TESTS / "data" / "jax_memory" / "memory.prof").read_bytes()
        whole = gzip.decompress(packed)
    return _damaged(whole, random, (flip, cut, run, splice, lengthen))


# ------------------------------------------------- timelines made for viewers


@cache
def _timelines() -> list[bytes]:
    names = [
        (701, None, "/host:CPU"), (701, 5, "python"), (1, None, "/device:GPU:0"),
        (1, 19, "Stream #19(MemcpyH2D,Compute)"), (1, 2**32 - 559038737, "Steps"),
        (2, None, "/device:TPU:0"), (2, 3, "XLA Ops"),
    ]  # fmt: skip
    events: list[dict[str, Any]] = [
        {"ph": "M", "pid": pid, **({} if tid is None else {"tid": tid})}
        | {"name": "process_name" if tid is None else "thread_name"}
        | {"args": {"name": name}}
        for pid, tid, name in names
    ]
    details = "regs:32 static_shared:0 dynamic_shared:64 grid:10,1,1 block:128,1,1"
    for step in range(3):
        t = 1000.5 * step
        for pid, tid, name, ts, dur, args in (
            (701, 5, "train", t, 900, {"step_num": str(step), "group_id": str(step)}),
            (701, 5, "cuLaunchKernel", t + 10, 5, {"correlation_id": str(step + 1)}),
            (701, 5, "$train.py:3 step", t + 1, 7, {}),
            (1, 19, "sgemm", t + 50, 50.25, {"correlation_id": str(step + 1)}
             | {"kernel_details": details, "hlo_op": "dot.1", "hlo_module": "jit_f"}),
            (1, 19, "MemcpyH2D", t + 150, 5, {"memcpy_details": "size:8 dest:0"}),
            (1, 2**32 - 559038737, str(step), t, 950, {"group_id": str(step)}),
            (2, 3, "fusion.1", t + 5, 20, {"long_name": "%fusion.1 = f32[4]{0} add",
             "program_id": "9", "flops": "1e9", "bytes_accessed": "4096"}),
        ):  # fmt: skip
            event = {"ph": "X", "pid": pid, "tid": tid, "name": name, "ts": ts}
            events.append({**event, "dur": dur, "args": args})
    whole = {"displayTimeUnit": "ns", "traceEvents": [*events, {}]}
    return [json.dumps(whole).encode(), json.dumps(whole, indent=1).encode()]


def _timeline_case(random: Random) -> bytes:
    mutations = (replace, replace, rename, swap, *_BYTES)
    return _damaged(_pick(random, _timelines()), random, mutations)


LOOPS: Final[dict[str, tuple[str, Callable[[Random], bytes]]]] = {
    "kineto": ("trace.json", case),
    "ncu": ("counters.csv", _ncu_case),
    "snapshot": ("memory.pickle", _snapshot_case),
    "nsight": ("train.sqlite", _nsight_case),
    "pprof": ("memory.prof", _pprof_case),
    "timeline": ("vm.trace.json.gz", _timeline_case),
}


def main() -> int:
    """Run the loops and say what was seen."""
    return run_loops(__doc__ or "", LOOPS)


if __name__ == "__main__":
    sys.exit(main())
