"""Executions that launch work, what units could have computed, and what is unknown."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from tests.support.traces import blueprint

from stepscope.derive.device.attribution import activity_ops
from stepscope.derive.ops.costs import kernel_costs, op_costs
from stepscope.derive.ops.database import DeviceOps, HostOps, device_ops, host_ops
from stepscope.derive.ops.execution_costs import run_costs
from stepscope.trace.tables import HLO_OPS, INT, TYPE_STATS
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

US = 1_000_000
GONE = Unavailable(code="LOST_EVENTS", reason="Taken away.", remedy="Put it back.")
GPU, OTHER = "gpu:0/7(Compute)", "gpu:1/7(Compute)"
PROGRAM = {"hlo_module": "f", "program_id": 3}
#: Multiprocessors of an A100 times its clock.
CYCLES = 108 * 1_410_000_000


def derived(lines: Sequence[blueprint.Line], of: Callable[..., Any]) -> Any:
    trace = blueprint.trace(lines, devices={0: blueprint.A100})
    return blueprint.profile(trace).derived("vm", of)


def call(start: float, number: int) -> blueprint.Line:
    return ("main", "cuLaunchKernel", start, 1, {"correlation_id": number})


def kernel(start: float, number: int, name: str = "k", op: str = "a:A") -> Any:
    return (GPU, name, start, 10, {"correlation_id": number, "tf_op": op})


def test_only_calls_inside_of_an_op_that_led_to_work_make_it_launch() -> None:
    found = derived(
        [
            ("main", "a:A", 0, 10),
            call(2, 1),
            # Nothing ran after this call.
            ("main", "b:B", 20, 10),
            call(22, 2),
            # This one is in no op.
            call(40, 3),
            ("main", "c:C", 50, 10),
            kernel(100, 1),
            kernel(120, 3, op="c:C"),
        ],
        host_ops,
    )
    assert isinstance(found, HostOps)
    assert dict(found.rows.select("name", "launching").rows()) == {
        "a": 1,
        "b": 0,
        "c": 0,
    }


def test_executions_in_the_steps_begin_in_one_of_them() -> None:
    found = derived(
        [
            ("main", "a:A", 5, 2),
            ("main", "train", 10, 20, {"_r": 1, "step_num": 0}),
            ("main", "a:A", 10, 3),
            ("main", "train", 30, 20, {"_r": 1, "step_num": 1}),
            ("main", "a:A", 45, 5),
            ("main", "a:A", 50, 7),
        ],
        host_ops,
    )
    assert found.rows["self_ps"].to_list() == [17 * US]
    assert found.rows["step_self_ps"].to_list() == [8 * US]
    assert found.step_count == 2


@pytest.mark.parametrize(
    ("name", "rate"),
    [
        ("volta_fp16_s884gemm", 2048),
        ("ampere_sgemm_32x32", 128),
        # Of this kernel nothing is known.
        ("k", None),
    ],
)
def test_a_kernel_could_have_computed_what_its_unit_can(
    name: str, rate: int | None
) -> None:
    costs = derived([kernel(0, 1, name), kernel(20, 2, name)], op_costs)
    expected = None if rate is None else pytest.approx(rate * CYCLES * 20e-6)
    assert costs.select("name", "peak_flops").rows() == [("a", expected)]


def test_an_op_with_a_kernel_of_unknown_speed_has_no_peak() -> None:
    lines = [
        kernel(0, 1, "ampere_sgemm_32x32"),
        kernel(20, 2),
        kernel(40, 3, "ampere_sgemm_32x32", "b:B"),
        (GPU.replace("7", "8"), "MemcpyH2D", 60, 10),
        (OTHER, "ampere_sgemm_32x32", 80, 10, {"tf_op": "b:B"}),
    ]
    costs = derived(lines, op_costs)
    assert {
        row[:2]: row[2] for row in costs[["device", "name", "peak_flops"]].rows()
    } == {
        (0, "a"): None,
        (0, "b"): pytest.approx(128 * CYCLES * 10e-6),
        # Copies compute nothing; of device 1 nothing was recorded.
        (0, "MemcpyH2D"): 0,
        (1, "b"): None,
    }


@pytest.mark.parametrize("missing", ["cc_minor", "cores", "clock_hz", "cc_major"])
def test_without_one_number_of_the_device_there_is_no_peak(missing: str) -> None:
    trace = blueprint.trace(
        [kernel(0, 1, "ampere_sgemm_32x32")], devices={0: blueprint.A100}
    )
    table = trace.table("devices")
    assert isinstance(table, pl.DataFrame)
    less = table.with_columns(pl.lit(None, table.schema[missing]).alias(missing))
    profile = blueprint.profile(blueprint.substitute(trace, devices=less))
    costs = profile.derived("vm", op_costs)
    assert costs["peak_flops"].to_list() == [None]


def test_a_recorded_peak_counts_for_all_kernels_and_an_unlisted_device_has_none() -> (
    None
):
    trace = blueprint.trace([kernel(0, 1, "k")], devices={0: blueprint.A100})
    table = trace.table("devices")
    assert isinstance(table, pl.DataFrame)
    for column, value, expected in (
        ("peak_flops", 5e12, 5e12 * 10e-6),
        ("cc_major", 1, None),
    ):
        other = table.with_columns(
            pl.lit(value).cast(table.schema[column]).alias(column)
        )
        changed = blueprint.substitute(trace, devices=other)
        costs = blueprint.profile(changed).derived("vm", op_costs)
        assert costs["peak_flops"].to_list() == [
            expected if expected is None else pytest.approx(expected)
        ]


def inputs_of(
    lines: Sequence[blueprint.Line], of: Callable[..., Any]
) -> dict[str, Any]:
    """All that a derivation reads."""
    trace = blueprint.trace(lines, devices={0: blueprint.A100})
    profile = blueprint.profile(trace)
    return {
        name: profile._input_value(trace, name)
        for name in inspect.signature(of).parameters
    }


def test_without_any_idea_of_matrix_units_their_time_is_unknown() -> None:
    lines = [
        kernel(0, 1, "volta_fp16_s884gemm"),
        kernel(20, 2, "triton_x"),
        (GPU.replace("7", "8"), "MemcpyH2D", 60, 10),
    ]
    given = inputs_of(lines, device_ops)
    columns = ("name", "tensor_core_ps", "tensor_core_unknown_ps", "kernel_ps")
    found = device_ops(**given)
    assert isinstance(found, DeviceOps)
    assert found.rows.select(*columns, "tensor_core_eligible").rows() == [
        ("a", 10 * US, 10 * US, 20 * US, True),
        ("MemcpyH2D", 0, 0, 0, False),
    ]
    without = device_ops(**(given | {"tensor_cores": GONE}))
    assert without.rows.select(*columns, "tensor_core_eligible").rows() == [
        ("a", 0, 20 * US, 20 * US, None),
        ("MemcpyH2D", 0, 0, 0, None),
    ]
    assert without.step_count is None
    assert without.rows["step_ps"].to_list() == [None, None]


def test_what_the_compiler_stored_with_a_name_is_of_its_op() -> None:
    known = {"flops": 0, "model_flops": 0, "bytes_accessed": 0}
    lines = [
        (GPU, name, at, 10, {"hlo_op": name, "hlo_module": "f"} | more)
        for name, at, more in (("x.1", 0, known), ("y.2", 20, {}), ("z.3", 40, {}))
    ]
    trace = blueprint.trace([*lines, ("main", "later", 90, 1)])
    types = trace.table("event_types")
    assert isinstance(types, pl.DataFrame)
    names = types["name"].to_list()

    def stored(rows: list[tuple[str, str, int]]) -> pl.DataFrame:
        return pl.DataFrame(
            {
                "type": [names.index(name) for name, _, _ in rows],
                "key": [list(trace.strings).index(key) for _, key, _ in rows],
                "kind": [INT] * len(rows),
                "value": [value for _, _, value in rows],
                "length": [0] * len(rows),
            },
            schema=TYPE_STATS.dtypes(),
        ).sort("type", maintain_order=True)

    def costs(rows: list[tuple[str, str, int]]) -> dict[str, tuple[Any, ...]]:
        changed = blueprint.substitute(trace, type_stats=stored(rows))
        profile = blueprint.profile(changed)
        found = profile.derived("vm", run_costs)
        assert isinstance(found, pl.DataFrame)
        ops = names_of_ops(profile)
        rows_of_ops = dict(zip(ops, found.rows(), strict=True))
        return {name: rows_of_ops[name] for name in ("x.1", "y.2", "z.3")}

    unknown = (None, None, None)
    assert costs([("x.1", "flops", 5)]) == {
        "x.1": (5, 5, None),
        "y.2": unknown,
        "z.3": unknown,
    }
    # A program may do nothing of what was written down.
    both = [("y.2", "flops", 0), ("y.2", "bytes_accessed", 7), ("z.3", "flops", 8)]
    assert costs([*both, ("z.3", "model_flops", 0), ("later", "flops", 3)]) == {
        "x.1": unknown,
        "y.2": (0, 0, 7),
        "z.3": (8, 0, None),
    }
    assert set(costs([("later", "flops", 3)]).values()) == {unknown}


def names_of_ops(profile: Any) -> list[str]:
    return profile.derived("vm", activity_ops).ops["name"].to_list()


def test_an_instruction_costs_as_often_as_it_ran_not_as_its_op_did() -> None:
    """Two instructions of one op of the program: the second one ran once more."""
    table = [
        {"name": "p", "opcode": "parameter", "shape": "f32[4]"},
        {"name": "a.1", "opcode": "add", "shape": "f32[4]", "source_line": 5},
        {"name": "a.2", "opcode": "add", "shape": "f32[4]", "source_line": 6},
    ]
    common = {"program": 3, "module": "f", "computation": "main"}
    op = {"op_name": "jit(f)/add", "operands": ["p"], "source_file": "t.py"}
    rows = [common | row | (op if row["opcode"] == "add" else {}) for row in table]
    known = pl.DataFrame(rows, schema=HLO_OPS.dtypes())
    runs = [("a.1", "k"), ("a.2", "l"), ("a.1", "k"), ("a.2", "l"), ("a.2", "l")]
    lines = [
        (GPU, name, 20 * at, 10, {"hlo_op": instruction} | PROGRAM)
        for at, (instruction, name) in enumerate(runs)
    ]
    trace = blueprint.substitute(blueprint.trace(lines), hlo_ops=known)
    profile = blueprint.profile(trace)
    costs = profile.derived("vm", kernel_costs)
    assert sorted(costs["flops"].to_list()) == [2 * 4, 3 * 4]
    found = profile.derived("vm", device_ops)
    columns = ("occurrences", "source_file", "source_line")
    assert found.rows.select(columns).rows() == [(3, "t.py", 5)]
