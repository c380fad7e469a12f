"""Executions of ops on host threads: what counts, once each, and what it cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pytest
from tests.support.traces import blueprint

from stepscope.derive.host.op_events import host_op_events
from stepscope.derive.intervals.spans import Spans
from stepscope.formats.opening import read
from stepscope.trace.tables import HLO_OPS
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from stepscope.derive.host.op_events import HostOpEvents
    from stepscope.trace.model import TraceData


def found_in(trace: TraceData) -> HostOpEvents:
    events = blueprint.profile(trace).derived(trace.host, host_op_events)
    assert not isinstance(events, Unavailable)
    return events


def executed(lines: list[blueprint.Line]) -> list[tuple[str, str | None, int, int]]:
    """(name, type, self µs, eager) of each execution, in order."""
    found = found_in(blueprint.trace(lines))
    ops = found.ops[found.op].select("name", "type").rows()
    costs = (found.self_ps // 1_000_000).tolist()
    return [
        (name, kind, cost, eager)
        for (name, kind), cost, eager in zip(
            ops, costs, found.eager.tolist(), strict=True
        )
    ]


def test_graph_ops_and_iterators_are_ops() -> None:
    assert executed(
        [
            ("main", "a/MatMul:MatMul", 0, 10),
            ("worker", "Iterator::Batch::Map", 0, 7),
        ]
    ) == [("a/MatMul", "MatMul", 10, 0), ("Iterator::Batch::Map", "Dataset", 7, -1)]


@pytest.mark.parametrize(
    "line",
    [
        ("main", "train", 0, 10, {"_r": 1, "step_num": 1}),
        ("main", "FunctionRun", 0, 10),
        ("main", "user_annotation", 0, 10),
        ("main", "$train.py:12 step", 0, 10),
        ("main", "MemoryAllocation", 0, 0, {"tf_op": "a/MatMul:MatMul"}),
        ("main", "MemoryDeallocation", 0, 0, {"tf_op": "a/MatMul"}),
        ("main", "ExecutorState::Process", 0, 10),
        ("main", "XlaModule:#prefix=jit_f#", 0, 10),
        ("main", "cudnn::gemm::computeOffsets(cudnn::gemm::Params)", 0, 10),
        ("main", "EagerLocalExecute: __inference_step_12", 0, 10),
        ("main", "__inference_step_12:__inference_step_12", 0, 10),
        ("main", "EagerExecute", 0, 10, {"eager_op": "__inference_f_1", "is_func": 1}),
        ("main", "EagerExecute: __inference_train_function_35", 0, 10),
        ("main", "end: dot.7", 0, 10, {"hlo_op": "dot.7"}),
        ("gpu:0/Framework Ops", "a/MatMul:MatMul", 0, 10),
    ],
    ids=lambda line: line[1],
)
@pytest.mark.sweep(every=4)
def test_markers_wrappers_functions_and_allocations_are_not(
    line: blueprint.Line,
) -> None:
    assert executed([line]) == []


def test_an_eager_execution_counts_once_however_many_names_it_has() -> None:
    assert executed(
        [
            ("main", "EagerExecute", 0, 30, {"eager_op": "Mul", "is_func": 0}),
            ("main", "EagerLocalExecute: Mul", 2, 20),
            ("main", "EagerKernelExecute", 5, 10),
        ]
    ) == [("Mul", "Mul", 20, 1)]


def test_an_eager_wrapper_without_inner_name_is_the_execution() -> None:
    lines = [("main", "EagerExecute", 0, 30, {"eager_op": "Mul", "is_func": 0})]
    assert executed(lines) == [("Mul", "Mul", 30, 1)]


def test_the_graph_name_of_an_eager_op_is_the_execution() -> None:
    # TensorFlow 2.3 to 2.5 write all three.
    assert executed(
        [
            ("main", "EagerExecute: LogicalAnd", 0, 30),
            ("main", "EagerLocalExecute: LogicalAnd", 1, 28),
            ("main", "LogicalAnd:LogicalAnd", 5, 20),
        ]
    ) == [("LogicalAnd", "LogicalAnd", 20, 1)]


def test_another_op_inside_an_eager_one_is_its_child() -> None:
    assert executed(
        [
            ("main", "EagerLocalExecute: IteratorGetNext", 0, 30),
            ("main", "Iterator::Root", 5, 20),
        ]
    ) == [
        ("IteratorGetNext", "IteratorGetNext", 10, 1),
        ("Iterator::Root", "Dataset", 20, -1),
    ]


def test_a_stored_mark_decides_whether_an_op_ran_eagerly() -> None:
    assert executed(
        [
            ("main", "Identity:Identity", 0, 5, {"is_eager": 1}),
            ("main", "a/Relu:Relu", 10, 5, {"is_eager": 0}),
        ]
    ) == [("Identity", "Identity", 5, 1), ("a/Relu", "Relu", 5, 0)]


def test_an_annotated_call_counts_unless_its_op_is_around_it() -> None:
    call = ("driver", "cuMemAlloc", 0, 5, {"tf_op": "a/MatMul:MatMul"})
    assert executed([call]) == [("a/MatMul", "MatMul", 5, 0)]
    inside = [
        ("main", "a/MatMul:MatMul", 0, 20),
        ("main", "cuMemAlloc", 5, 5, {"tf_op": "a/MatMul:MatMul"}),
    ]
    assert executed(inside) == [("a/MatMul", "MatMul", 20, 0)]


def test_marked_input_stages_are_ops() -> None:
    stage = {"_ipl_stage_id": 1, "_ipl_stage_name": "read", "_ipl_stage_cat": "read"}
    assert executed([("main", "my_reader", 0, 5, stage)]) == [("read", "Stage", 5, -1)]


def test_instructions_on_host_threads_are_ops_of_their_module() -> None:
    stats = {"hlo_op": "dot.7", "hlo_module": "jit_f", "program_id": 3}
    trace = blueprint.trace(
        [
            ("pool", "dot.7", 0, 5, stats),
            ("pool", "end: dot.7", 5, 0, stats),
            ("pool", "dot.7", 10, 6, stats),
        ]
    )
    row = {
        "program": 3,
        "module": "jit_f",
        "name": "dot.7",
        "opcode": "dot",
        "op_name": "jit(f)/dot_general",
        "matmul": True,
    }
    trace = blueprint.substitute(
        trace, hlo_ops=pl.DataFrame([row], schema=HLO_OPS.dtypes())
    )
    found = found_in(trace)
    assert found.event.tolist() == [0, 2]
    (op,) = found.ops.to_dicts()
    assert (op["name"], op["type"]) == ("jit(f)/dot_general", "dot_general")
    assert (op["hlo_op"], op["opcode"], op["module"]) == ("dot.7", "dot", "jit_f")
    assert op["framework_op"] == "jit(f)/dot_general"


def test_self_time_leaves_out_inner_ops_only() -> None:
    assert executed(
        [
            ("main", "Outer:Outer", 0, 150),
            ("main", "just a range", 10, 100),
            ("main", "Outer/inner:Inner", 30, 50),
        ]
    ) == [("Outer", "Outer", 100, 0), ("Outer/inner", "Inner", 50, 0)]


def test_recursive_calls_are_outermost_once() -> None:
    found = found_in(
        blueprint.trace(
            [
                ("main", "f:Call", 0, 100),
                ("main", "g:Other", 10, 80),
                ("main", "f:Call", 20, 50),
                ("main", "f:Call", 200, 10),
            ]
        )
    )
    assert found.outermost.tolist() == [True, True, False, True]


def test_without_values_names_alone_are_used_and_the_reason_is_kept() -> None:
    why = Unavailable(code="NOT_RECORDED", reason="no stats.", remedy="record.")
    trace = blueprint.trace([("main", "a:Relu", 0, 5)]).without("stats", why)
    found = found_in(trace)
    assert found.without_values == why
    assert found.eager.tolist() == [-1]


PROFILES = (
    "tf_cpu/healthy",
    "tf_cpu/no_step_markers",
    "tf_cpu/xla",
    "tf_cpu/mirrored",
    "tf_cpu/tf215_python_tracer",
    "tf_cpu/input_bound",
    "jax_cpu/steps",
    "gpu_tf/t4_starved",
    "gpu_tf/xprof_gpu_multi_worker",
    "gpu_jax_amd/jax08_conv",
)


@pytest.mark.parametrize("name", PROFILES)
@pytest.mark.sweep(every=4)
def test_self_times_of_a_thread_add_up_to_the_union_of_its_ops(
    shared_profile: Callable[[str], Path], name: str
) -> None:
    path = min(shared_profile(name).rglob("*.xplane.pb*"))
    trace = read(path)
    found = found_in(trace)
    events = trace.table("events")
    assert not isinstance(events, Unavailable)
    track = events["track"].to_numpy()[found.event]
    assert len(found.event)
    assert (found.self_ps >= 0).all()
    for thread in np.unique(track):
        mine = track == thread
        union = Spans.from_events(found.start_ps[mine], found.dur_ps[mine])
        assert union.length_ps == found.self_ps[mine].sum()


def test_the_5600_eager_executions_are_counted_once(
    shared_profile: Callable[[str], Path],
) -> None:
    path = next(shared_profile("tf_cpu/no_step_markers").rglob("*.xplane.pb*"))
    found = found_in(read(path))
    counts = dict(zip(found.ops["name"], np.bincount(found.op).tolist(), strict=True))
    assert len(found.event) == 5600
    assert (counts["Mul"], counts["Reshape"]) == (1000, 600)
    assert (counts["ReadVariableOp"], counts["MatMul"]) == (400, 400)
    assert (found.eager == 1).all()


def test_the_77_instructions_of_a_compiled_step_ran_15_times_each(
    shared_profile: Callable[[str], Path],
) -> None:
    path = next(shared_profile("tf_cpu/xla").rglob("*.xplane.pb*"))
    found = found_in(read(path))
    instructions = found.ops["hlo_op"].is_not_null().to_numpy()
    counts = np.bincount(found.op)[instructions]
    assert len(counts) == 77
    assert set(counts.tolist()) == {15}
