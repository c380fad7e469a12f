"""Whole traces of training loops: the bases that the rules' faults are planted in.

In `together` a step is issued when the previous one has ended on the device; in `ahead`
launches run one step ahead. Definition:
docs/definitions/judging.md#how-the-rules-are-tested.
"""

from __future__ import annotations

import pickle
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from tests.support.traces import blueprint
from tests.support.traces.judged import Judged
from tests.support.traces.memory import MIB, Allocator

from stepscope.advice.engine import signals_of
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stepscope.advice.finding import Finding

BF16 = "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_64x3_nn"
SGEMM = "ampere_sgemm_128x64_nn"
MATMUL = "model/dense/MatMul:MatMul"
PACK, UNPACK = "replica/ConcatV2:ConcatV2", "replica/Split:Split"
#: (name, µs, op) of the 150 kernels of a step: 20 products and 130 fused ones.
KERNELS = (
    [(BF16, 300.0, MATMUL)] * 20
    + [("fused_half_kernel", 30.0, "model/add/AddV2:AddV2")] * 80
    + [("fused_half_kernel", 26.0, "model/relu/Relu:Relu")] * 50
)
DETAILS = (
    "regs:32 static_shared:0 dynamic_shared:0 grid:864,1,1 block:128,1,1 occ_pct:50"
)
STEPS = 14
GIB = 2**30
KERNELS_OF_A_DEVICE = 10


class Recorder:
    """Appends host and device lines, pairing each kernel with its launch call."""

    def __init__(self, scale: float = 1.0) -> None:
        self.lines: list[Any] = []
        self.scale = scale
        self.launched = 0

    def host(self, name: str, start: float, dur: float, *, track: str = "main") -> None:
        self.lines.append((track, name, start * self.scale, dur * self.scale))

    def mark(self, number: int, start: float, dur: float) -> None:
        self.lines.append(
            (
                "main",
                "train",
                start * self.scale,
                dur * self.scale,
                {"_r": 1, "step_num": number},
            )
        )

    def launch(
        self,
        kernel: tuple[str, float, str],
        called: float,
        start: float,
        *,
        device: int = 0,
    ) -> None:
        name, dur, op = kernel
        self.launched += 1
        stats = {"correlation_id": self.launched}
        self.lines += [
            ("main", "cuLaunchKernel", called * self.scale, 6 * self.scale, stats),
            (
                f"gpu:{device}/7(Compute)",
                name,
                start * self.scale,
                dur * self.scale,
                {**stats, "tf_op": op, "kernel_details": DETAILS},
            ),
        ]

    def exchange(
        self, device: int, start: float, dur: float, size: int, *, members: int
    ) -> None:
        """Add an all-reduce of this many bytes on a stream of its own."""
        self.launched += 1
        said = {
            "Collective name": "allreduce",
            "In msg nelems": size // 4,
            "Out msg nelems": size // 4,
            "dtype": "Float",
            "Group size": members,
        }
        stats = {"correlation_id": self.launched}
        name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
        called = (start - 15.0) * self.scale
        self.lines += [
            ("main", "cuLaunchKernel", called, 6 * self.scale, stats),
            (
                f"gpu:{device}/9(Compute)",
                name,
                start * self.scale,
                dur * self.scale,
                stats | said,
            ),
        ]

    def copy(self, kind: str, start: float, dur: float, **more: Any) -> None:
        """Copy between host and device: `called` µs ago, `size` bytes, for `op`."""
        called = start - more.get("called", 20.0)
        self.launched += 1
        stats = {"correlation_id": self.launched}
        self.host_call(called, more.get("call_us", 6.0), stats)
        details = f"kind_src:{more.get('source', 'pinned')} size:{more['size']}"
        named = {"tf_op": more["op"]} if "op" in more else {}
        self.lines.append(
            (
                f"gpu:0/9({kind})",
                kind,
                start * self.scale,
                dur * self.scale,
                {**stats, "memcpy_details": details, **named},
            )
        )

    def host_call(self, start: float, dur: float, stats: dict[str, int]) -> None:
        self.lines.append(
            ("main", "cuMemcpyAsync", start * self.scale, dur * self.scale, stats)
        )

    def copy_out(self, called: float, start: float, dur: float, *, size: int) -> None:
        """Copy a result to the host."""
        self.launched += 1
        stats: dict[str, Any] = {"correlation_id": self.launched}
        details = f"kind_src:device kind_dst:pinned size:{size} dest:0 async:1"
        self.lines += [
            ("main", "cuMemcpyDtoHAsync", called * self.scale, 6 * self.scale, stats),
            (
                "gpu:0/9(MemcpyD2H)",
                "MEMCPYDtoH",
                start * self.scale,
                dur * self.scale,
                {**stats, "memcpy_details": details},
            ),
        ]


