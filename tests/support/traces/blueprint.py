"""Blueprints: a whole trace from literal lines, on one screen.

The lines are written as a profile and read again, so that what is proven on them holds
for the whole way from bytes to derivations.

    trace = blueprint.trace(
        [
            ("main", "train", 0, 900, {"_r": 1, "step_num": 7}),
            ("main", "cuLaunchKernel", 100, 5, {"correlation_id": 1}),
            ("gpu:0/7(Compute)", "sgemm", 300, 100, {"correlation_id": 1}),
        ]
    )
    profile = blueprint.profile(trace)
    found = profile.derived("vm", steps)

One line is `(track, name, start, duration)` or `(track, name, start, duration, stats)`;
times are microseconds (fractions are allowed). A track is

* `"name"`: a host thread of plane `/host:CPU`;
* `"samples of name, 100 a second"`: samples of the host thread of that name, whose own
  lines come before;
* `"samples beside the steps of name, …"`, `"source lines of name, …"`, `"core time of
  name, …"`: what else looks at that thread found; `"core time of other threads, …"`: of
  all threads without a line; where the name begins with `worker process`, of a process;
* `"gpu:0/7(Compute)"`: stream 7 of GPU 0, named `Stream #7(Compute)`;
* `"gpu:0/Steps"`, `"tpu:1/XLA Modules"`: any other line of a device, by its name;
* `"/plane/name|line name"`: anything else, spelled out.

Stats are ints, floats or texts. `a1()` … `a7()` are the acceptance vectors of the same
number, each made once: a trace never changes.

Definition: docs/tools/overview_page.md#where-the-time-goes.
"""

from __future__ import annotations

import atexit
import pickle
import re
import shutil
import tempfile
from copy import copy
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from stepscope.derive.profile_data import ProfileData
from stepscope.formats.opening import read
from stepscope.trace.model import TraceData
from stepscope.trace.tables import TABLES
from stepscope.xspace.writing.write import XSpaceBuilder

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import polars as pl

    from stepscope.unavailable import Unavailable

#: (track, name, start in µs, duration in µs) and, where there are any, its stats.
Line = tuple[Any, ...]

#: The capabilities of an A100, as its plane records them.
#: Definition: docs/definitions/names-and-events.md#values-with-a-meaning.
A100: Final[dict[str, int | str]] = {
    "device_vendor": "Nvidia",
    "clock_rate": 1_410_000,
    "core_count": 108,
    "compute_cap_major": 8,
    "compute_cap_minor": 0,
    "memory_bandwidth": 1_555_200_000_000,
}
_KERNEL: Final = (
    "regs:32 static_shared:0 dynamic_shared:100 grid:10,1,1 block:128,1,1 occ_pct:50"
)
#: Ids of the lines that producers derive.
#: Definition: docs/formats/xplane.md#planes-become-groups-of-tracks.
_DERIVED: Final = {
    name: -559038737 + offset
    for offset, name in enumerate(
        (
            "Steps",
            "Launch Stats",
            "Framework Name Scope",
            "Framework Ops",
            "XLA Modules",
            "XLA Ops",
            "CUPTI overhead",
            "Source code",
        )
    )
}


def trace(
    lines: Sequence[Line],
    *,
    host: str = "vm",
    devices: Mapping[int, Mapping[str, int | str]] | None = None,
    start_ns: int | None = None,
) -> TraceData:
    """The tables of one host that was recorded with exactly these lines.

    Args:
        lines: As the module says; their order is the file's order.
        host: Name of the host.
        devices: Capabilities by ordinal, for devices that have some; a device with an
            entry and without lines is one that was listed and not used.
        start_ns: Absolute time of the recording's begin; None: no clock.
    """
    return _read(pickle.dumps((lines, host, devices, start_ns)))


