"""Where ops ran, whether at once, and what functions and exchanges there were."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.traces import blueprint

from stepscope.derive.collectives.calls import collectives
from stepscope.derive.host.function_calls import function_calls
from stepscope.derive.ops.database import OpPlacement, op_placement
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.trace.model import TraceData

US = 1_000_000
GPU = "gpu:0/7(Compute)"


def placed(trace: TraceData) -> OpPlacement:
    found = blueprint.profile(trace).derived(trace.host, op_placement)
    assert isinstance(found, OpPlacement)
    return found


def test_an_execution_that_launches_work_counts_on_the_device_only() -> None:
    found = placed(
        blueprint.trace(
            [
                ("main", "a/MatMul:MatMul", 0, 50),
                ("main", "cuLaunchKernel", 10, 1, {"correlation_id": 1}),
                ("main", "a/Shape:Shape", 60, 5),
                ("worker", "Iterator::Map", 0, 20),
                (GPU, "x", 15, 2, {"correlation_id": 1, "tf_op": "a/MatMul:MatMul"}),
                ("gpu:0/8", "MemcpyH2D", 20, 2),
            ]
        )
    )
    assert (found.host_executions, found.device_executions) == (1, 1)
    assert found.dataset_executions == 1
    assert (found.host_self_ps, found.device_self_ps) == (55 * US, 2 * US)
    assert found.dataset_self_ps == 20 * US


def test_on_a_cpu_the_device_side_is_unknown_not_zero() -> None:
    found = placed(blueprint.a2())
    assert (found.host_executions, found.dataset_executions) == (12, 9)
    assert found.device_executions is None
    assert found.device_self_ps is None


def test_device_work_that_nothing_names_is_not_taken_for_no_ops() -> None:
    found = placed(blueprint.trace([("main", "a:A", 0, 5), (GPU, "x", 0, 5)]))
    assert found.device_executions is None


def test_without_launches_nobody_knows_which_ops_stayed_on_the_host() -> None:
    trace = blueprint.trace([("main", "a:A", 0, 5), (GPU, "x", 0, 5, {"tf_op": "b:B"})])
    found = placed(trace)
    assert found.host_executions is None
    assert found.device_executions == 1


def test_eager_shares_are_self_times_of_eager_executions() -> None:
    found = placed(
        blueprint.trace(
            [
                ("main", "EagerLocalExecute: Mul", 0, 30),
                ("executor", "f/Add:Add", 0, 10),
            ]
        )
    )
    assert (found.host_eager_self_ps, found.host_self_ps) == (30 * US, 40 * US)


def test_programs_whose_ops_have_no_modes_have_no_eager_share() -> None:
    found = placed(blueprint.trace([("main", "jit(f)/add:", 0, 5)]))
    assert found.host_eager_self_ps is None


@pytest.mark.parametrize(
    ("name", "training"),
    [
        ("gradient_tape/model/dense/MatMul:MatMul", True),
        ("train/gradients/conv/Conv2D:Conv2D", True),
        ("jit(f)/transpose(jvp(g))/dot_general:", True),
        ("Adam/update:ResourceApplyAdam", True),
        ("model/dense/MatMul:MatMul", False),
        # The last segment is the op's own name, not a scope.
        ("model/gradients:Relu", False),
    ],
)
def test_gradients_and_updates_show_training(name: str, *, training: bool) -> None:
    assert placed(blueprint.trace([("main", name, 0, 5)])).is_training is training


def test_calls_of_functions_cost_what_inner_calls_do_not() -> None:
    traced = {"tf_function_call": "traced-nonXla", "tracing_count": 2}
    cached = {"tf_function_call": "notTraced-nonXla", "tracing_count": 3}
    trace = blueprint.trace(
        [
            ("main", "train", 0, 100, traced),
            ("main", "loss", 20, 30, cached),
            ("main", "train", 200, 40, cached),
        ]
    )
    found = blueprint.profile(trace).derived("vm", function_calls)
    assert found.rows() == [
        ("train", "traced-nonXla", 1, 70 * US, 2),
        ("train", "notTraced-nonXla", 1, 40 * US, 3),
        ("loss", "notTraced-nonXla", 1, 30 * US, 3),
    ]


def test_a_tracing_count_that_was_not_recorded_is_null() -> None:
    call = {"tf_function_call": "concrete"}
    trace = blueprint.trace([("main", "f", 0, 10, call)])
    found = blueprint.profile(trace).derived("vm", function_calls)
    assert found["tracing_count"].to_list() == [None]


def test_without_calls_of_functions_the_reason_is_given() -> None:
    found = blueprint.profile(blueprint.a2()).derived("vm", function_calls)
    assert isinstance(found, Unavailable)
    assert found.code == "NOT_RECORDED"


def test_collectives_are_summed_by_kind_and_device() -> None:
    trace = blueprint.trace(
        [
            (GPU, "ncclDevKernel_AllReduce_Sum", 0, 60),
            (GPU, "ncclDevKernel_AllReduce_Sum", 100, 20),
            ("gpu:0/9", "sgemm", 110, 30),
            ("gpu:1/7", "ncclKernel_AllGather", 0, 10),
            ("gpu:1/7", "ncclKernel", 20, 10),
        ]
    )
    found = blueprint.profile(trace).derived("vm", collectives)
    known = ("kind", "device", "count", "total_ps", "min_ps", "max_ps", "exposed_ps")
    assert found.select(known).rows() == [
        ("all-gather", 1, 1, 10 * US, 10 * US, 10 * US, 10 * US),
        ("all-reduce", 0, 2, 80 * US, 20 * US, 60 * US, 70 * US),
        ("other", 1, 1, 10 * US, 10 * US, 10 * US, 10 * US),
    ]