def together(
    *, fetch_us: float = 40.0, kernels: Any = KERNELS, scale: float = 1.0
) -> list[Any]:
    """B1s: fetch, 176 µs of Python, then launches; the next step begins at the end."""
    made = Recorder(scale)
    begin = 0.0
    for number in range(STEPS):
        called = begin + fetch_us + 176.0
        start = called + 10.0
        for kernel in kernels:
            made.launch(kernel, called, start)
            called += 6.0
            start += kernel[1] + 0.5
        made.host("IteratorGetNext", begin, fetch_us)
        made.mark(number, begin, start - begin - 1.0)
        begin = start
    return made.lines


def ahead(*, fetch_us: float = 40.0) -> list[Any]:
    """B1: the host issues step k while step k - 1 runs on the device."""
    made = Recorder()
    for number in range(STEPS):
        begin = 10_000.0 * number
        made.mark(number, begin, 9_990.0)
        made.host("IteratorGetNext", begin + 10.0, fetch_us)
        called, start = begin + fetch_us + 20.0, begin + 10_100.0
        for kernel in KERNELS:
            made.launch(kernel, called, start)
            called += 6.0
            start += kernel[1] + 0.5
    return made.lines


def paced(*, early_us: float) -> list[Any]:
    """400 kernels of 15 µs, one every 20 µs, launched `early_us` before they start."""
    made = Recorder()
    for number in range(STEPS):
        begin = 10_000.0 * number + 6_000.0
        made.mark(number, begin - 5_500.0, 9_900.0)
        for at in range(400):
            start = begin + 20.0 * at
            kernel = ("fused_half_kernel", 15.0, "model/add/AddV2:AddV2")
            made.launch(kernel, start - early_us, start)
    return made.lines


def paused(
    name: str, pause_us: float, *, every: int = 1, track: str = "main"
) -> list[Any]:
    """B1s in which a range of this name lies before each n-th step, device idle."""
    made = Recorder()
    begin = 0.0
    for number in range(STEPS):
        called = begin + 216.0
        start = called + 10.0
        for kernel in KERNELS:
            made.launch(kernel, called, start)
            called += 6.0
            start += kernel[1] + 0.5
        made.host("IteratorGetNext", begin, 40.0)
        made.mark(number, begin, start - begin - 1.0)
        begin = start
        if number % every == every - 1:
            made.host(name, begin + 5.0, pause_us, track=track)
            begin += pause_us + 10.0
    return made.lines


def beside(name: str, long_us: float, *, track: str = "main") -> list[Any]:
    """B1 with a range of this name in each step, while the device is busy."""
    made = Recorder()
    made.lines = ahead()
    for number in range(1, STEPS):
        made.host(name, 10_000.0 * number + 1_500.0, long_us, track=track)
    return made.lines


