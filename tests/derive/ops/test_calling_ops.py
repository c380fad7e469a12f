"""Ops that only call others: their operations are those of the ops inside."""

from __future__ import annotations

from tests.support.traces import blueprint

from stepscope.derive.ops.costs import op_costs
from stepscope.unavailable import Unavailable

SIZES = {"Input Dims": "[[4, 8], [8, 2]]", "Input type": '["float", "float"]'}


def flops_of(*lines: blueprint.Line) -> dict[str, int | None]:
    trace = blueprint.trace(lines, devices={0: blueprint.A100})
    found = blueprint.profile(trace).derived("vm", op_costs)
    assert not isinstance(found, Unavailable)
    return dict(found.select("name", "flops").rows())


def test_work_that_such_an_op_launches_itself_is_unknown_and_not_nothing() -> None:
    launch, other = {"correlation_id": 1}, {"correlation_id": 2}
    found = flops_of(
        ("main", "CompiledFunctionBackward", 0, 100),
        ("main", "cudaLaunchKernel", 10, 2, launch),
        ("main", "aten::mm", 20, 20, SIZES),
        ("main", "cudaLaunchKernel", 30, 2, other),
        ("gpu:0/7", "triton_fused", 20, 50, launch),
        ("gpu:0/7", "sgemm", 80, 50, other),
    )
    # 2 * 4 * 8 * 2 of the product.
    assert found == {"CompiledFunctionBackward": None, "aten::mm": 128}


def test_such_an_op_hides_no_work_of_the_ops_inside() -> None:
    launch = {"correlation_id": 1}
    found = flops_of(
        ("main", "MmBackward0", 0, 100),
        ("main", "aten::mm", 20, 20, SIZES),
        ("main", "cudaLaunchKernel", 30, 2, launch),
        ("gpu:0/7", "sgemm", 80, 50, launch),
    )
    assert found == {"aten::mm": 128}
