"""Ops from literal lines, and the closer look at one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from tests.support.traces import blueprint

from stepscope.analysis import framework_op_stats
from stepscope.analysis.framework_op_stats import Options
from stepscope.analysis.framework_op_stats.detail import OpDetailResult

if TYPE_CHECKING:
    from stepscope.derive.profile_data import ProfileData

GPU = "gpu:0/7(Compute)"
COPIES = "gpu:0/8(MemcpyH2D)"
#: 108 multiprocessors: the A100 of the blueprints is filled by 108 blocks.
FULL = "regs:32 static_shared:0 dynamic_shared:0 grid:216,1,1 block:256,1,1"
SMALL = "regs:32 static_shared:0 dynamic_shared:0 grid:107,1,1 block:256,1,1"
#: 166,912 bytes per block and 1,024 of the system's own are the whole multiprocessor:
#: one block of 2 warps of 64, 3.125 %.
LOW = "regs:32 static_shared:0 dynamic_shared:166912 grid:216,1,1 block:64,1,1"


def detail(profile: ProfileData, **options: Any) -> OpDetailResult:
    result = framework_op_stats.analyse(profile, Options(**options))
    assert isinstance(result, OpDetailResult)
    return result


def of(*lines: blueprint.Line, op: str = "a", **options: Any) -> OpDetailResult:
    trace = blueprint.trace(list(lines), devices={0: blueprint.A100})
    return detail(blueprint.profile(trace), op=op, **options)


def call(
    start: float, dur: float, number: int, *, op: str = "a:A", launch: float = 1
) -> list[blueprint.Line]:
    """An op on the host, and inside it one launch call after a microsecond."""
    stats = {"correlation_id": number}
    return [
        ("main", op, start, dur),
        ("main", "cuLaunchKernel", start + 1, launch, stats),
    ]


def kernel(
    start: float,
    dur: float,
    number: int,
    *,
    op: str = "a:A",
    details: str | None = FULL,
    name: str = "k",
) -> blueprint.Line:
    stats: dict[str, int | str] = {"correlation_id": number, "tf_op": op}
    if details is not None:
        stats["kernel_details"] = details
    return (GPU, name, start, dur, stats)


def copy(start: float, dur: float, number: int, *, size: int = 100) -> blueprint.Line:
    details = f"kind_src:pageable kind_dst:device size:{size} dest:0 async:1"
    stats = {"correlation_id": number, "memcpy_details": details, "tf_op": "a:A"}
    return (COPIES, "MemcpyH2D", start, dur, stats)


def parts(result: OpDetailResult) -> dict[str, float]:
    """The parts of the cause that are not zero."""
    named = msgspec.structs.asdict(result.cause)
    return {
        name: value
        for name, value in named.items()
        if name.endswith("_us") and name != "total_us" and value
    }