def read_back(*, idle_us: float, late: bool = False) -> list[Any]:
    """A number is read in each step, and the next step launched after it.

    Args:
        idle_us: How long the device does nothing from the number's copy on.
        late: The number is that of the step before, and the next one is queued.
    """
    made = Recorder()
    begin = 0.0
    for number in range(STEPS):
        called, start = begin + 20.0, begin + (10_100.0 if late else 30.0)
        for kernel in KERNELS:
            made.launch(kernel, called, start)
            called += 6.0
            start += kernel[1] + 0.5
        until = begin + 9_900.0 if late else start + 2.0
        made.copy_out(called, until - 2.0, 2.0, size=4)
        made.host("cuStreamSynchronize", called + 6.0, until + 1.0 - called - 6.0)
        begin = begin + 10_000.0 if late else until + idle_us - 30.0
        made.mark(number, begin - 9_990.0 if late else begin - 9_000.0, 8_000.0)
    return made.lines


#: What only our recorder writes, and so shows that collections were kept.
WATCHED = [("_counters_", "process RSS (bytes)", 0.0, 0.0, {"value": 2**30})]


def apart(*, gap_us: float = 3_000.0) -> list[Any]:
    """The host does nothing that anybody recorded after each step's call."""
    made = Recorder()
    for number in range(STEPS):
        begin = (10_100.0 + gap_us) * number
        made.mark(number, begin, 10_050.0)
        called, start = begin + 20.0, begin + 40.0
        for kernel in KERNELS:
            made.launch(kernel, called, start)
            called += 6.0
            start += kernel[1] + 0.5
    return made.lines


def on_host(
    *,
    steps: int = 20,
    step_us: float = 10_000.0,
    lead_us: float = 40.0,
    pause: str | None = None,
    pause_us: float = 0.0,
    every: int = 1,
) -> list[Any]:
    """Bc: no device; each step fetches its batch, then runs four ops on one thread.

    Args:
        steps: Number of steps.
        step_us: Length of a step.
        lead_us: Time before the ops in which nothing of the base runs but the fetch.
        pause: Name of a range that follows each n-th step.
        pause_us: Its length.
        every: The n.
    """
    made = Recorder()
    begin = 0.0
    for number in range(steps):
        made.mark(number, begin, step_us - 10.0)
        made.host("IteratorGetNext", begin + 5.0, 30.0)
        each = (step_us - lead_us - 20.0) / 4
        for at, op in enumerate(("MatMul", "Relu", "MatMul_1", "BiasAdd")):
            name = f"model/layer/{op}:{op.partition('_')[0]}"
            start = begin + lead_us + each * at
            made.lines.append(("main", name, start, each, {"is_eager": 0}))
        begin += step_us
        if pause is not None and number % every == every - 1:
            made.host(pause, begin, pause_us)
            begin += pause_us + 5.0
    return made.lines


def findings(
    lines: list[Any], *, devices: Any = None, without: str | None = None
) -> Mapping[str, Finding]:
    """What the rules say of a trace.

    Args:
        lines: As in `blueprint.trace`.
        devices: Capabilities by ordinal; None: one A100 where the lines use a GPU.
        without: A table to take away.
    """
    return _findings(pickle.dumps((lines, devices, without)))


@lru_cache(maxsize=64)
def _findings(asked: bytes) -> Mapping[str, Finding]:
    """What `findings` answers; the bases are asked about again and again."""
    lines, devices, without = pickle.loads(asked)  # noqa: S301 - our own
    used = any(line[0].startswith("gpu:") for line in lines)
    if devices is None:
        devices = {0: blueprint.A100} if used else {}
    profile = blueprint.profile(blueprint.trace(lines, devices=devices))
    if without is not None:
        why = Unavailable(code="NOT_RECORDED", reason="Deleted.", remedy="Keep it.")
        profile = profile.without(without, why)
    return Judged(signals_of(profile))