@lru_cache(maxsize=64)
def _read(asked: bytes) -> TraceData:
    """Write a trace and read it; tests ask for some of them again and again."""
    lines, host, devices, start_ns = pickle.loads(asked)  # noqa: S301 - our own
    space = XSpaceBuilder(host, start_ns=start_ns)
    opened = {}
    for ordinal, stats in sorted((devices or {}).items()):
        plane = space.plane(f"/device:GPU:{ordinal}", plane_id=ordinal)
        for key, value in stats.items():
            plane.stat(key, value)
    for track, name, start, dur, *stats in lines:
        if track not in opened:
            plane_name, line_name, line_id = _place(track, list(opened))
            ordinal = re.fullmatch(r".*:(\d+)", plane_name)
            plane = space.plane(plane_name, plane_id=int(ordinal[1]) if ordinal else 0)
            opened[track] = plane.line(line_id, name=line_name)
        opened[track].event(
            name, offset_ps=_ps(start), dur_ps=_ps(dur), stats=stats[0] if stats else {}
        )
    folder = Path(tempfile.mkdtemp(dir=_folder()))
    return read(space.write(folder / f"{host}.xplane.pb")[0])


def renamed(trace: TraceData, host: str) -> TraceData:
    """The trace under another host name."""
    named = copy(trace)
    named.host = host
    return named


def profile(*traces: TraceData, run: str = "run") -> ProfileData:
    """A run of these hosts, without tools."""
    return ProfileData(run, {each.host: each for each in traces})


def substitute(original: TraceData, **tables: pl.DataFrame | Unavailable) -> TraceData:
    """The same trace with some tables replaced; row numbers must stay valid."""
    builders: dict[str, Callable[[], pl.DataFrame | Unavailable]] = {
        name: (lambda name=name: original.table(name)) for name in TABLES
    }
    for name, table in tables.items():
        builders[name] = lambda table=table: table
    return TraceData(
        original.host, builders, strings=original.strings, data=original.data
    )


@cache
def a1(*, sgemm_us: int = 100, host: str = "vm") -> TraceData:
    """A.1: eight steps of one GPU with two streams."""
    lines: list[Line] = []
    device: list[Line] = []
    streams = {7: "7(Compute)", 8: "8(MemcpyH2D)"}
    correlation = 0
    for i in range(8):
        begin = 1000 * i
        lines.append(("main", "train", begin, 900, {"_r": 1, "step_num": 100 + i}))
        for stream, name, offset, dur, op in (
            (7, "volta_fp16_s884gemm", 300, 100, "model/dense/MatMul:MatMul"),
            (7, "ampere_sgemm_32x32", 420, sgemm_us, "model/dense_1/MatMul:MatMul"),
            (7, "ncclDevKernel_AllReduce", 540, 60, "allreduce:NcclAllReduce"),
            (8, "MemcpyH2D", 600, 40, None),
            (8, "MEMCPYHtoD", 650, 30, None),
            (8, "MEMCPYDtoH", 690, 10, None),
        ):
            correlation += 1
            start = begin + offset
            lines.append(
                (
                    "main",
                    "cuLaunchKernel",
                    start - 200,
                    5,
                    {"correlation_id": correlation, "device_id": 0},
                )
            )
            stats: dict[str, int | str] = {"correlation_id": correlation}
            if op is not None:
                stats |= {"tf_op": op, "kernel_details": _KERNEL}
            device.append((f"gpu:0/{streams[stream]}", name, start, dur, stats))
    return trace(lines + device, host=host, devices={0: A100})


@cache
def a2() -> TraceData:
    """A.2: three steps of a CPU-only program with tf.data workers."""
    lines: list[Line] = []
    for i in range(3):
        b = 1000 * i
        lines += [
            ("main", "train", b, 800, {"_r": 1, "step_num": 50 + i}),
            ("main", "IteratorGetNext", b + 10, 200),
            ("main", "FunctionRun", b + 220, 400),
            ("main", "a/MatMul:MatMul", b + 240, 100),
            ("main", "a/Relu:Relu", b + 360, 50),
            ("main", "Outer:Outer", b + 420, 150),
            ("main", "Outer/inner:Inner", b + 450, 50),
            ("main", "user_annotation", b + 630, 40),
            ("worker", "Iterator::Prefetch::ParallelMapV2::TFRecord", b, 120),
            ("worker", "Iterator::Batch::TFRecord", b + 130, 30),
            ("worker", "Iterator::Shuffle", b + 170, 20),
        ]
    return trace(lines)


