"""`tf_data_bottleneck_analysis` with a table taken away: no zero stands for it."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import pytest
from tests.support.traces import blueprint
from tests.support.traces.pipelines import analysed, steps_with_call

import stepscope as ss
from stepscope.analysis import tf_data_bottleneck_analysis as tool
from stepscope.analysis.tf_data_bottleneck_analysis import (
    Options,
    TfDataBottleneckAnalysisResult,
)
from stepscope.trace.tables import TABLES
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from stepscope.derive.profile_data import ProfileData


WHY = Unavailable(code="LOST_EVENTS", reason="taken away.", remedy="Put it back.")


def check_without(whole: TfDataBottleneckAnalysisResult, without: object) -> None:
    """What was known is the same, or null with a reason, or the tool says why not."""
    if isinstance(without, Unavailable):
        assert without.reason
        assert without.remedy
        return
    assert isinstance(without, TfDataBottleneckAnalysisResult)
    named = " ".join(one.field for one in without.missing)
    for name in whole.summary.__struct_fields__:
        before, after = getattr(whole.summary, name), getattr(without.summary, name)
        if after is None and before is not None:
            assert f"summary.{name}" in named
        if after == 0 and after is not False:
            assert before == 0
    assert without.pipelines.equals(whole.pipelines)
    of_calls = (one.bottlenecks.drop("input_bound") for one in (without, whole))
    assert next(of_calls).equals(next(of_calls))
    # Whether steps wait is what the summary says, or is not known.
    said = {without.summary.input_bound}
    assert set(without.bottlenecks["input_bound"]) <= said
    waits = without.waits.join(whole.waits, on="host")
    for row in waits.to_dicts():
        for column in ("steps", "exposed_wait_ms_per_step", "exposed_wait_percent"):
            known = row[f"{column}_right"] is not None
            if known and row[column] is None:
                assert f"waits[{row['host']}]" in named
            if known and row[column] == 0:
                assert row[f"{column}_right"] == 0


@cache
def whole_blueprint() -> tuple[ProfileData, TfDataBottleneckAnalysisResult]:
    profile = blueprint.profile(blueprint.trace(steps_with_call(call=400, work=600)))
    return profile, analysed(profile)


@cache
def whole_profile(path: Path) -> tuple[ProfileData, TfDataBottleneckAnalysisResult]:
    profile = ss.open(path)
    return profile, analysed(profile)


@pytest.mark.parametrize("table", sorted(TABLES))
@pytest.mark.sweep(every=5)
def test_a_blueprint_without_a_table(table: str) -> None:
    profile, whole = whole_blueprint()
    without = tool.analyse(profile.without(table, WHY), Options())
    check_without(whole, without)
    if table in {"iterators", "events", "event_types", "stats", "tracks"}:
        assert without == WHY


@pytest.mark.parametrize("table", sorted(TABLES))
@pytest.mark.parametrize("item", ["tf_cpu/input_bound", "gpu_tf/t4_starved"])
@pytest.mark.sweep(every=5)
def test_a_real_profile_without_a_table(
    shared_profile: Callable[[str], Path], item: str, table: str
) -> None:
    profile, whole = whole_profile(shared_profile(item))
    check_without(whole, tool.analyse(profile.without(table, WHY), Options()))
