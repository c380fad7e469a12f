"""`input_pipeline_analyzer`: verdicts, shares, host-side work, and what is unknown."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import blueprint
import stepscope as ss
from stepscope.analysis import input_pipeline_analyzer as analyzer
from stepscope.analysis.input_pipeline_analyzer import InputPipelineResult
from stepscope.analysis.input_verdict import verdict_of
from stepscope.derive.input_ops import pipeline_category
from stepscope.derive.profile_data import ProfileData
from stepscope.formats import kineto
from stepscope.report.plain import plain
from stepscope.trace.tables import TABLES
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from stepscope.trace.model import TraceData

WHY = Unavailable(code="LOST_EVENTS", reason="taken away.", remedy="Put it back.")
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


def analysed(profile: ProfileData, **options: Any) -> InputPipelineResult:
    result = analyzer.analyse(profile, analyzer.Options(**options))
    assert isinstance(result, InputPipelineResult), result
    return result


def of_lines(*lines: blueprint.Line, **more: Any) -> InputPipelineResult:
    return analysed(blueprint.profile(blueprint.trace(list(lines), **more)))


def missing_of(result: InputPipelineResult) -> dict[str, str]:
    return {one.field: one.code for one in result.missing}


def marker(step: int, start: float, dur: float) -> blueprint.Line:
    return ("main", "train", start, dur, {"_r": 1, "step_num": step})


# The acceptance vectors.


def test_a2_waits_a_fifth_of_its_steps_and_reads_mostly_ahead() -> None:
    result = analysed(blueprint.profile(blueprint.a2()))
    assert result.verdict == "highly_input_bound"
    assert result.input_percent == result.input_wait_percent == 20.0
    assert result.input_transfer_percent is None
    assert missing_of(result)["input_transfer_percent"] == "NO_DEVICE_PLANE"
    assert result.host_breakdown_us == {
        "demanded_file_read": 90.0,
        "advanced_file_read": 360.0,
        "preprocessing": 60.0,
        "enqueue": 0.0,
        "unclassified": 0.0,
    }
    columns = ("name", "count", "total_time_us", "self_time_us", "category")
    assert result.input_ops.select(columns).rows() == [
        (
            "Iterator::Prefetch::ParallelMapV2::TFRecord",
            *(3, 360.0, 360.0),
            "advanced_file_read",
        ),
        ("Iterator::Batch::TFRecord", 3, 90.0, 90.0, "demanded_file_read"),
        ("Iterator::Shuffle", 3, 60.0, 60.0, "preprocessing"),
    ]
    shares = result.input_ops["self_time_percent"].round(3).to_list()
    assert shares == [70.588, 17.647, 11.765]
    assert [step.category for step in result.next_steps] == [
        "advanced_file_read",
        "demanded_file_read",
        "preprocessing",
    ]
    assert result.largest_category == "advanced_file_read"


def test_a2_counts_closed_windows_and_draws_the_open_one() -> None:
    result = analysed(blueprint.profile(blueprint.a2()))
    shown = [
        (step.name, step.counted, step.duration_ms, step.input_ms, step.input_wait_ms)
        for step in result.steps
    ]
    assert shown == [
        ("train 50", True, 1.0, 0.2, 0.2),
        ("train 51", True, 1.0, 0.2, 0.2),
        ("train 52", False, 0.8, 0.2, 0.2),
    ]
    assert result.steps[2].input_percent_avg == 25.0
    assert result.input_percent_stats.mean == 20.0
    assert result.input_percent_stats.std == 0.0
    assert result.step_time_ms.mean == 1.0
    waiting = result.consumer_wait
    assert waiting is not None
    assert (waiting.total_ms, waiting.per_step_ms, waiting.exposed_ms) == (
        0.4,
        0.2,
        0.4,
    )
    assert (waiting.waits, waiting.slow_waits, waiting.longest_ms) == (2, 2, 0.2)
    assert waiting.hidden_ms is None
    assert missing_of(result)["consumer_wait.hidden_ms"] == "NO_DEVICE_PLANE"


def test_a6_counts_exposed_transfers_and_waiting() -> None:
    result = analysed(blueprint.profile(blueprint.a6()))
    assert result.input_transfer_percent == pytest.approx(100 * 20 / 500)
    assert result.input_wait_percent == pytest.approx(100 * 60 / 500)
    assert result.input_percent == pytest.approx(16.0)
    assert result.verdict == "moderately_input_bound"
    assert result.host_breakdown_us["enqueue"] == 0.0  # the call took no time
    assert result.host_breakdown_us["preprocessing"] == 0.0


def test_a1_shows_transfers_and_cannot_see_waiting() -> None:
    result = analysed(blueprint.profile(blueprint.a1()))
    assert result.input_percent == result.input_transfer_percent == 7.0
    assert result.verdict == "moderately_input_bound"
    assert result.input_wait_percent is None
    assert missing_of(result)["input_wait_percent"] == "NO_TFDATA_EVENTS"
    assert result.input_at_most_percent == pytest.approx(7.0 + 54.5)
    assert "at least 7.0 %" in result.text


def test_a9_gives_each_stage_its_part_of_the_critical_path() -> None:
    result = of_lines(
        marker(0, 0, 1500),
        ("main", "Iterator::Batch", 0, 1000, {"id": 1}),
        ("main", "Iterator::Batch::Map", 100, 400, {"id": 2, "parent_id": 1}),
        (
            "main",
            "Iterator::Batch::Map::TFRecord",
            *(150, 100, {"id": 3, "parent_id": 2}),
        ),
        ("main", "Iterator::Batch::Map", 500, 400, {"id": 2, "parent_id": 1}),
        (
            "main",
            "Iterator::Batch::Map::TFRecord",
            *(550, 50, {"id": 3, "parent_id": 2}),
        ),
    )
    rows = result.input_ops.select("name", "count", "total_time_us", "self_time_us")
    assert rows.rows() == [
        ("Iterator::Batch::Map", 2, 800.0, 650.0),
        ("Iterator::Batch", 1, 1000.0, 200.0),
        ("Iterator::Batch::Map::TFRecord", 2, 150.0, 150.0),
    ]
    critical = result.input_ops["critical_time_ms"].to_list()
    assert critical == pytest.approx([0.65, 0.2, 0.15])
    assert result.bottleneck_iterator == "Iterator::Batch::Map"


# Where the waiting lies.


def test_waiting_between_the_markers_counts_and_is_said_so() -> None:
    lines: list[blueprint.Line] = []
    for step in range(4):
        begin = 1000 * step
        lines += [
            marker(step, begin, 600),
            ("main", "a/MatMul:MatMul", begin + 10, 580),
            ("main", "IteratorGetNext", begin + 650, 300),
        ]
    result = of_lines(*lines)
    assert result.input_percent == pytest.approx(30.0)
    assert result.verdict == "highly_input_bound"
    assert result.between_steps is not None
    assert result.between_steps.outside_markers
    assert result.between_steps.wait_ms == pytest.approx(0.9)
    assert (result.between_steps.gaps, result.between_steps.gaps_with_wait) == (3, 3)
    assert result.next_steps[0].category == "outside_markers"


def test_the_range_over_devices_tells_a_device_that_hides_the_wait() -> None:
    lines: list[blueprint.Line] = []
    for step in range(2):
        begin, number = 1000 * step, {"correlation_id": step}
        lines += [
            marker(step, begin, 1000),
            ("main", "cuLaunchKernel", begin, 0, number),
            ("main", "cuLaunchKernel", begin, 0, {"correlation_id": 10 + step}),
            ("main", "IteratorGetNext", begin, 400),
            ("gpu:0/7(Compute)", "sgemm", begin, 400, number),
            (
                "gpu:1/7(Compute)",
                "sgemm",
                begin + 400,
                100,
                {"correlation_id": 10 + step},
            ),
        ]
    result = of_lines(*lines, devices={0: blueprint.A100, 1: blueprint.A100})
    step = result.steps[0]
    assert step.input_percent_avg == pytest.approx(20.0)
    assert (step.input_percent_min, step.input_percent_max) == (0.0, 40.0)
    assert step.consumer_wait_ms == pytest.approx(0.4)
    columns = ("device", "steps", "input_percent", "input_wait_percent")
    assert result.devices.select(columns).rows() == [
        (0, 1, 0.0, 0.0),
        (1, 1, 40.0, 40.0),
    ]
    waiting = result.consumer_wait
    assert waiting is not None
    assert (waiting.total_ms, waiting.exposed_ms, waiting.hidden_ms) == (0.4, 0.2, 0.2)
    assert result.verdict == "highly_input_bound"


# What cannot be known.


def test_without_any_trace_of_fetching_unexplained_time_leaves_it_open() -> None:
    lines: list[blueprint.Line] = []
    for step in range(3):
        begin = 1000 * step
        lines += [
            marker(step, begin, 900),
            ("main", "a/MatMul:MatMul", begin + 10, 500),
        ]
    result = of_lines(*lines)
    assert result.verdict == "unknown"
    assert result.input_percent is None
    assert result.input_at_most_percent == pytest.approx(50.0)
    codes = missing_of(result)
    assert codes["verdict"] == codes["input_percent"] == "NO_TFDATA_EVENTS"
    assert codes["steps.input_ms"] == codes["consumer_wait"] == "NO_TFDATA_EVENTS"
    assert set(result.host_breakdown_us.values()) == {None}
    assert codes["host_breakdown_us"] == codes["input_ops"] == "NO_TFDATA_EVENTS"


def test_without_any_trace_of_fetching_explained_steps_are_not_input_bound() -> None:
    lines: list[blueprint.Line] = []
    for step in range(3):
        begin = 1000 * step
        lines += [
            marker(step, begin, 1000),
            ("main", "a/MatMul:MatMul", begin, 980),
        ]
    result = of_lines(*lines)
    assert result.verdict == "not_input_bound"
    assert result.input_percent is None
    assert result.input_at_most_percent == pytest.approx(2.0)
    assert "at most 2.0 %" in result.text


@pytest.mark.parametrize(
    ("percent", "most", "verdict"),
    [
        (0.0, 0.0, "not_input_bound"),
        (4.99, 4.99, "not_input_bound"),
        (5.0, 5.0, "moderately_input_bound"),
        (19.99, 60.0, "moderately_input_bound"),
        (20.0, 20.0, "highly_input_bound"),
        (0.0, 5.0, "unknown"),
        (None, 4.0, "not_input_bound"),
        (None, 5.0, "unknown"),
        (None, None, "unknown"),
    ],
)
def test_what_was_seen_suffices_to_blame_and_all_that_may_be_to_clear(
    percent: float | None, most: float | None, verdict: str
) -> None:
    assert verdict_of(percent, at_most_percent=most) == verdict


# Many hosts.


def lock_step(host: str, wait: float) -> TraceData:
    lines: list[blueprint.Line] = []
    for step in range(3):
        begin = 1000 * step
        lines += [
            marker(step, begin, 900),
            ("main", "IteratorGetNext", begin, wait),
            ("main", "a/MatMul:MatMul", begin + 500, 300),
            ("worker", "Iterator::Shuffle", begin, wait / 2),
        ]
    return blueprint.trace(lines, host=host)


def test_hosts_in_lock_step_add_up_and_a_pick_shows_its_own_numbers() -> None:
    traces = lock_step("a", 100), lock_step("b", 300)
    both = analysed(blueprint.profile(*traces))
    assert both.input_percent == pytest.approx(20.0)
    assert [one.input_percent for one in both.by_host] == [10.0, 30.0]
    assert [one.verdict for one in both.by_host] == [
        "moderately_input_bound",
        "highly_input_bound",
    ]
    assert both.input_ops.select("host", "count", "self_time_us").rows() == [
        ("b", 3, 450.0),
        ("a", 3, 150.0),
    ]
    assert both.host_breakdown_us["preprocessing"] == 600.0
    assert len(both.steps) == 6
    picked = analysed(blueprint.profile(*traces), host="b")
    alone = analysed(blueprint.profile(traces[1]))
    assert plain(picked) == plain(alone)


def test_unrelated_hosts_are_judged_alone() -> None:
    other = blueprint.trace(
        [
            line
            for step in range(3)
            for line in (
                marker(700 + step, 1000 * step, 900),
                ("main", "IteratorGetNext", 1000 * step, 300),
            )
        ],
        host="b",
    )
    result = analysed(blueprint.profile(lock_step("a", 10), other))
    assert result.input_percent is None
    assert missing_of(result)["input_percent"] == "NO_SAMPLES"
    assert result.verdict == "highly_input_bound"
    assert "each is judged alone" in result.text
    assert [one.input_percent for one in result.by_host] == pytest.approx([1.0, 30.0])


# TensorFlow's own results.


def golden(path: Path, name: str) -> Any:
    text = (path / f"golden_{name}.json").read_text(encoding="utf-8")
    return json.loads(text)


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


def test_potentially_input_bound_is_explained(
    shared_profile: Callable[[str], Path],
) -> None:
    path = shared_profile("gpu_tf/turing_launch_bound")
    result = analysed(ss.open(path), compat="tensorflow")
    assert result.verdict == "not_input_bound"
    assert "POTENTIALLY" in result.text
    assert "15.7 %" in result.text


@pytest.mark.parametrize(
    ("name", "percent", "verdict"),
    [("t4_healthy", 15.6, "moderately"), ("t4_starved", 63.0, "highly")],
)
def test_ours_counts_the_transfers_that_theirs_calls_compute(
    name: str, percent: float, verdict: str, shared_profile: Callable[[str], Path]
) -> None:
    profile = ss.open(shared_profile(f"gpu_tf/{name}"))
    ours, theirs = analysed(profile), analysed(profile, compat="tensorflow")
    assert ours.input_percent == pytest.approx(percent, abs=0.05)
    assert ours.input_wait_percent == pytest.approx(theirs.input_percent, abs=1e-9)
    assert ours.input_transfer_percent == pytest.approx(
        ours.input_percent - theirs.input_percent, abs=1e-9
    )
    assert ours.verdict == f"{verdict}_input_bound"
    assert ours.host_breakdown_us["enqueue"] > 0


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
    assert verdict_of(percent) == words[classification]
    assert f"{percent:.1f}%" in bottleneck["input_statement"]


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
    tables = json.loads(
        (path / "peer_input_pipeline_analyzer.json").read_text(encoding="utf-8")
    )
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


# Real profiles.


@pytest.mark.parametrize(
    ("item", "verdict", "category", "bottleneck"),
    [
        ("input_bound", "highly", "preprocessing", "ParallelMapV2"),
        ("sequential_map", "highly", "preprocessing", "Map"),
        ("healthy", "not", "preprocessing", None),
        ("keras_fit", "not", "preprocessing", None),
        ("xla", "not", "preprocessing", None),
        ("mirrored", "moderately", "preprocessing", None),
        ("tf215_python_tracer", "moderately", "preprocessing", None),
    ],
)
def test_verdicts_on_real_programs(
    item: str,
    verdict: str,
    category: str,
    bottleneck: str | None,
    shared_profile: Callable[[str], Path],
) -> None:
    result = analysed(ss.open(shared_profile(f"tf_cpu/{item}")))
    assert result.verdict == f"{verdict}_input_bound"
    assert result.largest_category == category
    if bottleneck is not None:
        assert result.bottleneck_iterator is not None
        assert result.bottleneck_iterator.rsplit("::", 1)[-1] == bottleneck


def test_reading_behind_a_sequential_map_is_on_demand(
    shared_profile: Callable[[str], Path],
) -> None:
    ahead = analysed(ss.open(shared_profile("tf_cpu/input_bound")))
    behind = analysed(ss.open(shared_profile("tf_cpu/sequential_map")))
    assert ahead.host_breakdown_us["demanded_file_read"] == 0.0
    assert ahead.host_breakdown_us["advanced_file_read"] > 0.0
    assert behind.host_breakdown_us["demanded_file_read"] > 0.0
    assert behind.host_breakdown_us["advanced_file_read"] == 0.0


def test_two_independent_workers_keep_their_own_verdicts(
    shared_profile: Callable[[str], Path],
) -> None:
    result = analysed(ss.open(shared_profile("tf_cpu/two_workers")))
    assert [one.verdict for one in result.by_host] == [
        "highly_input_bound",
        "moderately_input_bound",
    ]
    assert result.input_percent is None
    for one in result.by_host:
        alone = analysed(ss.open(shared_profile("tf_cpu/two_workers")), host=one.host)
        assert alone.input_percent == one.input_percent
        assert alone.verdict == one.verdict


def loader_trace(path: Path) -> ProfileData:
    trace = kineto.read(kineto.hosts_of(sorted(path.glob("*.json.gz"))[:1])[0])
    return ProfileData(path.name, {trace.host: trace})


@pytest.mark.parametrize(
    ("item", "verdict", "loader_us"),
    [
        ("resnet50_num_workers_0", "highly_input_bound", 415_791.0),
        ("resnet50_num_workers_4", "not_input_bound", 8_522.0),
    ],
)
def test_a_loop_over_a_loader_and_its_remedy(
    item: str, verdict: str, loader_us: float, shared_profile: Callable[[str], Path]
) -> None:
    result = analysed(loader_trace(shared_profile(f"kineto/{item}")))
    assert result.verdict == verdict
    assert result.host_breakdown_us["preprocessing"] == pytest.approx(loader_us)
    assert result.host_breakdown_us["enqueue"] > 0.0


@pytest.mark.parametrize(
    "item", ["jax_cpu/steps", "tf_cpu/no_step_markers", "gpu_jax_amd/jax08_conv"]
)
def test_programs_that_show_no_fetching_are_not_declared_healthy(
    item: str, shared_profile: Callable[[str], Path]
) -> None:
    path = shared_profile(item)
    result = analysed(ss.open(next(path.rglob("*.xplane.pb"))))
    assert result.verdict == "unknown"
    assert result.input_percent is None


# Each input taken away.


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


@pytest.mark.parametrize("table", sorted(TABLES))
@pytest.mark.parametrize("name", ["a1", "a2", "a6"])
def test_blueprint_without_a_table(name: str, table: str) -> None:
    profile = blueprint.profile(getattr(blueprint, name)())
    whole = analysed(profile)
    without = profile.without(table, WHY)
    check(whole, analyzer.analyse(without, analyzer.Options()))


@pytest.mark.parametrize("table", sorted(TABLES))
@pytest.mark.parametrize("item", ["gpu_tf/t4_starved", "tf_cpu/sequential_map"])
def test_real_profile_without_a_table(
    item: str, table: str, shared_profile: Callable[[str], Path]
) -> None:
    profile = ss.open(shared_profile(item))
    whole = analysed(profile)
    without = profile.without(table, WHY)
    check(whole, analyzer.analyse(without, analyzer.Options()))


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
    result = analyzer.analyse(
        ss.open(shared_profile(item)), analyzer.Options(compat=compat)
    )
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


def test_the_contract_fields_are_in_the_json() -> None:
    data = plain(analysed(blueprint.profile(blueprint.a2())))
    assert isinstance(data, dict)
    assert {
        *("verdict", "input_percent", "input_wait_percent", "input_transfer_percent"),
        *("step_time_ms", "host_breakdown_us", "input_ops"),
    } <= data.keys()
    assert list(data["input_ops"][0])[:7] == [
        *("name", "count", "total_time_us", "total_time_percent"),
        *("self_time_us", "self_time_percent", "category"),
    ]