def a5_host_b() -> TraceData:
    """A.5: the second host, whose 32-bit kernel lasts 110 µs."""
    return a1(sgemm_us=110, host="b")


@cache
def a6() -> TraceData:
    """A.6: overlapping device work and host classes in one window [0, 500) µs."""
    return trace(
        [
            ("main", "train", 0, 500, {"_r": 1, "step_num": 0}),
            ("main", "IteratorGetNext", 280, 60),
            ("main", "cuLaunchKernel", 360, 5, {"correlation_id": 1}),
            ("main", "host/late:Late", 420, 30),
            ("compiler", "XlaCompile", 330, 20),
            ("compiler", "cuLaunchKernel", 0, 0, {"correlation_id": 2}),
            ("compiler", "cuLaunchKernel", 40, 0, {"correlation_id": 3}),
            ("executor", "host/op:Op", 300, 80),
            ("executor", "cuLaunchKernel", 110, 0, {"correlation_id": 4}),
            ("executor", "cuLaunchKernel", 170, 0, {"correlation_id": 5}),
            ("gpu:0/7(Compute)", "sgemm", 0, 100, {"correlation_id": 2}),
            ("gpu:0/7(Compute)", "h884gemm_fp16", 180, 80, {"correlation_id": 5}),
            ("gpu:0/7(Compute)", "sgemm", 400, 20, {"correlation_id": 1}),
            ("gpu:0/8(MemcpyH2D)", "MemcpyH2D", 50, 100, {"correlation_id": 3}),
            ("gpu:0/9(Compute)", "ncclKernel", 120, 80, {"correlation_id": 4}),
        ],
        devices={0: A100},
    )


@cache
def a7() -> TraceData:
    """A.7: two GPUs in one window of 1000 µs; GPU 0 works 600, GPU 1 works 200."""
    return trace(
        [
            ("main", "train", 0, 1000, {"_r": 1, "step_num": 0}),
            ("main", "cuLaunchKernel", 0, 0, {"correlation_id": 1}),
            ("main", "cuLaunchKernel", 0, 0, {"correlation_id": 2}),
            ("gpu:0/7(Compute)", "sgemm", 0, 600, {"correlation_id": 1}),
            ("gpu:1/7(Compute)", "sgemm", 0, 200, {"correlation_id": 2}),
        ],
        devices={0: A100, 1: A100},
    )


@cache
def _folder() -> str:
    """One temporary folder per test process; traces stay mapped until it ends."""
    folder = tempfile.mkdtemp(prefix="blueprints-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _ps(us: float) -> int:
    return round(us * 1_000_000)


def _place(track: str, opened: Sequence[str]) -> tuple[str, str, int]:
    """(plane, line name, line id)."""
    number = len(opened) + 1
    samples = re.fullmatch(
        r"(samples of|samples beside the steps of|source lines of|core time of) (.*), "
        r"\d+ a second",
        track,
    )
    if samples is not None:
        thread = samples[2]
        # All lines of a thread have its number, and it need not have events itself.
        of_thread = next(
            at
            for at, line in enumerate((*opened, track), 1)
            if line == thread or f"of {thread}, " in line
        )
        of_thread = 0 if thread == "other threads" else of_thread
        base = {"core time of": 2**29, "source lines of": 2**28}.get(samples[1], 0)
        base += 2**27 if thread.startswith("worker process ") else 0
        return "/host:CPU", track, 2**30 + base + of_thread
    if "|" in track:
        plane, line = track.split("|", 1)
        return plane, line, _DERIVED.get(line, number)
    found = re.fullmatch(r"(gpu|tpu):(\d+)/(.*)", track)
    if found is None:
        return "/host:CPU", track, number
    plane = f"/device:{found[1].upper()}:{found[2]}"
    stream = re.fullmatch(r"(\d+)(\(.*\))?", found[3])
    if stream is None:
        return plane, found[3], _DERIVED.get(found[3], number)
    return plane, f"Stream #{found[3]}", int(stream[1])
