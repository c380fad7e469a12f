"""Kernels with their ops, launch shapes and occupancy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
import pytest
from tests.support.traces import blueprint

from stepscope.derive.device.kernels import kernels, launch_dimensions
from stepscope.trace.tables import GEOMETRIES
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.derive.device.kernels import Kernels
    from stepscope.trace.model import TraceData

US = 1_000_000
GPU = "gpu:0/7(Compute)"
COPY_KERNEL = "__amd_rocclr_copyBuffer.kd"
DETAILS = "regs:{} static_shared:{} dynamic_shared:0 grid:8,1,1 block:{},1,1"


def found_in(trace: TraceData) -> Kernels:
    ran = blueprint.profile(trace).derived(trace.host, kernels)
    assert not isinstance(ran, Unavailable)
    return ran


def launched(registers: int, static: int, threads: int) -> TraceData:
    details = DETAILS.format(registers, static, threads)
    lines = [(GPU, "k", 0, 5, {"kernel_details": details})]
    return blueprint.trace(lines, devices={0: blueprint.A100})


def test_kernels_and_collectives_are_listed_and_copies_are_not() -> None:
    rows = found_in(blueprint.a1()).rows
    assert rows.select("kernel_name", "op_name", "count", "total_ps").rows() == [
        ("volta_fp16_s884gemm", "model/dense/MatMul", 8, 800 * US),
        ("ampere_sgemm_32x32", "model/dense_1/MatMul", 8, 800 * US),
        ("ncclDevKernel_AllReduce", "allreduce", 8, 480 * US),
    ]


def test_a_copy_that_is_a_kernel_with_launch_details_is_listed_without_op() -> None:
    details = DETAILS.format(16, 0, 64)
    trace = blueprint.trace(
        [("gpu:0/8", COPY_KERNEL, 0, 5, {"kernel_details": details})]
    )
    rows = found_in(trace).rows.select("kernel_name", "op_name", "precision").rows()
    assert rows == [(COPY_KERNEL, "", None)]


def test_a_kernel_that_the_clock_rounds_to_nothing_was_launched_all_the_same() -> None:
    trace = blueprint.trace([(GPU, "k", 0, 5), (GPU, "k", 9, 0), (GPU, "k", 11, 0)])
    rows = found_in(trace).rows.select("count", "total_ps", "min_ps", "max_ps").rows()
    assert rows == [(3, 5 * US, 0, 5 * US)]


def test_the_op_around_the_launch_names_an_unannotated_kernel() -> None:
    trace = blueprint.trace(
        [
            ("main", "EagerLocalExecute: Mul", 0, 50),
            ("main", "cuLaunchKernel", 10, 1, {"correlation_id": 1}),
            (GPU, "k", 20, 5, {"correlation_id": 1}),
            (GPU, "k", 90, 5),
        ]
    )
    rows = found_in(trace).rows.select("kernel_name", "op_name", "count").rows()
    assert rows == [("k", "Mul", 1), ("k", "", 1)]


def test_recorded_occupancy_is_kept_and_its_limit_worked_out() -> None:
    rows = found_in(blueprint.a1()).rows
    # A.1 says 50; 32 registers and 128 threads on 8.0 would allow 100.
    assert rows["occupancy_percent"].to_list() == [50.0] * 3
    assert rows["occupancy_limiter"].to_list() == ["registers"] * 3


def test_occupancy_follows_from_registers_memory_and_block() -> None:
    rows = found_in(launched(128, 0, 256)).rows
    # 128 registers * 256 threads = half of 65,536: two blocks of 2,048 threads' room.
    assert rows.select("occupancy_percent", "occupancy_limiter").rows() == [
        (25.0, "registers")
    ]


def test_occupancy_of_an_unknown_device_is_unknown() -> None:
    details = DETAILS.format(128, 0, 256)
    trace = blueprint.trace([(GPU, "k", 0, 5, {"kernel_details": details})])
    rows = found_in(trace).rows
    assert rows.select("occupancy_percent", "occupancy_limiter").rows() == [
        (None, None)
    ]


def test_a_missing_register_count_leaves_occupancy_unknown() -> None:
    trace = launched(32, 0, 256)
    geometries = trace.table("geometries")
    assert isinstance(geometries, pl.DataFrame)
    without = geometries.with_columns(registers=pl.lit(None, pl.Int32))
    assert without.schema == GEOMETRIES.dtypes()
    rows = found_in(blueprint.substitute(trace, geometries=without)).rows
    assert rows.select("registers", "occupancy_percent").rows() == [(None, None)]


def test_without_launch_shapes_kernels_are_listed_and_shapes_are_null() -> None:
    why = Unavailable(code="NO_KERNEL_DETAILS", reason="none.", remedy="record.")
    kernels = found_in(blueprint.a1().without("geometries", why))
    assert kernels.without_geometry == why
    shapes = kernels.rows.select("registers", "block_x", "occupancy_percent")
    assert shapes.null_count().row(0) == (3, 3, 3)


def test_time_in_which_others_run_is_not_exposed() -> None:
    trace = blueprint.trace([(GPU, "k", 0, 50), ("gpu:0/8", "MemcpyH2D", 30, 50)])
    assert found_in(trace).rows["exposed_ps"].to_list() == [30 * US]


def test_every_column_of_a_kernel() -> None:
    details = DETAILS.format(128, 1024, 256).replace(
        "dynamic_shared:0", "dynamic_shared:512"
    )
    stats = {"kernel_details": details, "tf_op": "m/MatMul:MatMul"}
    trace = blueprint.trace(
        [
            ("main", "train", 0, 100, {"_r": 1, "step_num": 1}),
            ("main", "cuLaunchKernel", 5, 1, {"correlation_id": 1}),
            (GPU, "volta_fp16_s884gemm", 10, 5, {**stats, "correlation_id": 1}),
            (GPU, "volta_fp16_s884gemm", 20, 9, stats),
            ("gpu:0/8", "MemcpyH2D", 25, 50),
        ],
        devices={0: blueprint.A100},
    )
    (row,) = found_in(trace).rows.to_dicts()
    assert {name: value for name, value in row.items() if name != "class"} == {
        "kernel_name": "volta_fp16_s884gemm",
        "op_name": "m/MatMul",
        "uses_tensor_core": True,
        "tensor_core_eligible": True,
        "block_x": 256,
        "block_y": 1,
        "block_z": 1,
        "grid_x": 8,
        "grid_y": 1,
        "grid_z": 1,
        "registers": 128,
        "static_shared_memory_bytes": 1024,
        "dynamic_shared_memory_bytes": 512,
        "shared_memory_bytes": 1536,
        "device": 0,
        "occupancy_percent": 25.0,
        "occupancy_limiter": "registers",
        "tensor_core_evidence": "name",
        "precision": "16",
        "precision_evidence": "name",
        "count": 2,
        "total_ps": 14 * US,
        "min_ps": 5 * US,
        "max_ps": 9 * US,
        "exposed_ps": 10 * US,
        "step_ps": 14 * US,
    }


@pytest.mark.parametrize(
    ("name", "stats", "precision", "evidence"),
    [
        ("volta_sgemm_128x64", {}, "32", "name"),
        ("volta_dgemm_128x64", {}, "64", "name"),
        ("ampere_tf32_s1688gemm", {}, "tf32", "name"),
        ("k", {"shape": "(half[4];float[4])"}, "16", "shape"),
        ("k", {"shape": "(double[4])"}, "64", "shape"),
        ("k", {"shape": "(float[4])"}, "32", "shape"),
        ("k", {"shape": "(int[4])"}, "32", "default"),
        ("k", {}, "32", "default"),
        ("ncclDevKernel_AllReduce", {}, None, None),
    ],
)
def test_the_precision_of_a_kernel_and_its_source(
    name: str, stats: dict[str, str], precision: str | None, evidence: str | None
) -> None:
    rows = found_in(blueprint.trace([(GPU, name, 0, 5, stats)])).rows
    assert rows.select("precision", "precision_evidence").rows() == [
        (precision, evidence)
    ]


def test_sizes_of_a_launch_as_one_text() -> None:
    sizes = pl.DataFrame({"grid_x": [8, 8], "grid_y": [2, None], "grid_z": [1, 1]})
    assert sizes.select(launch_dimensions("grid")).rows() == [("8,2,1",), (None,)]