def parallel(
    *,
    work_us: Sequence[float] = (6_000.0,) * 4,
    begins_us: Sequence[float] | None = None,
    exchanges: Sequence[tuple[int, float]] = ((64 * 2**20, 540.0),),
    steps: int = 6,
    pack_us: float = 0.0,
) -> list[Any]:
    """B8: one host, a device per entry of `work_us`, all-reduces at each step's end.

    An all-reduce begins on each device when its work is done, and ends on all of them
    when it has been transferred after the last one came.

    Args:
        work_us: Computation of each device in a step.
        begins_us: How long after the step's begin each device begins; at once where
            None.
        exchanges: Bytes of each all-reduce, and the time of its transfer.
        steps: Number of steps.
        pack_us: Kernels that put gradients together before the exchanges, and take
            them apart after them.
    """
    made = Recorder()
    late = begins_us or (0.0,) * len(work_us)
    begin = 1_000.0
    for number in range(steps):
        free = []
        for device, (work, after) in enumerate(zip(work_us, late, strict=True)):
            at = begin + after
            for _ in range(KERNELS_OF_A_DEVICE):
                kernel = (BF16, work / KERNELS_OF_A_DEVICE - 0.5, MATMUL)
                made.launch(kernel, at - 25.0, at, device=device)
                at += work / KERNELS_OF_A_DEVICE
            if pack_us:
                made.launch(
                    ("concat_fixed", pack_us, PACK), at - 25.0, at, device=device
                )
                at += pack_us
            free.append(at)
        for size, transfer in exchanges:
            end = max(free) + transfer
            for device, at in enumerate(free):
                made.exchange(device, at, end - at, size, members=len(work_us))
            free = [end] * len(work_us)
        if pack_us:
            for device, at in enumerate(free):
                made.launch(("split", pack_us, UNPACK), at - 25.0, at, device=device)
            free = [at + pack_us for at in free]
        made.mark(number, begin - 30.0, max(free) - begin + 49.0)
        begin = max(free) + 50.0
    return made.lines


def allocating(
    *, base_gib: float = 18.0, peak_gib: float = 30.0, fragmentation: float = 0.04
) -> list[Any]:
    """B1 whose memory of 40 GiB fills up and empties again in each step."""
    gpu = Allocator("GPU_0_bfc", limit=40 * GIB, in_use=int(base_gib * GIB))
    size = int((peak_gib - base_gib) * GIB)
    for number in range(STEPS):
        begin = 10_000.0 * number
        told = {"tf_op": "model/dense/MatMul:MatMul", "fragmentation": fragmentation}
        gpu.allocate(begin + 100.0, 0x1000, size, **told)
        gpu.free(begin + 9_000.0, 0x1000, size, fragmentation=fragmentation)
    return ahead() + gpu.lines


def leaking(mib: int, *, steps: int = STEPS) -> list[Any]:
    """B1 that keeps so much more memory after each of the first steps."""
    gpu = Allocator("GPU_0_bfc", limit=40 * GIB, in_use=18 * GIB)
    for number in range(STEPS):
        begin = 10_000.0 * number
        gpu.allocate(begin + 100.0, 0x1000, GIB)
        if number < steps:
            kept = 0x100000 + number
            gpu.allocate(begin + 200.0, kept, mib * MIB, tf_op="losses/stack:Pack")
        gpu.free(begin + 9_000.0, 0x1000, GIB)
    return ahead() + gpu.lines


def scaled(*, hole_us: float, every: int = 1, fused: bool = False) -> list[Any]:
    """B1s that checks its gradients before the optimizer, in each n-th step.

    Args:
        hole_us: From the check's end to the optimizer's first kernel.
        every: The n.
        fused: The optimizer reads the answer on the device: nothing is copied.
    """
    made = Recorder()
    begin = 0.0
    for number in range(STEPS):
        called = begin + 216.0
        start = called + 10.0
        for at, kernel in enumerate(KERNELS):
            if at == 140 and number % every == 0:
                check = ("IsFinite_GPU_DT_HALF_DT_BOOL_kernel", 10.0, "IsFinite")
                made.launch(check, called, start)
                called, start = called + 6.0, start + 10.5
                if not fused:
                    made.copy_out(called, start, 2.0, size=1)
                    waited = called + 6.0
                    made.host("cuStreamSynchronize", waited, start + 3.0 - waited)
                    start += hole_us - 0.5
                    called = start - 10.0
            made.launch(kernel, called, start)
            called += 6.0
            start += kernel[1] + 0.5
        made.host("IteratorGetNext", begin, 40.0)
        made.mark(number, begin, start - begin - 1.0)
        begin = start
    return made.lines


