"""`kernel_stats`: the kernel table, its key and order, and what it cannot say."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
import pytest
from tests.support.traces import blueprint

from stepscope.analysis import kernel_stats
from stepscope.analysis.kernel_stats import KernelStatsResult, Options
from stepscope.analysis.kernel_stats.stats import KERNEL_ROWS
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.derive.profile_data import ProfileData

GPU = "gpu:0/7(Compute)"
DETAILS = "regs:{} static_shared:{} dynamic_shared:{} grid:{} block:{}"

#: Fields that other programs rely on, in their order.
CONTRACT = [
    "rank",
    "kernel_name",
    "op_name",
    "registers",
    "shared_memory_bytes",
    "block_dim",
    "grid_dim",
    "occupancy_percent",
    "occupancy_limiter",
    "tensor_core_eligible",
    "uses_tensor_core",
    "occurrences",
    "total_us",
    "avg_us",
    "min_us",
    "max_us",
]


def analysed(profile: ProfileData, **options: object) -> KernelStatsResult:
    result = kernel_stats.analyse(profile, Options(**options))  # type: ignore[arg-type]
    assert isinstance(result, KernelStatsResult)
    return result


def kernel(
    start: float,
    dur: float,
    name: str = "k",
    *,
    op: str = "a:A",
    regs: int = 32,
    static: int = 0,
    dynamic: int = 0,
    grid: str = "1,1,1",
    block: str = "64,1,1",
) -> blueprint.Line:
    details = DETAILS.format(regs, static, dynamic, grid, block)
    return (GPU, name, start, dur, {"tf_op": op, "kernel_details": details})


def rows_of(*lines: blueprint.Line) -> pl.DataFrame:
    return analysed(blueprint.profile(blueprint.trace(list(lines)))).rows


def test_the_contract_fields_come_first_and_rows_hold_the_declared_types() -> None:
    rows = analysed(blueprint.profile(blueprint.a1())).rows
    assert rows.columns[: len(CONTRACT)] == CONTRACT
    assert dict(rows.schema) == KERNEL_ROWS.dtypes()


def test_the_kernel_table_of_a1() -> None:
    rows = analysed(blueprint.profile(blueprint.a1())).rows
    columns = ("rank", "kernel_name", "op_name", "occurrences", "total_us")
    assert rows.select(columns).rows() == [
        # Equal totals: by name.
        (1, "ampere_sgemm_32x32", "model/dense_1/MatMul", 8, 800.0),
        (2, "volta_fp16_s884gemm", "model/dense/MatMul", 8, 800.0),
        (3, "ncclDevKernel_AllReduce", "allreduce", 8, 480.0),
    ]
    shape = ("block_dim", "grid_dim", "shared_memory_bytes", "occupancy_percent")
    assert set(rows.select(shape).rows()) == {("128,1,1", "10,1,1", 100, 50.0)}
    times = rows.select("avg_us", "min_us", "max_us").rows()
    assert times == [(100.0,) * 3, (100.0,) * 3, (60.0,) * 3]
    assert rows["uses_tensor_core"].to_list() == [False, True, False]
    assert rows["tensor_core_eligible"].to_list() == [True, True, False]
    assert rows["precision"].to_list() == ["32", "16", None]
    assert rows["per_step_us"].to_list() == [100.0, 100.0, 60.0]


def test_two_hosts_are_one_table_as_in_a5() -> None:
    both = blueprint.profile(blueprint.a1(), blueprint.a5_host_b())
    row = analysed(both).rows.row(0, named=True)
    assert (row["rank"], row["kernel_name"]) == (1, "ampere_sgemm_32x32")
    assert (row["occurrences"], row["total_us"], row["avg_us"]) == (16, 1680.0, 105.0)
    assert (row["min_us"], row["max_us"]) == (100.0, 110.0)
    assert (row["hosts"], row["devices"]) == (["b", "vm"], [0])
    assert row["per_step_us"] == 105.0
    picked = analysed(both.select(["vm"])).rows
    assert picked.equals(analysed(blueprint.profile(blueprint.a1())).rows)


def test_devices_are_merged() -> None:
    row = analysed(blueprint.profile(blueprint.a7())).rows.row(0, named=True)
    assert (row["occurrences"], row["total_us"], row["devices"]) == (2, 800.0, [0, 1])


@pytest.mark.parametrize(
    "other",
    [
        {"op": "b:A"},
        {"regs": 33},
        {"static": 4},
        {"dynamic": 4},
        {"grid": "2,1,1"},
        {"block": "32,2,1"},
    ],
    ids=lambda other: next(iter(other)),
)
def test_each_part_of_the_key_makes_a_row(other: dict[str, str]) -> None:
    rows = rows_of(kernel(0, 5), kernel(10, 5), kernel(20, 5, **other))  # type: ignore[arg-type]
    assert sorted(rows["occurrences"].to_list()) == [1, 2]


def test_equal_totals_are_ordered_by_name_grid_block_and_resources() -> None:
    shapes = [
        {"grid": "2,1,1", "block": "32,1,1"},
        {"grid": "10,1,1", "block": "32,1,1"},
        {"grid": "10,1,1", "block": "64,1,1", "regs": 8},
        {"grid": "10,1,1", "block": "64,1,1", "regs": 16},
    ]
    lines = [
        kernel(10 * i, 5, **shape)  # type: ignore[arg-type]
        for i, shape in enumerate(reversed(shapes))
    ]
    rows = rows_of(kernel(100, 5, "a_last_name_wins_first"), *lines)
    assert rows["kernel_name"][0] == "a_last_name_wins_first"
    # Numbers compare as numbers: 2 comes before 10.
    assert rows.select("grid_dim", "block_dim", "registers").rows()[1:] == [
        (shape["grid"], shape["block"], shape.get("regs", 32)) for shape in shapes
    ]


def test_the_sum_of_the_rows_is_the_time_of_all_kernels() -> None:
    result = analysed(blueprint.profile(blueprint.a1()))
    assert result.kernel_time_us == result.rows["total_us"].sum() == 2080.0
    assert result.kernel_count == result.rows["occurrences"].sum() == 24
    assert result.rows["device_time_percent"].sum() == pytest.approx(100)


def test_pairs_of_kernel_and_op_list_their_launch_shapes() -> None:
    lines = [kernel(0, 5), kernel(10, 7, grid="3,1,1"), kernel(20, 1, op="b:B")]
    pairs = analysed(blueprint.profile(blueprint.trace(lines))).by_pair
    columns = ("rank", "kernel_name", "op_name", "occurrences", "total_us")
    assert pairs.select(columns).rows() == [
        (1, "k", "a", 2, 12.0),
        (2, "k", "b", 1, 1.0),
    ]
    assert pairs.select("min_us", "max_us", "avg_us").row(0) == (5.0, 7.0, 6.0)
    assert pairs["launch_shapes"].to_list()[0] == [
        "grid 1,1,1 block 64,1,1",
        "grid 3,1,1 block 64,1,1",
    ]


def test_the_pie_has_the_kernels_with_most_time_whatever_their_op() -> None:
    lines = [kernel(0, 5), kernel(10, 7, op="b:B"), kernel(20, 8, "other_kernel")]
    pie = analysed(blueprint.profile(blueprint.trace(lines))).pie
    assert pie.select("name", "total_us").rows() == [("k", 12.0), ("other_kernel", 8.0)]
    assert pie["percent"].to_list() == [60.0, 40.0]


def test_one_op_or_one_scope_can_be_shown_with_shares_of_the_whole() -> None:
    profile = blueprint.profile(blueprint.a1())
    (row,) = analysed(profile, op="allreduce").rows.to_dicts()
    assert row["device_time_percent"] == pytest.approx(100 * 480 / 2080)
    names = analysed(profile, scope="model/dense").rows["op_name"].to_list()
    assert names == ["model/dense/MatMul"]


def test_details_that_no_kernel_has_are_null_with_a_reason() -> None:
    trace = blueprint.trace([(GPU, "k", 0, 5)], devices={0: blueprint.A100})
    result = analysed(blueprint.profile(trace))
    missing = {each.field: each.code for each in result.missing}
    for field in ("registers", "shared_memory_bytes", "block_dim", "grid_dim"):
        assert result.rows[field].to_list() == [None]
        assert missing[f"rows.{field}"] == "NO_KERNEL_DETAILS"
    assert missing["rows.occupancy_percent"] == "NO_KERNEL_DETAILS"
    assert missing["rows.per_step_us"] == "NO_STEPS"


def test_a_shared_memory_total_without_parts_still_tells_rows_apart() -> None:
    old = "regs:16 shm:{} grid:1,1,1 block:64,1,1"
    lines = [
        (GPU, "k", 10 * i, 5, {"kernel_details": old.format(size)})
        for i, size in enumerate((0, 1024, 1024))
    ]
    trace = blueprint.trace(lines)
    geometries = trace.table("geometries")
    assert isinstance(geometries, pl.DataFrame)
    rows = analysed(blueprint.profile(trace)).rows
    sizes = geometries["shared_memory_bytes"].to_list()
    found = rows.select("shared_memory_bytes", "static_shared_memory_bytes").rows()
    assert sorted(found, key=str) == sorted(((size, None) for size in sizes), key=str)
    assert sorted(rows["occurrences"].to_list()) == [1, 2]


def test_without_a_device_there_is_nothing_to_show_and_a_reason() -> None:
    result = kernel_stats.analyse(blueprint.profile(blueprint.a2()), Options())
    assert isinstance(result, Unavailable)
    assert result.code == "NO_DEVICE_PLANE"
    assert result.remedy


@pytest.mark.parametrize(
    "lines",
    [
        [("main", "cudaLaunchKernel", 1, 1, {"correlation_id": 1})],
        [("gpu:0/8", "MemcpyH2D", 0, 5)],
    ],
    ids=["a listed device without activity", "copies only"],
)
def test_a_device_without_kernels_says_so(lines: list[blueprint.Line]) -> None:
    trace = blueprint.trace(
        [("main", "a:A", 0, 5), *lines], devices={0: blueprint.A100}
    )
    result = kernel_stats.analyse(blueprint.profile(trace), Options())
    assert isinstance(result, Unavailable)
    assert result.code == "NO_DEVICE_EVENTS"


def test_a_host_without_kernels_beside_one_with_them_is_named() -> None:
    both = blueprint.profile(
        blueprint.a1(), blueprint.trace([("main", "a:A", 0, 5)], host="c")
    )
    result = analysed(both)
    assert [
        (each.field, each.code)
        for each in result.missing
        if "Nsight Compute" not in each.reason
        and each.field not in ("rows.source", "rows.module")
    ] == [("hosts.c", "NO_DEVICE_PLANE")]


def test_each_width_has_its_time_and_tf32_is_a_width_of_its_own() -> None:
    trace = blueprint.trace(
        [
            ("gpu:0/7(Compute)", "ampere_sgemm_32x32_nn", 0, 5, {}),
            ("gpu:0/7(Compute)", "cutlass_80_tensorop_s1688gemm_64x64_nn", 10, 7, {}),
            ("gpu:0/7(Compute)", "ampere_bf16_s16816gemm_bf16_64x64_nn", 20, 11, {}),
            ("gpu:0/7(Compute)", "volta_dgemm_64x64_nn", 40, 13, {}),
            ("gpu:0/7(Compute)", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 60, 17, {}),
        ],
        devices={0: blueprint.A100},
    )
    result = analysed(blueprint.profile(trace))
    assert result.time_us_by_precision == {"16": 11, "32": 5, "64": 13, "tf32": 7}
