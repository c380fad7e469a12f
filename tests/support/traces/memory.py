"""Literal traces of an allocator, and the memories that `memory_profile` finds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.support.traces import blueprint

from stepscope.analysis.memory_profile import MemoryProfileResult, Options, analyse

if TYPE_CHECKING:
    from stepscope.analysis.memory_profile.memory import Memory
    from stepscope.derive.profile_data import ProfileData
    from stepscope.trace.model import TraceData


MIB = 2**20


class Allocator:
    """Writes the events of one allocator with the state that follows from them."""

    def __init__(
        self, name: str, *, limit: int, in_use: int = 0, stack: int = 0
    ) -> None:
        self.name, self.limit, self.in_use = name, limit, in_use
        self.stack, self.peak = stack, in_use
        self.lines: list[blueprint.Line] = []

    def allocate(self, us: float, address: int, size: int, **stats: Any) -> None:
        self.in_use += size
        self.peak = max(self.peak, self.in_use)
        self._event("MemoryAllocation", us, address, size, stats)

    def free(self, us: float, address: int, size: int, **stats: Any) -> None:
        self.in_use -= size
        self._event("MemoryDeallocation", us, address, size, stats)

    def _event(
        self, name: str, us: float, address: int, size: int, stats: dict[str, Any]
    ) -> None:
        state = {
            "allocator_name": self.name,
            "bytes_reserved": self.stack,
            "bytes_allocated": self.in_use,
            "bytes_available": self.limit - self.in_use - self.stack,
            "peak_bytes_in_use": self.peak,
            "fragmentation": 0.25,
            "addr": address,
            "allocation_bytes": size,
            "requested_bytes": size - 100,
        }
        self.lines.append(("main", name, us, 0, {**state, **stats}))


def a3() -> TraceData:
    """A.3: 300 MiB in use at start, two steps, one unmatched free."""
    gpu = Allocator("GPU_0_bfc", limit=1000 * MIB, in_use=300 * MIB)
    one, two, three, four = 0x1000, 0x2000, 0x3000, 0x4000
    conv = {"tf_op": "a:Conv", "region_type": "output", "data_type": 1, "shape": "[4]"}
    gpu.allocate(10, one, 50 * MIB, group_id=0, tf_op="w:Var", region_type="dynamic")
    gpu.allocate(20, two, 40 * MIB, group_id=1, **conv)
    gpu.allocate(21, three, 40 * MIB, group_id=1, **conv)
    gpu.free(25, 0x9900, 10 * MIB, group_id=1)
    gpu.allocate(30, four, 200 * MIB, group_id=1, tf_op="b:MatMul", region_type="temp")
    gpu.free(40, four, 200 * MIB, group_id=1)
    gpu.free(50, two, 40 * MIB)
    steps: list[blueprint.Line] = [
        ("main", "train", 5, 10, {"_r": 1, "step_num": 0, "group_id": 0}),
        ("main", "train", 15, 30, {"_r": 1, "step_num": 1, "group_id": 1}),
    ]
    return blueprint.trace([*steps, *gpu.lines])


def result_of(profile: ProfileData, **options: Any) -> MemoryProfileResult:
    result = analyse(profile, Options(**options))
    assert isinstance(result, MemoryProfileResult)
    return result


def memory_of(trace: TraceData, **options: Any) -> Memory:
    """The only memory of a trace."""
    (memory,) = result_of(blueprint.profile(trace), **options).memories.values()
    return memory


def fields_missing(result: MemoryProfileResult) -> dict[str, str]:
    return {lack.field: lack.code for lack in result.missing}
