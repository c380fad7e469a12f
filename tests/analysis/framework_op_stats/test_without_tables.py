"""Each input taken away in turn: what cannot be said is null with a reason, never 0."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.traces import blueprint

from stepscope.analysis import framework_op_stats, kernel_stats
from stepscope.derive.profile_data import ProfileData
from stepscope.formats.opening import read
from stepscope.trace.tables import TABLES
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import polars as pl

WHY = Unavailable(code="LOST_EVENTS", reason="taken away.", remedy="Put it back.")
TOOLS = {"framework_op_stats": framework_op_stats, "kernel_stats": kernel_stats}
KEYS = {
    "framework_op_stats": ("host_or_device", "name"),
    "kernel_stats": ("kernel_name",),
}
#: The guide gives the other side's percentages as 0, whatever was recorded.
ALWAYS_ZERO = ("device_self_percent", "device_cumulative_percent", "host_self_percent")


def results(profile: ProfileData, tool: str, table: str) -> tuple[pl.DataFrame, object]:
    module = TOOLS[tool]
    whole = module.analyse(profile, module.Options())
    assert not isinstance(whole, Unavailable)
    without = module.analyse(profile.without(table, WHY), module.Options())
    return whole.rows, without


def check(tool: str, whole: pl.DataFrame, without: object) -> None:
    if isinstance(without, Unavailable):
        assert without.reason
        assert without.remedy
        return
    assert isinstance(
        without,
        framework_op_stats.FrameworkOpStatsResult | kernel_stats.KernelStatsResult,
    )
    rows, named = without.rows, " ".join(each.field for each in without.missing)
    for column in whole.columns:
        was_known = whole[column].null_count() < len(whole)
        if was_known and rows[column].null_count() == len(rows):
            assert f"rows.{column}" in named, column
    if tool == "framework_op_stats":
        for side in ("Device", "Host"):
            had = len(whole.filter(host_or_device=side))
            if had and not len(rows.filter(host_or_device=side)):
                assert f"rows[{side.lower()}]" in named
    known = {key_of(tool, row): row for row in whole.to_dicts()}
    for row in rows.to_dicts():
        before = known.get(key_of(tool, row))
        for column, value in row.items():
            is_zero = isinstance(value, int | float) and value == 0
            if before and is_zero and value is not False:
                assert before[column] in {0, None}, (column, row)


def key_of(tool: str, row: dict[str, object]) -> tuple[object, ...]:
    return tuple(row[part] for part in KEYS[tool])


@pytest.fixture(scope="module")
def trained() -> ProfileData:
    lines: list[blueprint.Line] = []
    for step in range(4):
        begin, number = 1000 * step, {"correlation_id": step}
        kernel = "regs:32 static_shared:8 dynamic_shared:0 grid:9,1,1 block:64,1,1"
        marker = {"_r": 1, "step_num": step}
        lines += [
            ("main", "train", begin, 900, marker),
            ("main", "EagerLocalExecute: MatMul", begin + 10, 100),
            ("main", "cuLaunchKernel", begin + 20, 5, number),
            (
                "gpu:0/7",
                "h884gemm",
                begin + 60,
                50,
                number | {"kernel_details": kernel},
            ),
            ("gpu:0/8", "MemcpyH2D", begin + 90, 50),
        ]
    return blueprint.profile(blueprint.trace(lines, devices={0: blueprint.A100}))


@pytest.mark.parametrize("table", sorted(TABLES))
@pytest.mark.parametrize("tool", sorted(TOOLS))
@pytest.mark.sweep(every=5)
def test_blueprint_without_a_table(trained: ProfileData, tool: str, table: str) -> None:
    check(tool, *results(trained, tool, table))


@pytest.mark.parametrize("table", sorted(TABLES))
@pytest.mark.parametrize("tool", sorted(TOOLS))
@pytest.mark.parametrize("item", ["gpu_tf/t4_healthy", "gpu_jax_amd/jax08_conv"])
def test_real_profile_without_a_table(
    shared_profile: Callable[[str], Path], item: str, tool: str, table: str
) -> None:
    trace = read(next(shared_profile(item).rglob("*.xplane.pb*")))
    check(tool, *results(ProfileData(item, {trace.host: trace}), tool, table))


@pytest.mark.parametrize(
    "table", ["device_activity", "events", "tracks", "event_types"]
)
def test_kernels_cannot_be_told_without_their_activity_or_names(table: str) -> None:
    profile = blueprint.profile(blueprint.a1()).without(table, WHY)
    result = kernel_stats.analyse(profile, kernel_stats.Options())
    if table in {"device_activity", "event_types"}:
        assert result == WHY
    else:
        assert isinstance(result, kernel_stats.KernelStatsResult)


def test_without_launches_eager_marks_of_devices_are_unknown() -> None:
    trace = blueprint.trace(
        [
            ("main", "EagerLocalExecute: Mul", 0, 50),
            ("main", "cuLaunchKernel", 10, 1, {"correlation_id": 1}),
            ("gpu:0/7", "k", 20, 5, {"correlation_id": 1, "tf_op": "Mul:Mul"}),
        ]
    )
    profile = blueprint.profile(trace).without("launches", WHY)
    result = framework_op_stats.analyse(profile, framework_op_stats.Options())
    assert isinstance(result, framework_op_stats.FrameworkOpStatsResult)
    modes = dict(result.rows.select("host_or_device", "eager").iter_rows())
    assert modes == {"Device": None, "Host": "Eager"}
