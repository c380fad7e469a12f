"""Measures of Nsight Compute in the table of kernels: never a zero for an unknown."""

from __future__ import annotations

import polars as pl
from tests.support.traces import blueprint
from tests.support.traces.measured import kernel_metrics

from stepscope.analysis import kernel_stats
from stepscope.analysis.kernel_stats import KernelStatsResult, Options
from stepscope.analysis.kernel_stats.measured import MEASURED_COLUMNS
from stepscope.trace.tables import KERNEL_RULE_RESULTS

GPU = "gpu:0/7(Compute)"
DETAILS = "regs:32 static_shared:0 dynamic_shared:0 grid:8,1,1 block:64,1,1"
NAMES = list(MEASURED_COLUMNS)
RECORDED = [
    (GPU, "gemm", 0, 9, {"tf_op": "a:A", "kernel_details": DETAILS}),
    (GPU, "add", 20, 5, {"tf_op": "b:B", "kernel_details": DETAILS}),
]


def analysed(
    measured: list[dict[str, object]] | None,
    rules: list[tuple[object, ...]] | None = None,
    hosts: int = 1,
) -> KernelStatsResult:
    tables: dict[str, pl.DataFrame] = {}
    if measured is not None:
        tables["kernel_metrics"] = kernel_metrics(*measured)
    if rules is not None:
        tables["kernel_rule_results"] = pl.DataFrame(
            rules, schema=KERNEL_RULE_RESULTS.dtypes(), orient="row"
        )
    traces = [
        blueprint.trace(RECORDED, host=f"vm{number}").with_tables(tables)
        for number in range(hosts)
    ]
    result = kernel_stats.analyse(blueprint.profile(*traces), Options())
    assert isinstance(result, KernelStatsResult)
    return result


def row_of(result: KernelStatsResult, kernel: str) -> dict[str, object]:
    return result.rows.filter(pl.col("kernel_name") == kernel).row(0, named=True)


GEMM: dict[str, object] = {
    "kernel_name": "gemm",
    "duration_ps": 3_000_000,
    "compute_percent": 70.0,
    "memory_percent": 20.0,
    "local_memory_sectors": 2.0,
}


def test_measures_stand_in_the_row_of_their_kernel_and_no_other() -> None:
    result = analysed([GEMM])
    gemm = row_of(result, "gemm")
    assert gemm["measured_us"] == 3.0
    assert gemm["bound"] == "compute"
    assert gemm["local_memory_bytes"] == 64.0
    assert (gemm["measured_launches"], gemm["match"]) == (1, "one_op")
    # The time of the recording stays what it was.
    assert gemm["total_us"] == 9.0
    assert gemm["dram_bytes"] is None
    assert {row_of(result, "add")[name] for name in NAMES} == {None}


def test_without_a_table_every_measure_is_null_with_the_way_to_get_it() -> None:
    result = analysed(None)
    assert all(result.rows[name].null_count() == 2 for name in NAMES)
    reasons = {one.field: one.remedy for one in result.missing}
    for name in NAMES:
        assert "--kernels" in reasons[f"rows.{name}"]
    assert "--kernels" in reasons["nvidia_rules"]
    assert result.measured.is_empty()


def test_a_metric_that_nobody_measured_is_missing_for_that_reason() -> None:
    reasons = {one.field: one.reason for one in analysed([GEMM]).missing}
    assert "rows.compute_percent" not in reasons
    assert "did not measure this metric" in reasons["rows.dram_bytes"]


def test_measured_kernels_are_listed_whether_the_recording_holds_them_or_not() -> None:
    lost = {"kernel_name": "softmax", "duration_ps": 9_000_000}
    shown = analysed([GEMM, lost, GEMM]).measured
    columns = ("rank", "kernel_name", "grid_dim", "launches", "measured_us", "ops")
    assert shown.select(*columns, "found").rows() == [
        (1, "softmax", "8,1,1", 1, 9.0, [], False),
        (2, "gemm", "8,1,1", 2, 6.0, ["a"], True),
    ]


def test_nvidias_rules_are_marked_as_theirs_with_the_op() -> None:
    words = "41.5 % of the cycles wait for L1."
    result = analysed(
        [GEMM, {"kernel_name": "softmax"}],
        [
            (1, "S", "Other", "INF", "None of ours.", None, None),
            (0, "S", "CPIStall", "OPT", words, 41.5, "global"),
        ],
    )
    assert result.nvidia_rules.rows() == [
        ("gemm", "a", "CPIStall", "OPT", words, 41.5, "global", 1),
        ("softmax", None, "Other", "INF", "None of ours.", None, None, 1),
    ]


def test_a_table_counts_for_every_worker() -> None:
    result = analysed([GEMM], hosts=2)
    gemm = row_of(result, "gemm")
    assert gemm["occurrences"] == 2
    assert (gemm["measured_launches"], gemm["measured_us"]) == (1, 3.0)
    assert result.measured["launches"].to_list() == [1]
