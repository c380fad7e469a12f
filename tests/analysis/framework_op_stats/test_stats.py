"""`framework_op_stats`: the op table, its shares, and what it cannot say."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
import pytest
from tests.support.traces import blueprint

from stepscope.analysis import framework_op_stats
from stepscope.analysis.framework_op_stats import FrameworkOpStatsResult, Options
from stepscope.analysis.framework_op_stats.result import OP_ROWS
from stepscope.derive.profile_data import ProfileData
from stepscope.errors import BadUsage
from stepscope.formats.opening import read
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from stepscope.trace.model import TraceData

GPU = "gpu:0/7(Compute)"

#: Fields that other programs rely on, in their order.
CONTRACT = [
    "rank",
    "host_or_device",
    "type",
    "name",
    "occurrences",
    "total_time_us",
    "avg_time_us",
    "total_self_time_us",
    "avg_self_time_us",
    "device_self_percent",
    "device_cumulative_percent",
    "host_self_percent",
    "host_cumulative_percent",
]


def analysed(profile: ProfileData, **options: object) -> FrameworkOpStatsResult:
    result = framework_op_stats.analyse(profile, Options(**options))  # type: ignore[arg-type]
    assert isinstance(result, FrameworkOpStatsResult)
    return result


def table(
    trace: TraceData, *columns: str, **options: object
) -> list[tuple[object, ...]]:
    result = analysed(blueprint.profile(trace), **options)
    return result.rows.select(columns).rows()


def test_the_contract_fields_come_first_and_rows_hold_the_declared_types() -> None:
    rows = analysed(blueprint.profile(blueprint.a1())).rows
    assert rows.columns[: len(CONTRACT)] == CONTRACT
    assert dict(rows.schema) == OP_ROWS.dtypes()


def test_the_op_table_of_a1_with_idle() -> None:
    rows = table(
        blueprint.a1(),
        *("rank", "host_or_device", "name", "occurrences", "total_self_time_us"),
        include_idle=True,
    )
    # A.1: time range 7400 µs, of which 4680 (63.24 %) idle.
    assert rows == [
        (1, "Device", "IDLE", 0, 4680.0),
        (2, "Device", "model/dense/MatMul", 8, 800.0),
        (3, "Device", "model/dense_1/MatMul", 8, 800.0),
        (4, "Device", "MemcpyH2D", 16, 560.0),
        (5, "Device", "allreduce", 8, 480.0),
        (6, "Device", "MemcpyD2H", 8, 80.0),
    ]
    idle = analysed(blueprint.profile(blueprint.a1()), include_idle=True).rows[0]
    assert idle["device_self_percent"].item() == pytest.approx(63.24, abs=0.005)
    assert idle["avg_time_us"].item() is None


def test_the_host_table_of_a2_with_idle() -> None:
    rows = table(
        blueprint.a2(), "name", "total_time_us", "total_self_time_us", include_idle=True
    )
    assert rows == [
        ("IDLE", 1160.0, 1160.0),
        ("Iterator::Prefetch::ParallelMapV2::TFRecord", 360.0, 360.0),
        ("Outer", 450.0, 300.0),
        ("a/MatMul", 300.0, 300.0),
        ("Outer/inner", 150.0, 150.0),
        ("a/Relu", 150.0, 150.0),
        ("Iterator::Batch::TFRecord", 90.0, 90.0),
        ("Iterator::Shuffle", 60.0, 60.0),
    ]


def test_idle_is_left_out_unless_asked_for() -> None:
    assert "IDLE" not in {name for (name,) in table(blueprint.a2(), "name")}
    assert analysed(blueprint.profile(blueprint.a2())).host_idle_us == 1160.0


@pytest.mark.parametrize("include_idle", [False, True])
def test_shares_of_each_side_add_up_to_100_and_cumulate(*, include_idle: bool) -> None:
    trace = blueprint.trace(
        [
            ("main", "a:A", 0, 10),
            ("main", "b:B", 20, 30),
            (GPU, "k", 0, 10, {"tf_op": "c:C"}),
            (GPU, "k", 30, 30, {"tf_op": "d:D"}),
        ]
    )
    rows = analysed(blueprint.profile(trace), include_idle=include_idle).rows
    for side, other in (("Device", "host"), ("Host", "device")):
        own = side.lower()
        shown = rows.filter(host_or_device=side)
        shares = shown[f"{own}_self_percent"]
        assert shares.sum() == pytest.approx(100)
        assert shown[f"{own}_cumulative_percent"].to_list() == pytest.approx(
            shares.cum_sum().to_list()
        )
        # The guide gives the other side's percentages as 0.
        assert shown[f"{other}_self_percent"].to_list() == [0.0] * len(shown)
        assert shown[f"{other}_cumulative_percent"].to_list() == [0.0] * len(shown)


def test_device_ops_come_first_by_self_time_then_name_then_host_ops() -> None:
    trace = blueprint.trace(
        [
            ("main", "host/z:Z", 0, 100),
            (GPU, "k", 0, 5, {"tf_op": "b:B"}),
            (GPU, "k", 10, 5, {"tf_op": "a:A"}),
            (GPU, "k", 20, 9, {"tf_op": "c:C"}),
        ]
    )
    assert table(trace, "rank", "name") == [
        (1, "c"),
        (2, "a"),
        (3, "b"),
        (4, "host/z"),
    ]


def test_averages_are_per_execution() -> None:
    trace = blueprint.trace([("main", "f:F", 0, 100), ("main", "f:F", 200, 50)])
    assert table(trace, "avg_time_us", "avg_self_time_us") == [(75.0, 75.0)]


def test_time_per_step_is_that_of_the_steps() -> None:
    rows = table(blueprint.a1(), "name", "per_step_us")
    assert ("MemcpyH2D", 70.0) in rows
    assert ("allreduce", 60.0) in rows


def test_tensor_core_utilisation_is_of_the_kernel_time() -> None:
    rows = dict(table(blueprint.a1(), "name", "tensor_core_utilization_percent"))
    assert rows["model/dense/MatMul"] == 100.0
    assert rows["model/dense_1/MatMul"] == 0.0
    assert rows["MemcpyH2D"] is None


def test_modes_of_execution() -> None:
    trace = blueprint.trace(
        [
            ("main", "Identity:Identity", 0, 30, {"is_eager": 1}),
            ("main", "EagerLocalExecute: Mul", 40, 20),
            ("main", "Mul:Mul", 70, 10),
            ("main", "g/Add:Add", 90, 5),
            ("main", "Iterator::Map", 99, 4),
        ]
    )
    assert table(trace, "name", "eager") == [
        ("Identity", "Eager"),
        ("Mul", "Mixed"),
        ("g/Add", "Function"),
        ("Iterator::Map", None),
    ]


def many_short_kernels(count: int, dur: float, call: float = 5) -> TraceData:
    """Three steps of `count` kernels each, none of them worth its launch."""
    lines: list[blueprint.Line] = []
    for step in range(3):
        begin = 10_000 * step
        stats = {"_r": 1, "step_num": step}
        lines.append(("main", "train", begin, 9_000, stats))
        for i in range(count):
            at = begin + 100 * i
            number = {"correlation_id": step * count + i}
            lines.append(("main", "cuLaunchKernel", at, call, number))
            lines.append((GPU, "k", at + 15, dur, number | {"tf_op": "m/Mul:Mul"}))
    return blueprint.trace(lines)


def test_an_op_of_many_short_kernels_is_flagged() -> None:
    result = analysed(blueprint.profile(many_short_kernels(50, 8)))
    # 15 µs from the begin of each call to its kernel: anything below 30 µs is short.
    assert (result.launch_latency_us, result.launch_latency_samples) == (15.0, 150)
    assert result.rows["small_op"].to_list() == [True]


def test_a_kernel_that_begins_inside_of_its_call_has_a_latency() -> None:
    """Of calls that outlast the latency the page said 0, and no op was ever small."""
    result = analysed(blueprint.profile(many_short_kernels(50, 8, call=15)))
    assert (result.launch_latency_us, result.launch_latency_samples) == (15.0, 150)
    assert result.rows["small_op"].to_list() == [True]


def test_the_latency_of_few_launches_is_assumed() -> None:
    result = analysed(blueprint.profile(many_short_kernels(9, 8)))
    assert (result.launch_latency_us, result.launch_latency_samples) == (20.0, 0)


@pytest.mark.parametrize(
    ("count", "dur"), [(49, 8), (50, 30)], ids=["fewer than 50", "not short"]
)
def test_an_op_of_fewer_or_longer_kernels_is_not(count: int, dur: float) -> None:
    assert table(many_short_kernels(count, dur), "small_op") == [(False,)]


def test_without_steps_nobody_can_say_what_is_many() -> None:
    result = analysed(blueprint.profile(blueprint.trace([(GPU, "k", 0, 5)])))
    assert result.rows["small_op"].to_list() == [None]
    assert result.rows["per_step_us"].to_list() == [None]
    missing = {each.field: each.code for each in result.missing}
    assert missing["rows.small_op"] == missing["rows.per_step_us"] == "NO_STEPS"


def test_rates_need_shapes_and_say_so() -> None:
    result = analysed(blueprint.profile(blueprint.a1()))
    fields = ("measured_flop_rate", "model_flop_rate", "operational_intensity")
    missing = {each.field: each.code for each in result.missing}
    for field in (*fields, "measured_memory_bw", "bound_by"):
        assert result.rows[field].null_count() == len(result.rows)
        assert missing[f"rows.{field}"] == "NO_SHAPES"


def test_a_side_that_was_not_recorded_is_missing_not_empty() -> None:
    result = analysed(blueprint.profile(blueprint.a2()))
    missing = {each.field: each.code for each in result.missing}
    assert missing["rows[device]"] == "NO_DEVICE_PLANE"
    assert missing["device_idle_us"] == "NO_DEVICE_PLANE"
    # Small ops are a matter of kernels: steps there are.
    assert missing["rows.small_op"] == "NO_DEVICE_PLANE"
    assert "rows.per_step_us" not in missing
    assert result.device_idle_us is None
    assert result.pies.device_by_op is None
    assert missing["pies.device_by_op"] == "NO_DEVICE_PLANE"


def test_a_silent_device_is_missing_with_its_own_code() -> None:
    call = ("main", "cudaLaunchKernel", 1, 1, {"correlation_id": 1})
    trace = blueprint.trace([("main", "a:A", 0, 5), call], devices={0: blueprint.A100})
    missing = {
        each.field: each.code for each in analysed(blueprint.profile(trace)).missing
    }
    assert missing["rows[device]"] == "NO_DEVICE_EVENTS"


def test_a_profile_without_ops_is_unavailable() -> None:
    profile = blueprint.profile(blueprint.trace([("main", "range", 0, 5)]))
    result = framework_op_stats.analyse(profile, Options())
    assert isinstance(result, Unavailable)
    assert result.code == "HOST_LEVEL"


def test_pies_hold_the_ten_largest_and_the_rest() -> None:
    lines = [("main", f"op{i:02}:Type{i % 2}", 100 * i, i + 1) for i in range(12)]
    pie = analysed(blueprint.profile(blueprint.trace(lines))).pies.host_by_op
    assert pie is not None
    assert pie.without_idle["name"].to_list() == [
        *(f"op{i:02}" for i in range(11, 1, -1)),
        "other",
    ]
    assert pie.without_idle["self_time_us"].to_list()[-1] == 1.0 + 2.0
    assert pie.without_idle["percent"].sum() == pytest.approx(100)
    # Hull 0 to 1112 µs, of which 78 are covered.
    assert pie.with_idle.row(0)[:2] == ("IDLE", 1034.0)
    assert pie.with_idle["percent"].sum() == pytest.approx(100)


def test_pies_by_type_unite_the_ops_of_a_type() -> None:
    pie = analysed(blueprint.profile(blueprint.a1())).pies.device_by_type
    assert pie is not None
    assert pie.without_idle.row(0)[:2] == ("MatMul", 1600.0)


def test_hosts_are_merged_and_each_can_be_picked() -> None:
    both = blueprint.profile(blueprint.a1(), blueprint.a5_host_b())
    rows = {row["name"]: row for row in analysed(both).rows.to_dicts()}
    merged = rows["model/dense_1/MatMul"]
    assert (merged["occurrences"], merged["total_self_time_us"]) == (16, 1680.0)
    assert merged["hosts"] == ["b", "vm"]
    assert merged["per_step_us"] == 105.0
    picked = analysed(both.select(["b"])).rows
    alone = analysed(blueprint.profile(blueprint.a5_host_b())).rows
    assert picked.equals(alone)


def test_a_host_without_a_side_is_named() -> None:
    both = blueprint.profile(
        blueprint.a1(), blueprint.trace([("main", "a:A", 0, 5)], host="c")
    )
    missing = {each.field: each.code for each in analysed(both).missing}
    assert missing["rows[device, c]"] == "NO_DEVICE_PLANE"
    assert missing["rows[host, vm]"] == "HOST_LEVEL"


def test_one_op_or_one_scope_can_be_shown_with_shares_of_the_whole() -> None:
    whole = {
        row["name"]: row
        for row in analysed(blueprint.profile(blueprint.a1())).rows.to_dicts()
    }
    profile = blueprint.profile(blueprint.a1())
    (row,) = analysed(profile, op="allreduce").rows.to_dicts()
    assert row == whole["allreduce"]
    names = analysed(profile, scope="model").rows["name"].to_list()
    assert names == ["model/dense/MatMul", "model/dense_1/MatMul"]
    with pytest.raises(BadUsage, match="no op has the scope 'mod'"):
        analysed(profile, scope="mod")


def test_an_unknown_whole_gives_no_share() -> None:
    result = analysed(blueprint.profile(blueprint.trace([("main", "a:A", 0, 0)])))
    assert result.rows["host_self_percent"].to_list() == [None]


@pytest.mark.profiles
def test_results_do_not_depend_on_what_was_asked_before(
    shared_profile: Callable[[str], Path],
) -> None:
    # A.4, on the real pair of workers.
    paths = sorted(shared_profile("tf_cpu/two_workers").rglob("*.xplane.pb*"))
    traces = {path.stem: blueprint.renamed(read(path), path.stem) for path in paths}
    both = ProfileData("run", traces)
    a, b = both.hosts

    def sums(profile: ProfileData) -> dict[tuple[str, str | None], tuple[int, float]]:
        rows = analysed(profile).rows
        return {
            (name, module): (count, round(time, 3))
            for name, module, count, time in rows.select(
                "name", "module", "occurrences", "total_self_time_us"
            ).iter_rows()
        }

    first = sums(both.select([a]))
    merged, second = sums(both), sums(both.select([b]))
    assert first == sums(ProfileData("run", {a: traces[a]}))
    assert first != second
    for key in merged:
        parts = [each.get(key, (0, 0.0)) for each in (first, second)]
        assert merged[key][0] == sum(count for count, _ in parts)
        assert merged[key][1] == pytest.approx(sum(time for _, time in parts))


def test_allocations_are_no_executions(shared_profile: Callable[[str], Path]) -> None:
    path = next(shared_profile("tf_cpu/healthy").rglob("*.xplane.pb*"))
    rows = analysed(
        ProfileData("run", {"vm": blueprint.renamed(read(path), "vm")})
    ).rows
    backward = rows.filter(pl.col("type") == "_MklNativeConv2DBackpropInput")
    # The peer counts 60: it takes allocator events for executions.
    assert set(backward["occurrences"].to_list()) == {30}
