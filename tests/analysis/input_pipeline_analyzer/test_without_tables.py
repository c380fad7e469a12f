"""`input_pipeline_analyzer` with a table taken away: null with a reason, never zero."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.results.input import analysed, missing_of
from tests.support.traces import blueprint

import stepscope as ss
from stepscope.analysis import input_pipeline_analyzer as analyzer
from stepscope.analysis.input_pipeline_analyzer import InputPipelineResult
from stepscope.analysis.overview_page import OverviewPageResult
from stepscope.analysis.tools import analyse
from stepscope.derive.verdicts.input_verdict import verdict_of_run
from stepscope.reporting.plain import plain
from stepscope.trace.tables import TABLES
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepscope.derive.profile_data import ProfileData


DATA = Path(__file__).parents[2] / "data"
WHY = Unavailable(code="LOST_EVENTS", reason="taken away.", remedy="Put it back.")


def check(whole: InputPipelineResult, without: object) -> None:
    """What is lost is null with a reason, and nothing turns to zero."""
    if isinstance(without, Unavailable):
        assert without.reason
        assert without.remedy
        return
    assert isinstance(without, InputPipelineResult)
    named = " ".join(one.field for one in without.missing)
    scalars = (
        *("input_percent", "input_wait_percent", "input_transfer_percent"),
        *("largest_category", "bottleneck_iterator", "consumer_wait", "between_steps"),
    )
    for field in scalars:
        before, after = getattr(whole, field), getattr(without, field)
        if before is not None and after is None:
            assert field in named, field
        if before:
            assert after != 0, field
    for category, before in whole.host_breakdown_us.items():
        after = without.host_breakdown_us[category]
        if before:
            assert after != 0, category
        if after is None:
            assert "host_breakdown_us" in named
    if without.verdict == "not_input_bound":
        assert whole.verdict in {"not_input_bound", "unknown"}


def check_agreement(profile: ProfileData) -> None:
    """The overview says of the input what its own page says; both of all devices."""
    page = analyse(profile, "input_pipeline_analyzer", {})
    overview = analyse(profile, "overview_page", {})
    if isinstance(overview, Unavailable):
        return
    assert isinstance(overview, OverviewPageResult)
    if isinstance(page, Unavailable):
        assert overview.input_percent is None
        return
    assert isinstance(page, InputPipelineResult)
    assert overview.input_percent == pytest.approx(page.input_percent)
    decided = verdict_of_run(profile)
    assert not isinstance(decided, Unavailable)
    # The silence before a batch is copied is input, but in no category of its own.
    silent = decided.part_percent("starved")
    category = overview.breakdown_percent.get("input")
    if silent and overview.input_percent is not None:
        assert overview.input_percent == pytest.approx((category or 0.0) + silent)
    else:
        assert overview.input_percent == category
    if overview.input_percent is None:
        assert "input" not in overview.breakdown_ms
        assert "input_percent" in {one.field for one in overview.missing}
    if page.input_wait_percent is None:
        assert "input" not in overview.breakdown_detail_ms
    sides = {"highly_input_bound": "host", "moderately_input_bound": "both"}
    sides |= {"not_input_bound": "device", "unknown": "unknown"}
    assert overview.bottleneck == sides[page.verdict]


@cache
def whole_blueprint(name: str) -> tuple[ProfileData, InputPipelineResult]:
    profile = blueprint.profile(getattr(blueprint, name)())
    return profile, analysed(profile)


@cache
def whole_profile(path: Path) -> tuple[ProfileData, InputPipelineResult]:
    profile = ss.open(path)
    return profile, analysed(profile)


@pytest.mark.parametrize("table", sorted(TABLES))
@pytest.mark.parametrize("name", ["a1", "a2", "a6"])
@pytest.mark.sweep(every=5)
def test_blueprint_without_a_table(name: str, table: str) -> None:
    profile, whole = whole_blueprint(name)
    without = profile.without(table, WHY)
    check(whole, analyzer.analyse(without, analyzer.Options()))
    check_agreement(without)


@pytest.mark.parametrize("table", sorted(TABLES))
@pytest.mark.parametrize("item", ["gpu_tf/t4_starved", "tf_cpu/sequential_map"])
@pytest.mark.sweep(every=5)
def test_real_profile_without_a_table(
    item: str, table: str, shared_profile: Callable[[str], Path]
) -> None:
    profile, whole = whole_profile(shared_profile(item))
    without = profile.without(table, WHY)
    check(whole, analyzer.analyse(without, analyzer.Options()))
    check_agreement(without)


def nulls(value: Any, path: str = "") -> set[str]:
    """Paths of all nulls in plain data; rows of one list share their paths."""
    if value is None:
        return {path}
    if isinstance(value, dict):
        parts = [nulls(one, f"{path}.{key}".strip(".")) for key, one in value.items()]
    else:
        parts = [nulls(one, path) for one in value] if isinstance(value, list) else []
    return set().union(*parts)


@pytest.mark.parametrize("compat", ["", "tensorflow"])
@pytest.mark.parametrize(
    "item",
    [
        *("tf_cpu/healthy", "tf_cpu/two_workers", "tf_cpu/no_step_markers"),
        *("jax_cpu/steps", "gpu_jax_amd/jax08_gemm", "gpu_tf/t4_starved"),
        "gpu_tf/xprof_gpu_multi_worker",
    ],
)
def test_every_null_has_its_reason(
    item: str, compat: str, shared_profile: Callable[[str], Path]
) -> None:
    profile = ss.open(shared_profile(item))
    result = profile.tool("input_pipeline_analyzer", compat=compat)
    if isinstance(result, Unavailable):
        assert compat
        assert result.code in {"NO_STEPS", "NO_DEVICE_PLANE"}
        return
    data = plain(result)
    assert isinstance(data, dict)
    around = {"missing", "inputs", "quality"}
    found = nulls({name: one for name, one in data.items() if name not in around})
    named = missing_of(result)
    assert {
        path
        for path in found
        if not any(path == field or path.startswith(f"{field}.") for field in named)
    } == set()


# Slow: two tools read whole recordings.
@pytest.mark.slow
@pytest.mark.parametrize(
    "item",
    [
        *("jax_cpu/steps", "jax_cpu/nosteps", "torch_cpu/no_schedule"),
        *("gpu/jax_input_bound", "gpu/torch_overlap", "tf_custom_loop", "nsight_cpu"),
    ],
)
def test_the_overview_says_no_more_of_the_input_than_its_page(item: str) -> None:
    """JAX without a recorded fetch had no input by one page, and unknown by another."""
    check_agreement(ss.open(DATA / item))
