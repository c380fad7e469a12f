"""The overview: acceptance vectors, real profiles, and what it must not claim."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec
import polars as pl
import pytest
from tests.support.traces import blueprint

import stepscope as ss
from stepscope.analysis.overview_page import OverviewPageResult
from stepscope.analysis.tools import ProfileWithTools
from stepscope.trace.tables import PARAMETERS, TABLES
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from stepscope.trace.model import TraceData

DELETED = Unavailable(code="NOT_RECORDED", reason="It was deleted.", remedy="Keep it.")


def run(*traces: TraceData) -> ProfileWithTools:
    return ProfileWithTools("run", {trace.host: trace for trace in traces})


def page(*traces: TraceData, **options: Any) -> OverviewPageResult:
    found = run(*traces).tool("overview_page", **options)
    assert isinstance(found, OverviewPageResult), found
    return found


def real(path: Path, **options: Any) -> OverviewPageResult:
    found = ss.open(path).tool("overview_page", **options)
    assert isinstance(found, OverviewPageResult), found
    return found


def shown(times: dict[str, float]) -> dict[str, float]:
    """Categories that hold time, rounded to a picosecond."""
    return {name: round(time, 9) for name, time in times.items() if time}


def codes_of(found: OverviewPageResult) -> dict[str, str]:
    return {one.field: one.code for one in found.missing}


def test_a1() -> None:
    found = page(blueprint.a1())
    assert [step.name for step in found.steps] == [f"train {100 + i}" for i in range(8)]
    assert [step.duration_ms for step in found.steps] == [1.0] * 7 + [0.9]
    assert found.steps[-1].flags == ("open_end",)
    assert found.step_count == 7
    assert (found.step_time_ms.mean, found.step_time_ms.std) == (1.0, 0.0)
    assert found.device_step_time_ms is not None
    assert found.device_step_time_ms.mean == 0.4
    # The host's calls, and those of the next step, are less than a millisecond apart:
    # where the queue is empty it is on its way to one, 505 µs a step and 405 in the
    # first of seven, whose first 100 µs nobody explains. 135 µs were queued, 20 are
    # switching.
    launching, rest = (405 + 6 * 505) / 7, (7 * 155 + 100) / 7
    assert shown(found.breakdown_ms) == {
        "input": 0.07,
        "output": 0.01,
        "kernel_launch": round(launching / 1e3, 9),
        "device_collectives": 0.06,
        "device_compute_16": 0.1,
        "device_compute_32": 0.1,
        "other": round(rest / 1e3, 9),
    }
    assert found.breakdown_percent["other"] == pytest.approx(rest / 10)
    assert found.kernel_launch_percent == pytest.approx(launching / 10)
    assert "kernel_launch_percent" not in codes_of(found)
    assert found.device_execution_percent == pytest.approx(34.0)
    assert found.step_detection.source == "marker"
    assert found.step_detection.confidence == 1.0
    assert found.step_detection.anchor == "host"
    # 7 % of the step is input, but 70 µs a step are too short for a finding.
    assert found.bottleneck == "device"
    assert found.is_training is False


def test_steps_of_several_batches_are_divided_by_them() -> None:
    """Three closed windows of 100 µs hold 5, 5 and 3 batches; the open one is left."""
    counts = {1: 5, 6: 5, 11: 3, 14: 5}
    lines = [
        ("main", "train", 100 * k, 90, {"step_num": n, "_r": 1, "n_steps": count})
        for k, (n, count) in enumerate(counts.items())
    ]
    found = page(blueprint.trace(lines))
    assert [step.batches for step in found.steps] == [5, 5, 3, 5]
    assert found.step_time_ms.mean == pytest.approx(0.1)
    assert found.batch_time_ms == pytest.approx(0.3 / 13)


def test_a_host_that_runs_ahead_has_two_periods() -> None:
    """It asks for a step every 100 µs, and the device works 1,000 µs on each."""
    lines: list[tuple[Any, ...]] = []
    for k in range(5):
        stats = {"correlation_id": k + 1}
        lines += [
            ("main", "train", 100 * k, 90, {"step_num": k, "_r": 1}),
            ("main", "cuLaunchKernel", 100 * k + 10, 5, stats),
            ("gpu:0/7(Compute)", "gemm", 50 + 1000 * k, 900, stats),
        ]
    found = page(blueprint.trace(lines))
    assert found.step_detection.anchor == "device"
    assert found.host_period_ms is not None
    assert found.host_period_ms.mean == pytest.approx(0.1)
    assert found.step_time_ms.mean == pytest.approx(1.0)


def test_a_step_with_a_validation_inside_is_in_no_mean_and_is_counted() -> None:
    lines: list[tuple[Any, ...]] = []
    at = 0
    for k in range(8):
        names = ["a:MatMul", "b:Apply", *["c:Conv2D"] * 9 * (k == 3)]
        lines.append(("main", "train", at, 10 * len(names), {"step_num": k, "_r": 1}))
        lines += [("main", name, at + 10 * j, 9) for j, name in enumerate(names)]
        at += 10 * len(names)
    found = page(blueprint.trace(lines))
    assert found.left_out == {"other_kind": 1}
    assert found.step_count == 7
    assert found.step_time_ms.mean == pytest.approx(0.02)
    assert found.host_period_ms is not None
    assert found.host_period_ms.mean == found.step_time_ms.mean
    assert len(found.steps) == 8


def test_a_step_that_states_no_batches_leaves_the_time_of_one_unknown() -> None:
    marks = [{"step_num": 3 * k, "_r": 1} for k in range(3)]
    lines = [("main", "train", 100 * k, 10, stats) for k, stats in enumerate(marks)]
    found = page(blueprint.trace(lines))
    assert found.batch_time_ms is None
    assert codes_of(found)["batch_time_ms"] == "NO_STEPS"
    assert codes_of(found)["steps.batches"] == "NO_STEPS"


def test_a1_precision_ops_and_environment() -> None:
    found = page(blueprint.a1())
    assert found.precision is not None
    assert found.precision.compute_16bit_percent == 50.0
    assert (
        found.precision.kernels_16bit_count,
        found.precision.kernels_total_count,
    ) == (8, 16)
    assert found.top_ops is not None
    assert [
        (
            op.name,
            round(op.self_time_percent, 2),
            round(op.cumulative_percent, 2),
            op.tensor_core_used,
        )
        for op in found.top_ops
    ] == [
        ("model/dense/MatMul", 38.46, 38.46, True),
        ("model/dense_1/MatMul", 38.46, 76.92, False),
        ("allreduce", 23.08, 100.0, False),
    ]
    environment = found.environment
    assert (environment.hosts, environment.device_count) == (1, 1)
    assert environment.device_type == "Nvidia GPU (Ampere)"
    assert found.collectives is not None
    only = found.collectives[0]
    assert (only.kind, only.count, only.count_per_step) == ("all-reduce", 8, 1.0)
    assert only.mean_us == 60.0


def test_a2_without_a_device_shows_the_host_and_leaves_the_device_out() -> None:
    found = page(blueprint.a2())
    assert found.breakdown_ms == {
        "compilation": 0.0,
        "input": 0.2,
        # Three ops, and 40 µs of a range of the program's own.
        "host_compute": 0.34,
        "other": 0.46,
    }
    codes = codes_of(found)
    for name in ("output", "kernel_launch", "device_compute_32", "device_collectives"):
        assert codes[f"breakdown_ms.{name}"] == "NO_DEVICE_PLANE"
    assert codes["kernel_launch_percent"] == "NO_DEVICE_PLANE"
    assert found.device_step_time_ms is None
    assert codes["device_step_time_ms"] == "NO_DEVICE_PLANE"
    assert found.precision is None
    assert codes["precision"] == "NO_DEVICE_PLANE"
    # 20 % of the time, but two closed steps are too few for a critical finding.
    assert found.bottleneck == "both"
    assert (found.environment.device_type, found.environment.device_count) == ("CPU", 0)
    assert found.top_ops is not None
    assert [op.name for op in found.top_ops] == [
        "Outer",
        "a/MatMul",
        "Outer/inner",
        "a/Relu",
    ]
    assert {op.host_or_device for op in found.top_ops} == {"Host"}


def test_a5_two_hosts_are_averaged_over_all_rows() -> None:
    found = page(blueprint.a1(host="a"), blueprint.a5_host_b())
    compute = {
        step.host: step.breakdown_ms["device_compute_32"]
        for step in found.steps
        if step.step == 100
    }
    assert compute == pytest.approx({"a": 0.1, "b": 0.11})
    assert found.breakdown_ms["device_compute_32"] == pytest.approx(0.105)
    # Host a as in A1; the longer kernel of b leaves 10 µs less in each step.
    other = (7 * 155 + 100 + 7 * 145 + 100) / 14
    assert found.breakdown_ms["other"] == pytest.approx(other / 1e3)
    assert found.hosts_matched_by == "step_num"
    assert (found.environment.hosts, found.environment.device_count) == (2, 2)


def test_a7_an_idle_device_is_not_hidden_by_a_busy_one() -> None:
    found = page(blueprint.a7())
    assert found.breakdown_ms["device_compute_32"] == 0.4
    assert found.device_execution_percent == 40.0
    assert found.any_device is not None
    assert found.any_device.breakdown_ms["device_compute_32"] == 0.6
    (step,) = found.steps
    assert (step.device_busy_least_ms, step.device_busy_most_ms) == (0.2, 0.6)


def test_hosts_that_share_few_steps_are_not_averaged() -> None:
    def steps(first: int, host: str) -> TraceData:
        return blueprint.trace(
            [
                ("main", "train", 1000 * i, 900, {"_r": 1, "step_num": first + i})
                for i in range(10)
            ],
            host=host,
        )

    found = page(steps(0, "a"), steps(8, "b"))
    assert [note.kind for note in found.quality] == ["hosts_not_in_lock_step"]
    assert found.step_time_ms.mean is None
    assert found.breakdown_ms == {}
    assert codes_of(found)["breakdown_ms"] == "NO_SAMPLES"
    assert [host.summary.step_time_ms.mean for host in found.by_host] == [1.0, 1.0]
    assert len(found.steps) == 20


def test_hosts_whose_steps_drift_apart_are_not_averaged() -> None:
    def steps(period: int, host: str) -> TraceData:
        return blueprint.trace(
            [
                ("main", "train", period * i, 900, {"_r": 1, "step_num": i})
                for i in range(20)
            ],
            host=host,
        )

    found = page(steps(1000, "a"), steps(1300, "b"))
    assert [note.kind for note in found.quality] == ["hosts_not_in_lock_step"]
    constant_shift = page(steps(1000, "a"), steps(1000, "b"))
    assert constant_shift.quality == ()
    assert constant_shift.step_time_ms.mean == 1.0


def test_a_host_without_a_device_beside_one_with_devices_adds_no_steps() -> None:
    coordinator = blueprint.trace(
        [("main", "train", 0, 900, {"_r": 1, "step_num": 100})], host="chief"
    )
    found = page(coordinator, blueprint.a1())
    assert {step.host for step in found.steps} == {"vm"}
    assert codes_of(found)["by_host[chief]"] == "NO_DEVICE_PLANE"


def test_without_steps_the_page_is_about_the_recording_and_says_so() -> None:
    found = page(
        blueprint.trace(
            [
                ("main", "cuLaunchKernel", 0, 5, {"correlation_id": 1}),
                ("gpu:0/7(Compute)", "sgemm", 10, 30, {"correlation_id": 1}),
                ("main", "checkpoint", 60, 40),
            ]
        )
    )
    assert (found.window, found.steps, found.step_count) == ("profile", (), 0)
    assert found.step_detection.source is None
    assert found.step_time_ms.mean is None
    codes = codes_of(found)
    assert codes["step_detection.source"] == "NO_STEPS"
    assert codes["step_time_ms"] == "NO_STEPS"
    assert shown(found.breakdown_ms) == {
        "device_compute_32": 0.03,
        "kernel_launch": 0.01,
        # The checkpoint; the launch call that returned long ago says nothing of the
        # 20 µs before it.
        "output": 0.04,
        "other": 0.02,
    }


def test_steps_of_one_marker_can_be_looked_at_alone() -> None:
    lines = [
        ("main", "train" if i % 2 else "test", 100 * i, 90, {"_r": 1, "step_num": i})
        for i in range(6)
    ]
    found = page(blueprint.trace(lines), marker="test")
    assert [step.step for step in found.steps] == [0, 2, 4]
    nothing = run(blueprint.trace(lines)).tool("overview_page", marker="predict")
    assert isinstance(nothing, Unavailable)
    assert nothing.code == "NO_STEPS"


def test_steps_of_one_marker_are_matched_over_hosts() -> None:
    lines = [
        ("main", "train" if i % 3 else "test", 100 * i, 90, {"_r": 1, "step_num": i})
        for i in range(9)
    ]
    traces = [blueprint.trace(lines, host=name) for name in ("a", "b")]
    found = page(*traces, marker="train")
    assert found.hosts_matched_by == "step_num"
    assert found.step_time_ms.mean == 0.1


def test_flagged_steps_can_be_left_out_of_the_statistics() -> None:
    lines = [
        ("main", "train", 1000 * i, 900, {"_r": 1, "step_num": i}) for i in range(6)
    ]
    lines.append(("main", "XlaCompile", 100, 500))
    trace = blueprint.trace(lines)
    assert page(trace).step_count == 5
    assert page(trace, exclude_flags=["compile"]).step_count == 4


def test_expected_time_of_an_all_reduce_needs_parameters_and_bandwidth() -> None:
    without = page(blueprint.a1()).collectives
    assert without is not None
    assert without[0].expected_us is None
    given = page(blueprint.a1(), parameters=2**28, bandwidth_gib_per_s=1.0).collectives
    assert given is not None
    assert given[0].expected_us == pytest.approx(1_000_000.0)


def test_the_recording_tells_how_many_parameters_are_exchanged() -> None:
    """2^10 x 2^17 + 2^27 are trained, 4 bytes of each: 1 GiB at 1 GiB/s."""
    described = pl.DataFrame(
        {
            "name": ["a", "b", "frozen"],
            "scope": ["", "", ""],
            "shape": [[2**10, 2**17], [2**27], [7]],
            "dtype": ["float32"] * 3,
            "trainable": [True, None, False],
        },
        schema=PARAMETERS.dtypes(),
    )
    trace = blueprint.substitute(blueprint.a1(), parameters=described)
    found = page(trace, bandwidth_gib_per_s=1.0).collectives
    assert found is not None
    assert found[0].expected_us == pytest.approx(1_000_000.0)
    unknown = described.with_columns(shape=pl.lit(None, pl.List(pl.Int64)))
    trace = blueprint.substitute(blueprint.a1(), parameters=unknown)
    found = page(trace, bandwidth_gib_per_s=1.0).collectives
    assert found is not None
    assert found[0].expected_us is None


@cache
def whole_blueprint(name: str) -> tuple[TraceData, OverviewPageResult]:
    trace = getattr(blueprint, name)()
    return trace, page(trace)


@pytest.mark.parametrize("table", sorted(TABLES))
@pytest.mark.parametrize("name", ["a1", "a2", "a6"])
@pytest.mark.sweep(every=5)
def test_a_table_that_is_not_there_never_becomes_a_zero(table: str, name: str) -> None:
    """Whatever was more than 0 is still so, or gone with a reason."""
    trace, before = whole_blueprint(name)
    after = run(trace).without(table, DELETED).tool("overview_page")
    if isinstance(after, Unavailable):
        assert after.reason
        return
    fields = codes_of(after)
    for category, time in before.breakdown_ms.items():
        if category == "other" or not time:
            continue
        left = after.breakdown_ms.get(category)
        assert left or f"breakdown_ms.{category}" in fields
        assert left != 0
    for field in (
        "device_step_time_ms",
        "precision",
        "top_ops",
        "phases_ms",
        "op_placement",
        "eager",
        "collectives",
        "is_training",
        "device_execution_percent",
        "kernel_launch_percent",
        "input_percent",
        "any_device",
    ):
        if getattr(before, field) and not getattr(after, field):
            assert getattr(after, field) is None
            assert any(one == field or one.startswith(f"{field}.") for one in fields)


REAL = ("gpu_tf/t4_healthy", "tf_cpu/keras_fit/train", "jax_cpu/annotations")


@cache
def whole_profile(path: Path) -> tuple[ss.ProfileData, OverviewPageResult]:
    profile = ss.open(path)
    return profile, profile.tool("overview_page")


@pytest.mark.parametrize("table", sorted(TABLES))
@pytest.mark.parametrize("name", REAL)
@pytest.mark.sweep(every=5)
def test_a_table_deleted_from_a_real_profile_never_becomes_a_zero(
    table: str, name: str, shared_profile: Callable[[str], Path]
) -> None:
    profile, before = whole_profile(shared_profile(name))
    after = profile.without(table, DELETED).tool("overview_page")
    if isinstance(after, Unavailable):
        assert after.reason
        return
    fields = codes_of(after)
    for category, time in before.breakdown_ms.items():
        if category != "other" and time:
            assert after.breakdown_ms.get(category) or (
                category not in after.breakdown_ms
                and f"breakdown_ms.{category}" in fields
            )


def nulls(value: object, path: str) -> set[str]:
    """Dotted names of the nulls in plain JSON; members of a list share one name."""
    if value is None:
        return {path}
    inside: list[tuple[str, object]] = []
    if isinstance(value, dict):
        inside = [(f"{path}.{name}".lstrip("."), one) for name, one in value.items()]
    elif isinstance(value, list):
        inside = [(path, one) for one in value]
    return {name for where, one in inside for name in nulls(one, where)}


@pytest.mark.parametrize(
    "name",
    [
        "tf_cpu/keras_fit/train",
        "tf_cpu/two_workers",
        "gpu_jax_amd/jax08_gemm",
        "gpu_tf/t4_healthy",
        "tpu/tpu_inference_2",
        "corrupt/truncated_60",
    ],
)
@pytest.mark.parametrize("compat", ["", "tensorflow"])
def test_every_null_of_the_page_is_explained(
    name: str, compat: str, shared_profile: Callable[[str], Path]
) -> None:
    found = ss.open(shared_profile(name)).tool("overview_page", compat=compat)
    if isinstance(found, Unavailable):
        assert compat
        return
    data = msgspec.to_builtins(found)
    for beside in ("missing", "inputs", "quality"):
        del data[beside]
    fields = codes_of(found)
    for path in nulls(data, ""):
        parts = path.split(".")
        known = {".".join(parts[:count]) for count in range(1, len(parts) + 1)}
        assert known & fields.keys(), path


@pytest.mark.parametrize(
    ("name", "limit"),
    [
        ("tf_cpu/keras_fit/train", 5.0),
        ("tf_cpu/healthy", 5.0),
        ("tf_cpu/xla", 5.0),
        ("tf_cpu/mirrored", 5.0),
        ("jax_cpu/annotations", 5.0),
        ("jax_cpu/python_tracer", 10.0),
        ("gpu_tf/t4_healthy", 5.0),
        ("gpu_tf/v100_large", 5.0),
    ],
)
@pytest.mark.sweep(every=3)
def test_little_of_a_healthy_step_is_left_unexplained(
    name: str, limit: float, shared_profile: Callable[[str], Path]
) -> None:
    found = real(shared_profile(name))
    other = found.breakdown_percent["other"]
    mean = found.step_time_ms.mean
    assert other is not None
    assert mean
    # Without devices, waiting for other workers is explained and counts as other.
    peer = found.breakdown_detail_ms.get("peer") if found.any_device is None else None
    assert other - 100 * (peer or 0.0) / mean <= limit


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        # docs/tools/overview_page.md#how-it-differs-and-why; input is of the stored
        # step. Its last kernel, of 4.256 and 2.784 µs, is the callback's.
        (
            "gpu_tf/t4_healthy",
            {
                "compute_32": 132.755122,
                "compute_unknown": 132.874768 - 132.755122 - 0.004256,
                "copy_within": 0.012960,
                "copy_out": 0.001440,
                "copy_in": 25.022301,
            },
        ),
        (
            "gpu_tf/t4_starved",
            {
                "compute_32": 1251.007612,
                "compute_unknown": 1299.021149 - 1251.007612 - 0.002784,
                "copy_within": 0.013984,
                "copy_out": 0.260800,
                "copy_in": 28.163310,
            },
        ),
    ],
)
def test_a11_copies_are_input_not_compute(
    name: str, expected: dict[str, float], shared_profile: Callable[[str], Path]
) -> None:
    found = real(shared_profile(name))
    detail = found.breakdown_detail_ms
    assert {key: detail[key] for key in expected} == pytest.approx(expected, abs=1e-9)


@pytest.mark.profiles
def test_a11_input_share_and_idle_time(shared_profile: Callable[[str], Path]) -> None:
    healthy = real(shared_profile("gpu_tf/t4_healthy"))
    starved = real(shared_profile("gpu_tf/t4_starved"))
    assert healthy.input_percent == pytest.approx(15.6, abs=0.1)
    assert starved.input_percent == pytest.approx(63.0, abs=0.05)
    for found, idle in ((healthy, 6.168018), (starved, 2429.361159)):
        (step,) = found.steps
        assert step.device_busy_ms is not None
        assert step.duration_ms - step.device_busy_ms == pytest.approx(idle, abs=1e-9)
    # Each holds one step, which is at most a warning, whatever its share.
    assert (healthy.bottleneck, starved.bottleneck) == ("both", "both")


@pytest.mark.profiles
def test_two_unrelated_workers_are_shown_side_by_side(
    shared_profile: Callable[[str], Path],
) -> None:
    found = real(shared_profile("tf_cpu/two_workers"))
    assert found.step_time_ms.mean is None
    means = [host.summary.step_time_ms.mean for host in found.by_host]
    assert means == pytest.approx([10.251, 10.338], rel=0.01)


def test_keras_steps_are_found_and_the_program_is_training(
    shared_profile: Callable[[str], Path],
) -> None:
    found = real(shared_profile("tf_cpu/keras_fit/train"))
    assert [step.step for step in found.steps] == list(range(4, 14))
    assert found.is_training is True
    assert found.input_percent == pytest.approx(0.37, abs=0.01)
    assert found.bottleneck == "device"


@pytest.mark.parametrize(
    ("name", "bottleneck"),
    [
        ("tf_cpu/healthy", "device"),
        ("tf_cpu/input_bound", "host"),
        ("tf_cpu/sequential_map", "host"),
    ],
)
def test_the_verdict_on_input_is_the_truth_of_the_program(
    name: str, bottleneck: str, shared_profile: Callable[[str], Path]
) -> None:
    assert real(shared_profile(name)).bottleneck == bottleneck


@pytest.mark.profiles
def test_a_file_whose_names_are_lost_claims_nothing_about_the_host(
    shared_profile: Callable[[str], Path],
) -> None:
    found = real(shared_profile("corrupt/truncated_60"))
    assert set(found.breakdown_ms) == {"other"}
    assert codes_of(found)["breakdown_ms.compilation"] == "CORRUPT"
