"""Small programs whose steps can be worked out by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.support.kept_promises import check_graph
from tests.support.traces import blueprint

from stepscope.derive.account.time_by_cause import Account, account
from stepscope.derive.replay.critical import without_owners
from stepscope.derive.replay.graph import step_graph
from stepscope.derive.replay.node_times import Identity, replay_check, replayed_gain
from stepscope.derive.replay.nodes import Graph
from stepscope.derive.step_time.device_sets import device_sets
from stepscope.derive.step_time.host_classes import HostClasses, host_classes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.derive.profile_data import ProfileData
    from stepscope.derive.replay.nodes import Edit
    from stepscope.trace.model import TraceData

US = 1_000_000


class Program:
    """A program of literal lines, its graph, and what a claim gains of a step."""

    def __init__(self, lines: Sequence[blueprint.Line]) -> None:
        on_device = any(line[0].startswith("gpu:") for line in lines)
        devices = {0: blueprint.A100} if on_device else None
        trace = blueprint.trace(list(lines), devices=devices)
        self._of(blueprint.profile(trace), device=0 if on_device else None)

    @classmethod
    def recorded(cls, trace: TraceData) -> Program:
        """The program of a recording, whose work is on device 0."""
        program = cls.__new__(cls)
        program._of(blueprint.profile(blueprint.renamed(trace, "vm")), device=0)
        return program

    def _of(self, profile: ProfileData, *, device: int | None) -> None:
        self.profile = profile
        self.device = device
        graph = self.profile.derived("vm", step_graph)
        check = self.profile.derived("vm", replay_check)
        assert isinstance(graph, Graph), graph
        assert isinstance(check, Identity), check
        check_graph(graph)
        self.graph, self.check = graph, check

    def without(self, *owners: str, place: str = "any") -> Edit:
        found = self.profile.derived("vm", account)
        classes = self.profile.derived("vm", host_classes)
        assert isinstance(found, Account)
        assert isinstance(classes, HostClasses)
        return without_owners(
            self.graph,
            owners,
            place=place,
            device=self.device,
            account=found,
            host_classes=classes,
            device_sets=self.profile.derived("vm", device_sets),
            tracks=self.profile.table("vm", "tracks"),
        )

    def gain_us(self, edit: Edit) -> tuple[float, float]:
        """What a step gains, in µs: with slack and without, the smaller first."""
        found = replayed_gain(self.graph, edit)
        return found.low_ps / US, found.high_ps / US

    def track(self, name: str) -> int:
        """The row of tracks of that name."""
        return int(self.profile.table("vm", "tracks")["name"].to_list().index(name))


def step(number: int, start: float, dur: float) -> Any:
    return ("main", "train", start, dur, {"_r": 1, "step_num": number})


def call(
    number: int, start: float, dur: float = 10, name: str = "cuLaunchKernel"
) -> Any:
    return ("main", name, start, dur, {"correlation_id": number})


def kernel(
    number: int, start: float, dur: float, *, stream: int = 7, name: str = "sgemm"
) -> Any:
    return (f"gpu:0/{stream}(Compute)", name, start, dur, {"correlation_id": number})


#: Steps of each program.
STEPS = 8


def launch_bound() -> list[blueprint.Line]:
    """Each step of 1000 µs launches five kernels of 20 µs, one every 200 µs."""
    lines, number = [], 0
    for at in range(STEPS):
        lines.append(step(at, 1000 * at, 1000))
        for turn in range(5):
            number += 1
            begin = 1000 * at + 200 * turn
            lines += [call(number, begin), kernel(number, begin + 10, 20)]
    return lines


def device_bound() -> list[blueprint.Line]:
    """The device needs 1000 µs a step, the host 300; it then waits for the step before.

    So the host is one step ahead, and never further.
    """
    lines = []
    for at in range(STEPS):
        begin = (0, 300)[at] if at < 2 else 1000 * (at - 1) + 165
        lines += [
            step(at, begin, 299 if at == 0 else 1000 * at + 160 - begin),
            ("main", "host/op:Op", begin + 10, 100),
            call(at + 1, begin + 150),
            kernel(at + 1, 160 + 1000 * at, 998),
        ]
        if at:
            wait = 1000 * at + 159 - (begin + 295)
            lines.append(("main", "cuEventSynchronize", begin + 295, wait))
    return lines


def synchronising() -> list[blueprint.Line]:
    """Launch (10 µs), wait for the kernel of 600, then 390 µs of the host's own."""
    lines = []
    for at in range(STEPS):
        begin = 1000 * at
        lines += [
            step(at, begin, 990),
            call(at + 1, begin),
            kernel(at + 1, begin + 10, 595),
            ("main", "cuStreamSynchronize", begin + 20, 590),
            ("main", "host/op:Op", begin + 620, 370),
        ]
    return lines


def two_streams() -> list[blueprint.Line]:
    """A (300 µs) on stream 7; B on stream 8, launched early, begins after A."""
    lines = []
    for at in range(STEPS):
        begin, number = 1000 * at, 2 * at + 1
        lines += [
            step(at, begin, 990),
            call(number, begin),
            call(number + 1, begin + 20),
            kernel(number, begin + 10, 300),
            kernel(number + 1, begin + 312, 300, stream=8, name="softmax"),
            ("main", "cuDeviceSynchronize", begin + 40, 580),
            ("main", "host/op:Op", begin + 630, 360),
        ]
    return lines


def copying() -> list[blueprint.Line]:
    """A copy of 400 µs on the stream of the kernels, 500 µs of kernels behind it."""
    lines = []
    for at in range(STEPS):
        begin, number = 910 * at, 2 * at + 1
        copy = ("gpu:0/7(Compute)", "MemcpyH2D", begin + 10, 400)
        lines += [
            step(at, begin, 905),
            call(number, begin, name="cuMemcpyHtoDAsync"),
            call(number + 1, begin + 15),
            (*copy, {"correlation_id": number}),
            kernel(number + 1, begin + 411, 495),
            ("main", "cuStreamSynchronize", begin + 30, 876),
        ]
    return lines


def copying_to_both() -> list[blueprint.Line]:
    """Like `copying`, on two devices at once: one thread serves both."""
    lines = []
    for at in range(STEPS):
        begin = 910 * at
        lines += [step(at, begin, 905), ("main", "cuCtxSynchronize", begin + 30, 876)]
        for device in (0, 1):
            number = 4 * at + 2 * device + 1
            copy = (f"gpu:{device}/7(Compute)", "MemcpyH2D", begin + 10, 400)
            work = (f"gpu:{device}/7(Compute)", "k", begin + 411, 495)
            lines += [
                call(number, begin + 3 * device, name="cuMemcpyHtoDAsync", dur=2),
                call(number + 1, begin + 15 + 3 * device, dur=2),
                (*copy, {"correlation_id": number}),
                (*work, {"correlation_id": number + 1, "kernel_details": "grid:1,1,1"}),
            ]
    return lines


def loading(*, worker_us: int = 700) -> list[blueprint.Line]:
    """The program asks at 0 of each 1000 µs and gets the batch when the worker is done.

    The worker begins when the program has taken the batch before.
    """
    lines = []
    for at in range(STEPS):
        begin = 1000 * at
        lines += [
            step(at, begin, 990),
            ("main", "IteratorGetNext", begin + 5, worker_us + 15),
            ("main", "a/MatMul:MatMul", begin + worker_us + 30, 960 - worker_us),
            ("worker", "Iterator::Prefetch::Map", begin + 10, worker_us),
        ]
    return lines
