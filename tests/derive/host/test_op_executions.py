"""Executions of ops on host threads: every field, worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st
from tests.support.traces import blueprint

from stepscope.derive.host.op_events import (
    HOST_OPS,
    HostOpEvents,
    host_op_events,
    outermost_of_op,
)
from stepscope.derive.names.event_kinds import OpCategory
from stepscope.trace.tables import HLO_OPS

US = 1_000_000
TF, JAX = int(OpCategory.TENSORFLOW), int(OpCategory.JAX)


def executions(lines: list[blueprint.Line], **tables: pl.DataFrame) -> HostOpEvents:
    trace = blueprint.substitute(blueprint.trace(lines), **tables)
    found = blueprint.profile(trace).derived("vm", host_op_events)
    assert isinstance(found, HostOpEvents)
    return found


def listed(found: HostOpEvents) -> list[tuple[Any, ...]]:
    """Event, name, self time in µs, parent, depth, outermost and eager."""
    names = found.ops["name"].to_list()
    return list(
        zip(
            found.event.tolist(),
            [names[op] for op in found.op.tolist()],
            (found.self_ps // US).tolist(),
            found.parent.tolist(),
            found.depth.tolist(),
            found.outermost.tolist(),
            found.eager.tolist(),
            strict=True,
        )
    )


def test_everything_about_executions_of_two_threads() -> None:
    found = executions(
        [
            ("main", "step", 0, 200),
            ("main", "a:A", 0, 50),
            ("main", "b:B", 5, 20),
            ("main", "a:A", 10, 5),
            ("main", "a:Other", 30, 5),
            ("pool", "FunctionRun", 0, 90),
            ("pool", "a:A", 20, 5),
            ("pool", "Iterator::Batch", 40, 30),
            ("pool", "b:B", 50, 10, {"is_eager": 1}),
        ]
    )
    assert listed(found) == [
        (1, "a", 25, -1, 0, True, 0),
        (2, "b", 15, 0, 1, True, 0),
        (3, "a", 5, 1, 2, False, 0),
        (4, "a", 5, 0, 1, True, 0),
        (6, "a", 5, -1, 0, True, 0),
        (7, "Iterator::Batch", 20, -1, 0, True, -1),
        (8, "b", 10, 5, 1, True, 1),
    ]
    assert (found.start_ps // US).tolist() == [0, 5, 10, 30, 20, 40, 50]
    assert (found.dur_ps // US).tolist() == [50, 20, 5, 5, 5, 30, 10]
    # Equal names of other types are other ops.
    assert sorted(found.ops["type"].to_list()) == ["A", "B", "Dataset", "Other"]
    assert found.ops.schema == HOST_OPS
    assert found.without_values is None


def test_wrappers_of_each_thread_give_way_to_what_they_wrap() -> None:
    found = executions(
        [
            ("main", "EagerExecute", 0, 30, {"eager_op": "Mul"}),
            ("main", "Mul:Mul", 5, 10),
            ("main", "Mul:Mul", 20, 5),
            ("main", "EagerExecute", 40, 30, {"eager_op": "Add"}),
            ("main", "Mul:Mul", 45, 10),
            ("pool", "Mul:Mul", 50, 10),
        ]
    )
    assert found.ops["call"].to_list() == [False] * len(found.ops)
    # The outer `Add` is no wrapper of `Mul`, which ran in a function.
    assert listed(found) == [
        (1, "Mul", 10, -1, 0, True, 1),
        (2, "Mul", 5, -1, 0, True, 1),
        (3, "Add", 20, -1, 0, True, 1),
        (4, "Mul", 10, 2, 1, True, 0),
        (5, "Mul", 10, -1, 0, True, 0),
    ]


def test_annotated_calls_are_executions_except_inside_their_op() -> None:
    def call(start: float, op: str, track: str = "main") -> blueprint.Line:
        return (track, "cuMemAlloc", start, 2, {"tf_op": op})

    found = executions(
        [
            ("main", "m/MatMul:MatMul", 0, 30),
            call(5, "m/MatMul:MatMul"),
            call(10, "n/Relu:Relu"),
            call(40, "m/MatMul:MatMul"),
            call(5, "m/MatMul:MatMul", "pool"),
            ("main", "m/Add:Add", 50, 9, {"tf_op": "other:Other"}),
            ("main", "MemoryAllocation", 60, 0, {"tf_op": "m/Add:Add"}),
            ("main", "plain", 70, 5, {"tf_op": "XlaModule:"}),
        ]
    )
    assert [(event, name) for event, name, *_ in listed(found)] == [
        *((0, "m/MatMul"), (2, "n/Relu"), (3, "m/MatMul"), (4, "m/Add")),
        (7, "m/MatMul"),
    ]


def test_instructions_belong_to_their_module_and_program() -> None:
    def run(
        start: float, program: int | None = 3, module: str = "jit_f"
    ) -> blueprint.Line:
        stats: dict[str, Any] = {"hlo_op": "dot.7", "hlo_module": module}
        if program is not None:
            stats["program_id"] = program
        return ("pool", "dot.7", start, 5, stats)

    table = [
        {
            "program": program,
            "module": "jit_f",
            "name": "dot.7",
            "opcode": "dot",
            "op_name": f"jit(f)/{name}/dot_general",
            "matmul": True,
        }
        for program, name in ((3, "x"), (4, "y"))
    ]
    found = executions(
        [run(0), run(10, 4), run(20, 3), run(30, None, "jit_g"), ("main", "a:A", 0, 9)],
        hlo_ops=pl.DataFrame(table, schema=HLO_OPS.dtypes()),
    )
    ops = found.ops[found.op].select("name", "type", "module", "program", "category")
    x, y = "jit(f)/x/dot_general", "jit(f)/y/dot_general"
    assert ops.rows() == [
        (x, "dot_general", "jit_f", 3, JAX),
        (y, "dot_general", "jit_f", 4, JAX),
        (x, "dot_general", "jit_f", 3, JAX),
        ("dot.7", None, "jit_g", None, JAX),
        ("a", "A", None, None, TF),
    ]
    assert found.eager.tolist() == [-1, -1, -1, -1, 0]


def test_functions_and_control_flow_only_call() -> None:
    found = executions(
        [
            ("main", "f:StatefulPartitionedCall", 0, 100),
            ("main", "w:While", 10, 50),
            ("main", "a:A", 20, 5),
        ]
    )
    calls = dict(found.ops.select("name", "call").rows())
    assert calls == {"f": True, "w": True, "a": False}


@given(
    ops=st.lists(st.integers(0, 2), max_size=12),
    data=st.data(),
)
def test_an_event_inside_another_one_of_its_op_is_not_outermost(
    ops: list[int], data: st.DataObject
) -> None:
    parent = [
        data.draw(st.integers(-1, row - 1)) if row else -1 for row in range(len(ops))
    ]
    expected = []
    for row, op in enumerate(ops):
        above = parent[row]
        while above >= 0 and ops[above] != op:
            above = parent[above]
        expected.append(above < 0)
    found = outermost_of_op(np.array(parent, np.int32), np.array(ops, np.int32))
    assert found.tolist() == expected
