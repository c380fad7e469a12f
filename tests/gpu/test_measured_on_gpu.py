"""A table of Nsight Compute beside a recording of the same program, both of an H100.

The two tools write the names of kernels in different ways; what the table says of a
launch is held to what the recording says of it.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pytest

import stepscope as ss
from stepscope.derive.device.kernels import kernels
from stepscope.derive.device.measured_kernels import MeasuredKernels, measured_kernels
from stepscope.unavailable import require_available

if TYPE_CHECKING:
    from stepscope.analysis.tools import ProfileWithTools

FOLDER = Path(__file__).resolve().parents[1] / "data" / "gpu" / "kernels"
TABLE = FOLDER / "counters.csv.gz"


@pytest.fixture(name="profile", scope="module")
def _profile() -> ProfileWithTools:
    return ss.open(FOLDER, kernels=TABLE)


@pytest.fixture(name="found", scope="module")
def _found(profile: ProfileWithTools) -> MeasuredKernels:
    found = profile.derived("localhost", measured_kernels)
    assert isinstance(found, MeasuredKernels)
    return found


def test_the_table_holds_what_the_counters_said(profile: ProfileWithTools) -> None:
    counted = json.loads(gzip.decompress((FOLDER / "counters.json.gz").read_bytes()))
    metrics = require_available(profile.table("localhost", "kernel_metrics"))
    for ours, theirs in zip(
        metrics.iter_rows(named=True), counted["kernels"], strict=True
    ):
        assert ours["kernel_name"] == theirs["name"]
        assert [ours[f"grid_{axis}"] for axis in "xyz"] == theirs["grid"]
        assert [ours[f"block_{axis}"] for axis in "xyz"] == theirs["block"]
        assert ours["registers"] == theirs["registers"]
        assert ours["dynamic_shared_memory_bytes"] == theirs["dynamic_shared_bytes"]
        assert ours["theoretical_occupancy_percent"] == pytest.approx(
            theirs["occupancy_percent"], abs=0.005
        )


def test_every_launch_is_found_again(found: MeasuredKernels) -> None:
    assert found.unmatched.is_empty()
    assert sorted(found.members["row"]) == list(range(229))


def test_what_is_joined_has_the_occupancy_and_registers_of_the_recorded_kernel(
    profile: ProfileWithTools, found: MeasuredKernels
) -> None:
    """Neither number is used for the join."""
    recorded = require_available(profile.derived("localhost", kernels)).rows
    joined = found.rows.join(recorded, on="class", suffix="_recorded")
    assert joined.height == recorded.height == 166
    for row in joined.iter_rows(named=True):
        assert row["registers"] == row["registers_recorded"]
        assert row["theoretical_occupancy_percent"] == pytest.approx(
            row["occupancy_percent"], abs=0.01
        )


def test_most_kernels_are_found_by_their_whole_name(found: MeasuredKernels) -> None:
    """Two names of one kernel agree but for namespaces and spelling in most cases."""
    pairings = Counter(found.rows["pairing"])
    assert pairings["one_op"] + pairings["order"] == found.rows.height
    sure = found.rows.filter(pl.col("confidence") > 0.8)
    assert sure.height >= 148


def test_the_tool_shows_the_ops_of_measured_kernels(profile: ProfileWithTools) -> None:
    result = profile.tool("kernel_stats")
    assert not isinstance(result, ss.Unavailable)
    assert result.measured["launches"].sum() == 229
    assert result.measured["found"].all()
    # The time of launches was not measured.
    assert result.measured["measured_us"].null_count() == result.measured.height
    rows = result.rows
    assert rows["match_confidence"].null_count() == 0
    assert rows["compute_percent"].null_count() == rows.height
    missing = {one.field for one in result.missing}
    assert {"rows.compute_percent", "nvidia_rules"} <= missing
    assert "rows.match_confidence" not in missing
