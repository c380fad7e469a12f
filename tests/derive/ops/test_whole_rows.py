"""Whole rows of ops and of their costs, worked out by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from msgspec.structs import asdict
from tests.support.traces import blueprint

from stepscope.derive.device.attribution import OpEvidence
from stepscope.derive.names.event_kinds import OpCategory
from stepscope.derive.ops.costs import host_op_costs, kernel_costs, op_costs
from stepscope.derive.ops.database import (
    DEVICE_OP_ROWS,
    HOST_OP_ROWS,
    DeviceOps,
    HostOps,
    OpPlacement,
    device_ops,
    host_ops,
    op_placement,
)
from stepscope.derive.ops.execution_costs import ExecutionCosts, execution_costs
from stepscope.derive.reasons import WHY
from stepscope.trace.tables import HLO_OPS
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.trace.model import TraceData

US = 1_000_000
GONE = Unavailable(code="LOST_EVENTS", reason="Taken away.", remedy="Put it back.")
GPU, OTHER = "gpu:0/7(Compute)", "gpu:1/7(Compute)"


def derived(trace: TraceData, derivation: Any) -> Any:
    return blueprint.profile(trace).derived("vm", derivation)


def step(start: float, dur: float, number: int) -> blueprint.Line:
    return ("main", "train", start, dur, {"_r": 1, "step_num": number})


def call(start: float, number: int) -> blueprint.Line:
    return ("main", "cuLaunchKernel", start, 1, {"correlation_id": number})


def kernel(start: float, dur: float, number: int, **more: Any) -> blueprint.Line:
    track, name = more.pop("track", GPU), more.pop("name", "k")
    return (track, name, start, dur, {"correlation_id": number, **more})


#: Before the steps `a` runs eagerly; in them, it runs in a function and twice for
#: device 1; `b` contains it.
LINES = [
    ("main", "a:A", 0, 10, {"is_eager": 1}),
    call(2, 1),
    kernel(5, 7, 1, tf_op="a:A"),
    step(100, 100, 0),
    ("main", "b:B", 110, 60),
    ("main", "a:A", 120, 20),
    call(122, 2),
    call(124, 3),
    kernel(130, 30, 2, tf_op="a:A", name="triton_x"),
    kernel(135, 10, 3, tf_op="a:A", track=OTHER, name="other"),
    ("main", "a:A", 150, 10),
    call(152, 4),
    kernel(160, 5, 4, tf_op="a:A", track=OTHER, name="other"),
    step(200, 100, 1),
    ("pool", "Iterator::Batch", 210, 40),
    ("gpu:1/8(MemcpyH2D)", "MemcpyH2D", 162, 10),
]


def test_all_that_is_known_of_ops_on_the_host() -> None:
    found = derived(blueprint.trace(LINES, devices={0: blueprint.A100}), host_ops)
    assert isinstance(found, HostOps)
    unknown = dict.fromkeys(
        set(HOST_OP_ROWS)
        - {"name", "type", "category", "instructions", "occurrences", "total_ps"}
        - {"self_ps", "eager", "function", "eager_self_ps", "launching", "step_self_ps"}
    )
    tf, dataset = int(OpCategory.TENSORFLOW), int(OpCategory.DATASET)
    rows = [
        {**unknown, "instructions": [], **dict(zip(row, values, strict=True))}
        for row in [
            (
                *("name", "type", "category", "occurrences", "total_ps", "self_ps"),
                *("eager", "function", "eager_self_ps", "launching", "step_self_ps"),
            )
        ]
        for values in (
            (
                "Iterator::Batch",
                "Dataset",
                dataset,
                1,
                40 * US,
                40 * US,
                0,
                0,
                0,
                0,
                40 * US,
            ),
            ("a", "A", tf, 3, 40 * US, 40 * US, 1, 2, 10 * US, 3, 30 * US),
            ("b", "B", tf, 1, 60 * US, 30 * US, 0, 1, 0, 0, 30 * US),
        )
    ]
    assert [{k: row[k] for k in rows[0]} for row in found.rows.to_dicts()] == rows
    assert (found.hull_ps, found.idle_ps) == (250 * US, 140 * US)
    assert (found.step_count, found.without_values) == (2, None)


def test_all_that_is_known_of_ops_on_devices() -> None:
    found = derived(blueprint.trace(LINES, devices={0: blueprint.A100}), device_ops)
    assert isinstance(found, DeviceOps)
    empty = {
        **dict.fromkeys(("module", "source_file", "source_line")),
        "instructions": [],
        "tensor_core_ps": 0,
    }
    assert [
        {
            name: row[name]
            for name in DEVICE_OP_ROWS
            if name not in {"category", "evidence"}
        }
        for row in found.rows.to_dicts()
    ] == [
        {
            **empty,
            "device": 0,
            "name": "a",
            "type": "A",
            "occurrences": 2,
            "activities": 2,
            "largest_kernel_count": 1,
            "total_ps": 37 * US,
            "exposed_ps": 37 * US,
            "kernel_ps": 37 * US,
            "tensor_core_unknown_ps": 30 * US,
            "tensor_core_eligible": False,
            "eager": 1,
            "function": 1,
            "step_ps": 30 * US,
        },
        {
            **empty,
            "device": 1,
            "name": "a",
            "type": "A",
            "occurrences": 2,
            "activities": 2,
            # From 162 to 165 something is copied.
            "largest_kernel_count": 2,
            "total_ps": 15 * US,
            "exposed_ps": 12 * US,
            "kernel_ps": 15 * US,
            "tensor_core_unknown_ps": 0,
            "tensor_core_eligible": False,
            "eager": 0,
            "function": 2,
            "step_ps": 15 * US,
        },
        {
            **empty,
            "device": 1,
            "name": "MemcpyH2D",
            "type": "MemcpyH2D",
            "occurrences": 1,
            "activities": 1,
            "largest_kernel_count": 1,
            "total_ps": 10 * US,
            "exposed_ps": 7 * US,
            "kernel_ps": 0,
            "tensor_core_unknown_ps": 0,
            "tensor_core_eligible": False,
            "eager": 0,
            "function": 0,
            # Its launch call, and so its step, was not recorded.
            "step_ps": 0,
        },
    ]
    annotation, copy = OpEvidence.ANNOTATION, OpEvidence.COPY
    assert found.rows["evidence"].to_list() == [annotation, annotation, copy]
    # From 5 to 160 there are 37 of work; from 135 to 172 there are 10 and 12.
    assert found.hull_ps == {0: 155 * US, 1: 37 * US}
    assert found.idle_ps == {0: 118 * US, 1: 15 * US}
    assert found.step_count == 2


def test_where_the_ops_ran() -> None:
    trace = blueprint.trace(LINES, devices={0: blueprint.A100})
    assert asdict(derived(trace, op_placement)) == {
        "host_executions": 1,
        "device_executions": 4,
        "dataset_executions": 1,
        "host_self_ps": 70 * US,
        "device_self_ps": 52 * US,
        "dataset_self_ps": 40 * US,
        "host_eager_self_ps": 10 * US,
        # Of two executions on device 0, one was eager.
        "device_eager_self_ps": round(18.5 * US),
        "is_training": False,
    }


def test_without_a_device_every_execution_ran_on_the_host() -> None:
    trace = blueprint.trace(
        [
            ("main", "a:A", 0, 10),
            ("main", "gradients/a:A", 20, 10),
            ("main", "a:A", 40, 1),
        ]
    )
    found = derived(trace, op_placement)
    assert asdict(found) == {
        "host_executions": 3,
        "device_executions": None,
        "dataset_executions": 0,
        "host_self_ps": 21 * US,
        "device_self_ps": None,
        "dataset_self_ps": 0,
        "host_eager_self_ps": 0,
        "device_eager_self_ps": None,
        "is_training": True,
    }
    ops = derived(trace, host_ops)
    unknown = op_placement(host_ops=ops, device_ops=GONE)
    assert isinstance(unknown, OpPlacement)
    assert unknown.host_executions is None
    assert op_placement(host_ops=GONE, device_ops=WHY["no_host_ops"]) == GONE


@pytest.mark.parametrize(
    ("name", "op_type", "trains"),
    [
        ("gradient_tape/m/MatMul", "MatMul", True),
        ("m/gradients/n/MatMul", "MatMul", True),
        ("m/transpose(jvp())/dot", "dot", True),
        ("ApplyAdam", "ResourceApplyAdam", True),
        ("my_gradients", "Mul", False),
        ("Reapply", "Apply", False),
    ],
)
def test_gradients_and_updates_are_training(
    name: str,
    op_type: str,
    trains: bool,  # noqa: FBT001 - a parameter
) -> None:
    trace = blueprint.trace([("main", f"{name}:{op_type}", 0, 10)])
    assert derived(trace, op_placement).is_training is trains


def test_devices_alone_tell_what_ran_on_them() -> None:
    trace = blueprint.trace([kernel(0, 10, 1, tf_op="gradients/x:X"), kernel(20, 5, 2)])
    found = op_placement(host_ops=GONE, device_ops=derived(trace, device_ops))
    assert asdict(found) == {
        **dict.fromkeys(
            ("host_executions", "dataset_executions", "host_self_ps", "dataset_self_ps")
        ),
        **dict.fromkeys(("host_eager_self_ps", "device_eager_self_ps")),
        "device_executions": 1,
        "device_self_ps": 10 * US,
        "is_training": True,
    }


# ----------------------------------------------------------------------------- costs


def product(rows: int, dtype: str = "float") -> dict[str, str]:
    """Operands of a product of (rows, 8) with (8, 2): 32 operations for each row."""
    types = f'["{dtype}", "{dtype}"]'
    return {"Input Dims": f"[[{rows}, 8], [8, 2]]", "Input type": types}


def product_bytes(rows: int) -> int:
    return 4 * (8 * rows + 16 + 2 * rows)


WEIGHTS = {"Input Dims": "[[4, 8], [2, 8]]", "Input type": '["float", "float"]'}
LINEAR = ("main", "aten::linear", 0, 100, WEIGHTS)
COSTED = [
    LINEAR,
    ("main", "aten::mm", 10, 30, product(4)),
    call(12, 1),
    kernel(110, 10, 1),
    ("main", "aten::mm", 200, 30, product(6)),
    call(202, 2),
    kernel(210, 10, 2, track=OTHER),
    ("main", "aten::mm", 300, 30, product(10)),
    call(302, 3),
    call(304, 4),
    kernel(310, 10, 3),
    kernel(320, 10, 4, name="second"),
]


def test_costs_of_executions_leave_out_those_of_ops_inside() -> None:
    found = derived(blueprint.trace(COSTED), execution_costs)
    assert isinstance(found, ExecutionCosts)
    assert found.flops.tolist() == [0, 4 * 32, 6 * 32, 10 * 32]
    linear = 4 * (32 + 16 + 8)
    assert found.accessed_bytes.tolist() == [
        *(linear, product_bytes(4), product_bytes(6), product_bytes(10))
    ]
    assert found.parent.tolist() == [-1, 0, -1, -1]
    assert found.depth.tolist() == [0, 1, 0, 0]
    assert found.weights.tolist() == [0, -1, -1, -1]
    assert found.variables == (((2, 8),),)
    assert found.recorded == 4
    assert found.only_calls.tolist() == [False] * 4


def test_the_larger_of_an_op_and_of_all_ops_inside_counts() -> None:
    """Operands of the outer op give 320 operations; the ops inside have 128 and 32."""
    lines = [
        ("main", "aten::matmul", 0, 100, product(10)),
        ("main", "aten::mm", 10, 10, product(4)),
        ("main", "unknown:Thing", 25, 40),
        ("main", "aten::mm", 30, 10, product(1)),
        ("main", "aten::matmul", 200, 100, product(1)),
        ("main", "aten::mm", 210, 10, product(4)),
    ]
    found = derived(blueprint.trace(lines), execution_costs)
    assert found.flops.tolist() == [320 - 160, 128, -1, 32, 0, 128]


def test_an_addition_inside_a_product_is_counted_apart() -> None:
    add = {"Input Dims": "[[4, 2], [4, 2]]", "Input type": '["float", "float"]'}
    lines = [
        ("main", "aten::matmul", 0, 100, product(4)),
        ("main", "aten::add", 10, 10, add),
        ("main", "AddBackward0", 200, 50),
        ("main", "aten::add", 210, 10, add),
    ]
    found = derived(blueprint.trace(lines), execution_costs)
    assert found.flops.tolist() == [128, 8, 0, 8]
    assert found.only_calls.tolist() == [False, False, True, False]


def test_costs_of_ops_are_those_of_their_executions_on_each_device() -> None:
    trace = blueprint.trace(COSTED, devices={0: blueprint.A100})
    rows = derived(trace, op_costs)
    assert isinstance(rows, pl.DataFrame)
    columns = ("device", "name", "flops", "model_flops", "accessed_bytes")
    assert sorted(rows.select(columns).rows()) == [
        (0, "aten::mm", 14 * 32, 14 * 32, product_bytes(4) + product_bytes(10)),
        (1, "aten::mm", 6 * 32, 6 * 32, product_bytes(6)),
    ]
    # Device 1 is not described. Device 0 moves its bytes in 30 µs.
    moved = dict(rows.select("device", "peak_bytes").rows())
    assert moved == {0: pytest.approx(30e-6 * 1_555_200_000_000), 1: None}


def test_costs_of_kernels_are_those_of_executions_with_one_kernel() -> None:
    costs = derived(blueprint.trace(COSTED), kernel_costs)
    assert isinstance(costs, pl.DataFrame)
    # Of the kernel `k` one activity is not alone in its execution, nor is `second`.
    assert sorted(costs["flops"].to_list(), key=str) == [6 * 32, None, None]
    known = costs.filter(pl.col("flops").is_not_null())
    assert known["accessed_bytes"].to_list() == [product_bytes(6)]
    alone = derived(blueprint.trace(COSTED[:7]), kernel_costs)
    assert sorted(alone.rows()) == [
        (4 * 32, product_bytes(4)),
        (6 * 32, product_bytes(6)),
    ]


def test_an_execution_whose_inner_op_has_unknown_work_has_no_cost() -> None:
    lines = [
        ("main", "aten::matmul", 0, 100, product(4)),
        call(5, 1),
        kernel(110, 10, 1),
        ("main", "odd:Odd", 20, 20),
        call(25, 2),
        kernel(130, 10, 2, name="x"),
        ("main", "aten::matmul", 200, 100, product(4)),
        call(205, 3),
        kernel(310, 10, 3),
    ]
    rows = derived(blueprint.trace(lines), op_costs)
    assert dict(rows.select("name", "flops").rows()) == {
        "aten::matmul": None,
        "odd": None,
    }
    whole = derived(blueprint.trace(lines[-3:]), op_costs)
    assert dict(whole.select("name", "flops").rows()) == {"aten::matmul": 128}


def test_costs_on_a_host_include_those_of_ops_that_were_called() -> None:
    lines = [
        LINEAR,
        ("main", "aten::mm", 10, 30, product(4)),
        ("main", "MmBackward0", 200, 100),
        ("main", "aten::mm", 210, 30, product(6)),
        ("main", "OddBackward0", 400, 100),
        ("main", "aten::odd", 410, 30),
        ("main", "aten::mm", 600, 30),
    ]
    rows = derived(blueprint.trace(lines[:-1]), host_op_costs)
    assert isinstance(rows, pl.DataFrame)
    found = {
        row["name"]: (row["flops"], row["accessed_bytes"]) for row in rows.to_dicts()
    }
    assert found == {
        "aten::linear": (128, 4 * (32 + 16 + 8)),
        "aten::mm": (128 + 192, product_bytes(4) + product_bytes(6)),
        "MmBackward0": (192, None),
        "OddBackward0": (None, None),
        "aten::odd": (None, None),
    }
    assert rows["model_flops"].to_list() == rows["flops"].to_list()
    # An execution without operands leaves its op without a sum.
    unknown = derived(blueprint.trace(lines), host_op_costs)
    assert dict(unknown.select("name", "flops").rows())["aten::mm"] is None
    with_device = blueprint.trace([*lines, kernel(700, 10, 1)])
    assert derived(with_device, host_op_costs) == WHY["no_host_rates"]


def compiled(
    start: float, name: str, kernel_name: str, device: int = 0
) -> blueprint.Line:
    stats = {"hlo_op": name, "hlo_module": "jit", "program_id": 3}
    return (f"gpu:{device}/7(Compute)", kernel_name, start, 10, stats)


def test_costs_of_instructions_are_those_of_one_execution_times_their_number() -> None:
    table = [
        {"name": "a", "opcode": "parameter", "shape": "f32[4,8]"},
        {"name": "b", "opcode": "parameter", "shape": "f32[8,2]"},
        {
            "name": "dot.1",
            "opcode": "dot",
            "shape": "f32[4,2]",
            "operands": ["a", "b"],
            "attributes": "lhs_contracting_dims={1}",
        },
        {"name": "add.2", "opcode": "add", "shape": "f32[4,2]", "operands": ["dot.1"]},
        {"name": "odd.3", "opcode": "rng", "shape": "f32[4,2]"},
    ]
    common = {"program": 3, "module": "jit", "matmul": False, "computation": "main"}
    known = pl.DataFrame([common | row for row in table], schema=HLO_OPS.dtypes())
    lines = [
        *(compiled(20 * k, "dot.1", "gemm") for k in range(3)),
        *(compiled(20 * k + 10, "dot.1", "reduce") for k in range(3)),
        compiled(100, "add.2", "loop"),
        compiled(110, "odd.3", "rng"),
        *(compiled(20 * k, "dot.1", "gemm", 1) for k in range(2)),
    ]
    trace = blueprint.substitute(blueprint.trace(lines), hlo_ops=known)
    rows = derived(trace, op_costs)
    dot, moved = 2 * 4 * 2 * 8, 4 * (32 + 16 + 8)
    columns = ("device", "name", "flops", "model_flops", "accessed_bytes")
    assert sorted(rows.select(columns).rows()) == [
        (0, "add.2", 8, 8, 4 * (8 + 8)),
        (0, "dot.1", 3 * dot, 3 * dot, 3 * moved),
        (0, "odd.3", None, None, 32),
        (1, "dot.1", 2 * dot, 2 * dot, 2 * moved),
    ]
    # On device 0 the product has two kernels, which share its cost in unknown parts.
    costs = derived(trace, kernel_costs).rows()
    assert sorted(costs, key=str) == sorted(
        [
            *[(None, None)] * 2,
            (8, 64),
            (None, 32),
            (2 * dot, 2 * moved),
        ],
        key=str,
    )
