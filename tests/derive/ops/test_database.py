"""Time and executions by op, on the host and on each device."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
from tests.support.traces import blueprint

from stepscope.derive.device.activity_classes import activity_classes, device_executions
from stepscope.derive.device.attribution import activity_ops
from stepscope.derive.ops.database import device_ops, host_ops
from stepscope.trace.tables import HLO_OPS
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.trace.model import TraceData

US = 1_000_000
GPU = "gpu:0/7(Compute)"
OTHER = "gpu:0/9(Compute)"


def device_rows(trace: TraceData, *columns: str) -> list[tuple[object, ...]]:
    found = blueprint.profile(trace).derived(trace.host, device_ops)
    assert not isinstance(found, Unavailable)
    return found.rows.select(columns).rows()


def host_rows(trace: TraceData, *columns: str) -> list[tuple[object, ...]]:
    found = blueprint.profile(trace).derived(trace.host, host_ops)
    assert not isinstance(found, Unavailable)
    return found.rows.select(columns).rows()


def test_the_device_ops_of_a1() -> None:
    found = blueprint.profile(blueprint.a1()).derived("vm", device_ops)
    rows = found.rows.select("name", "occurrences", "activities", "total_ps").rows()
    assert rows == [
        ("model/dense/MatMul", 8, 8, 800 * US),
        ("model/dense_1/MatMul", 8, 8, 800 * US),
        ("MemcpyH2D", 16, 16, 560 * US),
        ("allreduce", 8, 8, 480 * US),
        ("MemcpyD2H", 8, 8, 80 * US),
    ]
    assert found.hull_ps == {0: 7400 * US}
    assert found.idle_ps == {0: 4680 * US}


def test_the_host_ops_of_a2() -> None:
    found = blueprint.profile(blueprint.a2()).derived("vm", host_ops)
    rows = found.rows.select("name", "occurrences", "total_ps", "self_ps").rows()
    assert rows == [
        ("Iterator::Prefetch::ParallelMapV2::TFRecord", 3, 360 * US, 360 * US),
        ("Outer", 3, 450 * US, 300 * US),
        ("a/MatMul", 3, 300 * US, 300 * US),
        ("Outer/inner", 3, 150 * US, 150 * US),
        ("a/Relu", 3, 150 * US, 150 * US),
        ("Iterator::Batch::TFRecord", 3, 90 * US, 90 * US),
        ("Iterator::Shuffle", 3, 60 * US, 60 * US),
    ]
    assert (found.hull_ps, found.idle_ps) == (2570 * US, 1160 * US)
    assert found.step_count == 3


def test_idle_host_time_is_where_no_thread_ran_an_op() -> None:
    trace = blueprint.trace(
        [
            ("main", "a:A", 0, 10),
            ("worker", "b:B", 5, 10),
            ("main", "c:C", 30, 10),
        ]
    )
    found = blueprint.profile(trace).derived("vm", host_ops)
    assert (found.hull_ps, found.idle_ps) == (40 * US, 15 * US)


def test_totals_of_recursive_calls_count_once() -> None:
    trace = blueprint.trace([("main", "f:Call", 0, 100), ("main", "f:Call", 20, 50)])
    rows = host_rows(trace, "occurrences", "total_ps", "self_ps")
    assert rows == [(2, 100 * US, 100 * US)]


def test_overlapping_streams_leave_no_less_idle_time_than_there_is() -> None:
    trace = blueprint.trace(
        [(GPU, "a", 0, 60), (OTHER, "b", 30, 60), (GPU, "a", 190, 10)]
    )
    found = blueprint.profile(trace).derived("vm", device_ops)
    # 130 µs of kernels in a range of 200 µs, of which 100 µs are covered.
    assert found.idle_ps == {0: 100 * US}


def test_exposed_time_is_hidden_by_other_ops_only() -> None:
    trace = blueprint.trace(
        [
            (GPU, "k1", 0, 60, {"tf_op": "a:A"}),
            (OTHER, "k2", 30, 60, {"tf_op": "a:A"}),
            ("gpu:0/8(MemcpyH2D)", "MemcpyH2D", 80, 40),
        ]
    )
    rows = device_rows(trace, "name", "total_ps", "exposed_ps")
    assert rows == [("a", 120 * US, 80 * US), ("MemcpyH2D", 40 * US, 30 * US)]


def executing(*kernels: tuple[float, int, str]) -> TraceData:
    """Two executions of `a:A`, [0, 50) and [100, 150) µs, that launch these kernels.

    A kernel is (start of its call, correlation id, name).
    """
    lines: list[blueprint.Line] = [
        ("main", "a:A", 0, 50),
        ("main", "a:A", 100, 50),
        ("main", "other:B", 200, 50),
    ]
    for start, number, name in kernels:
        stats = {"correlation_id": number}
        lines.append(("main", "cuLaunchKernel", start, 1, stats))
        lines.append((GPU, name, start + 5, 2, stats | {"tf_op": "a:A"}))
    return blueprint.trace(lines)


def test_an_execution_that_runs_three_kernels_counts_once() -> None:
    trace = executing((10, 1, "x"), (20, 2, "x"), (30, 3, "y"), (110, 4, "x"))
    rows = device_rows(trace, "occurrences", "activities", "largest_kernel_count")
    assert rows == [(2, 4, 3)]


def test_kernels_launched_outside_of_their_op_count_by_the_commonest_kernel() -> None:
    trace = executing((10, 1, "x"), (210, 2, "x"), (220, 3, "x"), (230, 4, "y"))
    # One execution for the first; the others were launched inside `other`.
    assert device_rows(trace, "occurrences") == [(3,)]


def test_without_launches_the_commonest_kernel_counts_executions() -> None:
    why = Unavailable(code="NOT_RECORDED", reason="no calls.", remedy="record.")
    trace = executing((10, 1, "x"), (20, 2, "x"), (30, 3, "y"))
    assert device_rows(trace.without("launches", why), "occurrences") == [(2,)]


def test_an_annotation_without_a_type_is_the_op_of_its_name() -> None:
    trace = blueprint.trace(
        [
            ("main", "odd", 0, 50, {"tf_op": "odd:Odd"}),
            ("main", "cuLaunchKernel", 10, 1, {"correlation_id": 1}),
            ("main", "cuLaunchKernel", 20, 1, {"correlation_id": 2}),
            (GPU, "x", 15, 2, {"correlation_id": 1, "tf_op": "odd"}),
            (GPU, "x", 25, 2, {"correlation_id": 2, "tf_op": "odd"}),
        ]
    )
    # One execution ran both, so they are no two executions of one kernel.
    assert device_rows(trace, "name", "occurrences", "activities") == [("odd", 1, 2)]


def test_one_execution_that_works_for_two_devices_counts_on_each() -> None:
    trace = blueprint.trace(
        [
            ("main", "a:A", 0, 50),
            ("main", "cuLaunchKernel", 10, 1, {"correlation_id": 1}),
            ("main", "cuLaunchKernel", 20, 1, {"correlation_id": 2}),
            (GPU, "x", 15, 2, {"correlation_id": 1, "tf_op": "a:A"}),
            ("gpu:1/7", "x", 25, 2, {"correlation_id": 2, "tf_op": "a:A"}),
        ]
    )
    assert device_rows(trace, "device", "occurrences") == [(0, 1), (1, 1)]


def test_each_class_of_activities_knows_the_row_of_its_op_and_device() -> None:
    trace = blueprint.trace(
        [
            (GPU, "x", 0, 2, {"tf_op": "a:A"}),
            (GPU, "y", 2, 2, {"tf_op": "a:A"}),
            ("gpu:1/7", "x", 4, 2, {"tf_op": "a:A"}),
            (GPU, "z", 6, 2, {"tf_op": "b:B"}),
        ]
    )
    profile = blueprint.profile(trace)
    classes = profile.derived("vm", activity_classes)
    ops = profile.derived("vm", activity_ops)
    found = profile.derived("vm", device_executions)
    assert not isinstance(classes, Unavailable)
    assert not isinstance(ops, Unavailable)
    assert not isinstance(found, Unavailable)
    rows = found.rows[found.of_class]
    names = ops.ops["name"][classes.rows["op"]].to_list()
    assert sorted(zip(rows["device"].to_list(), names, strict=True)) == [
        (0, "a"),
        (0, "a"),
        (0, "b"),
        (1, "a"),
    ]
    assert rows["group"].to_list() == ops.ops["group"][classes.rows["op"]].to_list()
    # Nothing was launched: each op counts its commonest kernel.
    assert found.rows["executions"].to_list() == [1, 1, 1]


def test_every_unnamed_activity_is_an_execution() -> None:
    trace = blueprint.trace([(GPU, "x", 0, 2), (GPU, "x", 5, 2), (GPU, "y", 9, 2)])
    assert device_rows(trace, "name", "occurrences") == [("(no annotation)", 3)]


def test_eager_executions_are_those_of_the_launching_op() -> None:
    trace = blueprint.trace(
        [
            ("main", "EagerLocalExecute: Mul", 0, 50),
            ("main", "cuLaunchKernel", 10, 1, {"correlation_id": 1}),
            ("executor", "f/Add:Add", 100, 50),
            ("executor", "cuLaunchKernel", 110, 1, {"correlation_id": 2}),
            (GPU, "x", 15, 2, {"correlation_id": 1}),
            (GPU, "y", 115, 1, {"correlation_id": 2, "tf_op": "f/Add:Add"}),
        ]
    )
    rows = device_rows(trace, "name", "eager", "function")
    assert rows == [("Mul", 1, 0), ("f/Add", 0, 1)]
    launching = host_rows(trace, "name", "launching")
    assert launching == [("Mul", 1), ("f/Add", 1)]


def test_stored_marks_of_device_events_tell_how_their_op_ran() -> None:
    trace = blueprint.trace(
        [
            (GPU, "x", 0, 2, {"tf_op": "a:A", "is_eager": 1}),
            (GPU, "x", 5, 2, {"tf_op": "a:A", "is_eager": 0}),
        ]
    )
    assert device_rows(trace, "eager", "function") == [(1, 1)]


def test_instructions_of_one_framework_op_are_one_row() -> None:
    stats = {"hlo_module": "jit_f"}
    trace = blueprint.substitute(
        blueprint.trace(
            [
                (GPU, "gemm", 0, 10, stats | {"hlo_op": "dot.1"}),
                (GPU, "copy", 10, 5, stats | {"hlo_op": "copy.1"}),
                (GPU, "gemm", 20, 10, stats | {"hlo_op": "dot.1"}),
            ]
        ),
        hlo_ops=pl.DataFrame(
            [
                {
                    "program": 1,
                    "module": "jit_f",
                    "name": name,
                    "opcode": name[:-2],
                    "op_name": "jit(f)/dot_general",
                    "matmul": name == "dot.1",
                }
                for name in ("dot.1", "copy.1")
            ],
            schema=HLO_OPS.dtypes(),
        ),
    )
    rows = device_rows(trace, "name", "type", "module", "occurrences", "total_ps")
    assert rows == [("jit(f)/dot_general", "dot_general", "jit_f", 2, 25 * US)]


def test_a_function_that_was_compiled_for_two_shapes_counts_in_both_programs() -> None:
    def run(program: int, kernel: str, start: float) -> blueprint.Line:
        names = {"hlo_module": "jit_f", "hlo_op": "dot.1", "program_id": program}
        return (GPU, kernel, start, 10, names)

    trace = blueprint.substitute(
        blueprint.trace(
            [
                *(run(1, "gemm_128", 20 * i) for i in range(3)),
                # A split product runs two kernels, one of which the other has too.
                *(run(2, "gemm_64", 100 + 20 * i) for i in range(2)),
                *(run(2, "gemm_128", 110 + 20 * i) for i in range(2)),
            ]
        ),
        hlo_ops=pl.DataFrame(
            [
                {
                    "program": program,
                    "module": "jit_f",
                    "name": "dot.1",
                    "opcode": "dot",
                    "op_name": "jit(f)/dot_general",
                }
                for program in (1, 2)
            ],
            schema=HLO_OPS.dtypes(),
        ),
    )
    rows = device_rows(trace, "name", "occurrences", "activities")
    assert rows == [("jit(f)/dot_general", 5, 7)]


def test_matrix_units_are_counted_over_kernel_time_only() -> None:
    trace = blueprint.trace(
        [
            (GPU, "volta_h884gemm", 0, 30, {"tf_op": "m:MatMul"}),
            (GPU, "splitKreduce", 30, 10, {"tf_op": "m:MatMul"}),
            (GPU, "triton_thing", 50, 5, {"tf_op": "t:Thing"}),
            ("gpu:0/8", "MemcpyD2D", 60, 100, {"tf_op": "m:MatMul"}),
        ],
        devices={0: blueprint.A100},
    )
    columns = ("name", "kernel_ps", "tensor_core_ps", "tensor_core_unknown_ps")
    assert device_rows(trace, *columns, "tensor_core_eligible") == [
        ("m", 40 * US, 30 * US, 0, True),
        ("t", 5 * US, 0, 5 * US, False),
    ]


def test_times_in_steps_leave_out_what_ran_before_and_after_them() -> None:
    trace = blueprint.trace(
        [
            ("main", "a:A", 0, 10),
            *(
                ("main", "train", 100 * i, 90, {"_r": 1, "step_num": i})
                for i in range(1, 4)
            ),
            *(("main", "a:A", 100 * i + 10, 10) for i in range(1, 4)),
            ("main", "a:A", 500, 7),
        ]
    )
    found = blueprint.profile(trace).derived("vm", host_ops)
    assert found.step_count == 3
    assert found.rows["step_self_ps"].to_list() == [30 * US]
    assert found.rows["self_ps"].to_list() == [47 * US]


def test_a_host_without_any_op_says_so() -> None:
    trace = blueprint.trace([("main", "train", 0, 10)])
    found = blueprint.profile(trace).derived("vm", host_ops)
    assert isinstance(found, Unavailable)
    assert found.code == "HOST_LEVEL"


def test_a_file_whose_names_are_lost_is_called_damaged() -> None:
    trace = blueprint.trace([("main", "a:A", 0, 10)])
    types = trace.table("event_types")
    assert isinstance(types, pl.DataFrame)
    lost = types.with_columns(
        name=pl.lit("(unknown event 1)"), known=pl.lit(value=False)
    )
    damaged = blueprint.substitute(trace, event_types=lost)
    found = blueprint.profile(damaged).derived("vm", host_ops)
    assert isinstance(found, Unavailable)
    assert found.code == "CORRUPT"
