"""`input_pipeline_analyzer` against what TensorFlow and XProf wrote themselves."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.results.input import analysed

import stepscope as ss
from stepscope.analysis.steps.input_share import verdict_on_share
from stepscope.derive.input_pipeline.input_ops import pipeline_category

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


#: Our names of the categories → the guides'.
CATEGORIES = {
    "demanded_file_read": "Demanded file read",
    "advanced_file_read": "Advanced file read",
    "preprocessing": "Preprocessing",
    "enqueue": "Enqueue",
}


GOLDENS = {
    "t4_healthy": "NOT",
    "t4_starved": "HIGHLY",
    "v100_large": "NOT",
    "turing_launch_bound": "POTENTIALLY",
}


def golden(path: Path, name: str) -> Any:
    text = (path / f"golden_{name}.json").read_text(encoding="utf-8")
    return json.loads(text)


@pytest.mark.profiles
@pytest.mark.parametrize("name", GOLDENS)
def test_the_compatible_view_equals_the_golden(
    name: str, shared_profile: Callable[[str], Path]
) -> None:
    path = shared_profile(f"gpu_tf/{name}")
    result = analysed(ss.open(path), compat="tensorflow")
    written = golden(path, "input_pipeline")
    assert result.input_percent == pytest.approx(written["input_percent"], abs=1e-9)
    assert result.step_time_ms.mean == written["step_time_summary"]["average"]
    average = written["input_percent_summary"]["average"]
    assert result.input_percent_stats.mean == pytest.approx(average, abs=1e-9)
    times = written["input_time_breakdown"]
    for category in CATEGORIES:
        theirs = times.get(f"{category}_us", 0.0)
        assert result.host_breakdown_us[category] == pytest.approx(theirs, abs=1e-6)
    assert result.host_breakdown_us["unclassified"] == 0.0
    ops = {
        op["op_name"]: (
            int(op["count"]),
            pytest.approx(1000 * op["time_in_ms"]),
            pytest.approx(op["time_in_percent"]),
            pytest.approx(1000 * op["self_time_in_ms"]),
            pytest.approx(op["self_time_in_percent"]),
            op["category"],
        )
        for op in written["input_op_details"]
    }
    columns = (
        *("name", "count", "total_time_us", "total_time_percent"),
        *("self_time_us", "self_time_percent", "category"),
    )
    ours = {
        name: (*numbers, CATEGORIES[category])
        for name, *numbers, category in result.input_ops.select(columns).rows()
    }
    assert ours == ops
    assert result.compat_verdict == GOLDENS[name]
    said = written["recommendation"]["bottleneck_analysis"]["input_statement"]
    assert f"{result.compat_verdict} input-bound" in said


@pytest.mark.profiles
def test_potentially_input_bound_is_explained(
    shared_profile: Callable[[str], Path],
) -> None:
    path = shared_profile("gpu_tf/turing_launch_bound")
    result = analysed(ss.open(path), compat="tensorflow")
    assert result.verdict == "not_input_bound"
    assert "POTENTIALLY" in result.text
    assert "15.7 %" in result.text


@pytest.mark.profiles
@pytest.mark.parametrize(
    ("name", "percent"), [("t4_healthy", 15.6), ("t4_starved", 63.0)]
)
def test_ours_counts_the_transfers_that_theirs_calls_compute(
    name: str, percent: float, shared_profile: Callable[[str], Path]
) -> None:
    profile = ss.open(shared_profile(f"gpu_tf/{name}"))
    ours, theirs = analysed(profile), analysed(profile, compat="tensorflow")
    assert ours.input_percent == pytest.approx(percent, abs=0.1)
    assert ours.input_wait_percent == pytest.approx(
        # Being blocked in the call that copies a batch is waiting for it, too.
        theirs.input_percent,
        abs=0.1,
    )
    assert ours.input_transfer_percent == pytest.approx(
        ours.input_percent - theirs.input_percent, abs=0.1
    )
    # Each holds one step, which is at most a warning, whatever its share.
    assert ours.verdict == "moderately_input_bound"
    assert ours.host_breakdown_us["enqueue"] > 0


@pytest.mark.profiles
@pytest.mark.parametrize(
    ("name", "classification"),
    [("xprof_gpu_input_bound", "host"), ("xprof_gpu_compute_bound", "device")],
)
def test_stored_steps_of_old_results_get_the_same_verdict(
    name: str, classification: str, shared_profile: Callable[[str], Path]
) -> None:
    written = golden(shared_profile(f"gpu_tf_legacy/{name}"), "input_pipeline")
    bottleneck = written["recommendation"]["bottleneck_analysis"]
    assert bottleneck["input_classification"] == classification
    steps = written["step_details"]
    waited = sum(
        step.get("host_wait_input_ms", 0.0) + step.get("host_to_device_ms", 0.0)
        for step in steps
    )
    percent = 100 * waited / sum(step["step_time_ms"] for step in steps)
    words = {"host": "highly_input_bound", "device": "not_input_bound"}
    assert verdict_on_share(percent) == words[classification]
    assert f"{percent:.1f}%" in bottleneck["input_statement"]


@pytest.mark.profiles
@pytest.mark.parametrize("name", ["xprof_gpu_input_bound", "xprof_gpu_compute_bound"])
def test_stored_ops_of_old_results_get_the_same_category(
    name: str, shared_profile: Callable[[str], Path]
) -> None:
    written = golden(shared_profile(f"gpu_tf_legacy/{name}"), "input_pipeline")
    ops = written["input_op_details"]
    assert {
        op["op_name"]: CATEGORIES[pipeline_category(op["op_name"])] for op in ops
    } == {op["op_name"]: op["category"] for op in ops}


def test_the_table_of_ops_equals_that_of_another_program(
    shared_profile: Callable[[str], Path],
) -> None:
    path = shared_profile("tf_cpu/healthy")
    packed = path / "peer_input_pipeline_analyzer.json.gz"
    tables = json.loads(gzip.decompress(packed.read_bytes()))
    (theirs,) = (
        table
        for table in tables
        if "Input Op" in [column["label"] for column in table["cols"]]
    )
    rows = {}
    for row in theirs["rows"]:
        name, count, total, _, own, share, category = (cell["v"] for cell in row["c"])
        rows[name] = (
            int(count),
            pytest.approx(1000 * total),
            pytest.approx(1000 * own),
            pytest.approx(100 * share),
            category,
        )
    columns = ("name", "count", "total_time_us", "self_time_us", "self_time_percent")
    found = analysed(ss.open(path)).input_ops
    ours = {
        name: (*numbers, CATEGORIES[category])
        for name, *numbers, category in found.select(*columns, "category").rows()
    }
    assert ours == rows