def cores(
    count: int, *, until_us: float = 300_000.0, busy: float = 50.0, **more: float
) -> list[Any]:
    """The counters of a machine with so many cores, ten times a second.

    Args:
        count: Number of cores.
        until_us: When the last reading is.
        busy: How busy each core is, in percent.
        more: Other counters by name, the same at all times.
    """
    named = {f"core {at} CPU (percent)": busy for at in range(count)}
    named |= {"machine CPU (percent)": busy * count} | more
    return [
        ("_counters_", name, at * 100_000.0, 0.0, {"counter_value": value})
        for name, value in named.items()
        for at in range(int(until_us // 100_000) + 1)
    ]


def contended(*, busy_us: float, quiet_us: float, threads: int = 14) -> list[Any]:
    """B1s whose first 60 kernels last 5 µs, each launched as the device falls idle.

    The first 40 are launched while input threads are busy.

    Args:
        busy_us: From launch to launch meanwhile.
        quiet_us: From launch to launch afterwards.
        threads: Number of these threads.
    """
    made = Recorder()
    begin = 0.0
    for number in range(STEPS):
        called = begin + 216.0
        first, free = called, called
        for at in range(60):
            start = max(called + 4.0, free)
            made.launch(("fused_half_kernel", 5.0, "model/add/AddV2"), called, start)
            free = start + 5.5
            called += busy_us if at < 39 else quiet_us
            if at == 39:
                crowd = called - 1.0
        for kernel in KERNELS[20:]:
            start = max(called + 4.0, free)
            made.launch(kernel, called, start)
            called += quiet_us
            free = start + kernel[1] + 0.5
        for lane in range(threads):
            name = "Iterator::Prefetch::ParallelMapV2"
            made.host(name, first - 5.0, crowd - first + 5.0, track=f"tf_data/{lane}")
        made.host("IteratorGetNext", begin, 40.0)
        made.mark(number, begin, free - begin - 1.0)
        begin = free
    return made.lines


def fed(*, devices: int = 8, in_turn: bool, each_us: float = 300.0) -> list[Any]:
    """B8 whose devices get their batches before they compute.

    Args:
        devices: Number of devices.
        in_turn: Each is fed when the one before has its batch; else all at once.
        each_us: From the begin of a copy to that of the next; it lasts 10 µs less.
    """
    begins = [
        each_us * (device + 1) if in_turn else each_us for device in range(devices)
    ]
    lines = parallel(work_us=(6_000.0,) * devices, begins_us=begins)
    made = Recorder()
    made.launched = 1_000_000
    for begin in [line[2] + 30.0 for line in lines if line[1] == "train"]:
        for device, ready in enumerate(begins):
            made.launched += 1
            stats = {"correlation_id": made.launched}
            start = begin + ready - each_us
            details = "kind_src:pinned kind_dst:device size:8388608 dest:0 async:1"
            made.host("cuMemcpyHtoDAsync", start - 8.0, 6.0)
            made.lines[-1] = (*made.lines[-1], stats)
            made.lines.append(
                (
                    f"gpu:{device}/11(MemcpyH2D)",
                    "MEMCPYHtoD",
                    start,
                    each_us - 10.0,
                    {**stats, "memcpy_details": details},
                )
            )
    return lines + made.lines
