"""The longest execution of an op or a kernel, worked out by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.traces import blueprint

from stepscope.analysis.timeline.search import (
    Instance,
    SoughtKernel,
    longest_of_kernel,
    longest_of_op,
)

if TYPE_CHECKING:
    from tests.support.traces.blueprint import Line

    from stepscope.analysis.timeline.search import Side
    from stepscope.derive.profile_data import ProfileData

US = 1_000_000
STREAM = "gpu:0/7(Compute)"
#: Of `long` the second is the longest, and of two equal ones the first counts.
HERE: list[blueprint.Line] = [
    ("main", "outer", 0, 300),
    (STREAM, "short", 100, 10),
    (STREAM, "long", 110, 40),
    (STREAM, "long", 200, 60),
    (STREAM, "long", 300, 60),
]
THERE: list[blueprint.Line] = [(STREAM, "short", 20, 11), (STREAM, "long", 40, 5)]


def place(found: Instance | None) -> tuple[str, str, int, int] | None:
    if found is None:
        return None
    where = found.place
    return found.host, where.name, where.start_ps // US, where.dur_ps // US


@pytest.mark.parametrize(
    ("hosts", "kernel", "longest"),
    [
        (("vm", "b"), "long", ("vm", "long", 200, 60)),
        (("vm", "b"), "short", ("b", "short", 20, 11)),
        (("vm",), "short", ("vm", "short", 100, 10)),
        (("b",), "long", ("b", "long", 40, 5)),
        # What runs on a thread is no kernel.
        (("vm", "b"), "outer", None),
        (("vm", "b"), "lon", None),
        ((), "long", None),
    ],
)
def test_the_longest_of_a_kernel(
    hosts: tuple[str, ...],
    kernel: str,
    longest: tuple[str, str, int, int] | None,
) -> None:
    profile = blueprint.profile(blueprint.trace(HERE), blueprint.trace(THERE, host="b"))
    assert place(longest_of_kernel(profile, hosts, SoughtKernel(kernel))) == longest


def test_an_op_is_seen_where_the_device_works_for_it() -> None:
    profile = blueprint.profile(blueprint.a1())
    found = longest_of_op(profile, profile.hosts, "model/dense_1/MatMul")
    assert found is not None
    assert found.place.name == "ampere_sgemm_32x32"
    assert found.place.dur_ps == 100 * US
    assert longest_of_op(profile, profile.hosts, "MatMul of nobody") is None


def shared_kernel() -> ProfileData:
    """One kernel of two ops and of none, and one op on both sides."""

    def run(start: int, dur: int, number: int, op: str | None, grid: int) -> Line:
        stats: dict[str, int | str] = {"correlation_id": number}
        stats["kernel_details"] = f"regs:16 grid:{grid},1,1 block:64,1,1"
        if op is not None:
            stats["tf_op"] = f"{op}:MatMul"
        return (STREAM, "gemm", start, dur, stats)

    return blueprint.profile(
        blueprint.trace(
            [
                ("main", "a/MatMul:MatMul", 0, 20),
                ("main", "a/MatMul:MatMul", 30, 25),
                run(100, 10, 1, "a/MatMul", 1),
                run(200, 15, 2, "a/MatMul", 2),
                run(300, 40, 3, "b/MatMul", 1),
                run(400, 90, 4, None, 1),
            ]
        )
    )


@pytest.mark.parametrize(
    ("sought", "start_us"),
    [
        (SoughtKernel("gemm"), 400),
        (SoughtKernel("gemm", op="b/MatMul"), 300),
        (SoughtKernel("gemm", op="a/MatMul"), 200),
        (SoughtKernel("gemm", op="a/MatMul", grid="1,1,1", block="64,1,1"), 100),
        (SoughtKernel("gemm", op=""), 400),
        (SoughtKernel("gemm", op="c/MatMul"), None),
    ],
)
def test_a_kernel_of_an_op_is_never_seen_at_another_op(
    sought: SoughtKernel, start_us: int | None
) -> None:
    profile = shared_kernel()
    found = longest_of_kernel(profile, profile.hosts, sought)
    assert (found and found.place.start_ps // US) == start_us


def test_an_op_is_seen_on_the_side_that_is_meant() -> None:
    profile = shared_kernel()

    def seen(op: str, side: Side) -> tuple[str, str, int, int] | None:
        return place(longest_of_op(profile, profile.hosts, op, side=side))

    assert seen("a/MatMul", "Host") == ("vm", "a/MatMul:MatMul", 30, 25)
    assert seen("a/MatMul", "Device") == ("vm", "gemm", 200, 15)
    assert seen("b/MatMul", "Host") is None
