"""The compatibility view equals what TensorFlow itself wrote at capture time."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.traces import blueprint

import stepscope as ss
from stepscope.analysis.compat_tensorflow.steps import CompatStep, compat_steps
from stepscope.analysis.overview_page import OverviewPageResult
from stepscope.analysis.tools import ProfileWithTools
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

GOLDENS = (
    "gpu_tf/t4_healthy",
    "gpu_tf/t4_starved",
    "gpu_tf/v100_large",
    "gpu_tf/turing_launch_bound",
)
US = 1_000_000
#: Golden field → categories whose sum it is.
FIELDS = {
    "device_compute_ms": ("device_compute_16", "device_compute_32"),
    "device_to_device_ms": ("device_to_device", "device_collectives"),
    "output_ms": ("output",),
    "host_compute_ms": ("host_compute",),
    "host_prepare_ms": ("kernel_launch",),
    "host_compile_ms": ("compilation",),
    "unknown_time_ms": ("other",),
}


def golden(path: Path, name: str) -> Any:
    text = (path / f"golden_{name}.json").read_text(encoding="utf-8")
    return json.loads(text)


@pytest.mark.parametrize("name", GOLDENS)
def test_step_time_and_categories_equal_the_golden_to_the_nanosecond(
    name: str, shared_profile: Callable[[str], Path]
) -> None:
    path = shared_profile(name)
    found = ss.open(path).tool("overview_page", compat="tensorflow")
    assert isinstance(found, OverviewPageResult)
    details = golden(path, "input_pipeline")["step_details"]
    assert len(found.steps) == len(details)
    for step, written in zip(found.steps, details, strict=True):
        nanosecond = 1e-6
        assert abs(step.duration_ms - written["step_time_ms"]) < nanosecond
        for field, categories in FIELDS.items():
            ours = sum(step.breakdown_ms[category] for category in categories)
            assert abs(ours - written.get(field, 0.0)) < nanosecond, field
        theirs = written.get("host_wait_input_ms", 0.0)
        theirs += written.get("host_to_device_ms", 0.0)
        assert abs(step.breakdown_ms["input"] - theirs) < nanosecond


@pytest.mark.parametrize("name", GOLDENS)
def test_shares_and_verdict_equal_the_golden(
    name: str, shared_profile: Callable[[str], Path]
) -> None:
    path = shared_profile(name)
    found = ss.open(path).tool("overview_page", compat="tensorflow")
    written = golden(path, "overview_page")
    share = written["input_analysis"]["input_percent"]
    assert found.input_percent == pytest.approx(share, abs=1e-9)
    classes = written["input_analysis"]["recommendation"]["bottleneck_analysis"]
    # TensorFlow calls a step input-bound for unexplained time alone; we do not.
    if share >= 5 or classes["input_classification"] == "device":
        assert found.bottleneck == classes["input_classification"]
    analysis = written["analysis"]
    assert found.op_placement is not None
    assert found.eager is not None
    for ours, theirs in (
        (found.op_placement.host_op_percent, "host_tf_op_percent"),
        (found.op_placement.device_op_percent, "device_tf_op_percent"),
        (found.eager.host_percent, "host_op_time_eager_percent"),
        (found.eager.device_percent, "device_op_time_eager_percent"),
    ):
        assert ours == pytest.approx(analysis[theirs], rel=1e-6)
    assert found.precision is not None
    assert found.precision.compute_16bit_percent == pytest.approx(
        analysis["device_compute_16bit_percent"]
    )


@pytest.mark.parametrize("name", GOLDENS)
def test_the_longest_device_ops_equal_the_golden(
    name: str, shared_profile: Callable[[str], Path]
) -> None:
    path = shared_profile(name)
    found = ss.open(path).tool("overview_page", compat="tensorflow")
    written = golden(path, "overview_page")["analysis"]["top_device_ops"]
    assert found.top_ops is not None
    shares = {op.name: op.self_time_percent / 100 for op in found.top_ops}
    assert shares == pytest.approx(
        {op["name"]: op["self_time_fraction"] for op in written}, rel=1e-9
    )


@pytest.mark.parametrize("name", GOLDENS)
def test_ours_and_theirs_agree_on_the_step_and_differ_on_copies(
    name: str, shared_profile: Callable[[str], Path]
) -> None:
    profile = ss.open(shared_profile(name))
    ours, theirs = (
        profile.tool("overview_page", compat=compat) for compat in ("", "tensorflow")
    )
    # Their step holds what a callback does after the last copy; ours ends there.
    (step_ms, stored_ms) = (it.device_step_time_ms.mean for it in (ours, theirs))
    assert 0.9 * stored_ms < step_ms < stored_ms
    assert theirs.breakdown_ms["output"] == 0
    copies = sum(
        ours.breakdown_detail_ms[kind]
        for kind in ("copy_in", "copy_out", "copy_within")
    )
    assert copies > 0
    # Copies of no step group are in our window and in nobody's step there.
    compute = theirs.breakdown_ms["device_compute_32"]
    assert ours.breakdown_ms["device_compute_32"] < compute
    assert compute <= ours.steps[0].device_busy_ms + stored_ms - step_ms


def steps_of(*lines: tuple[Any, ...]) -> tuple[CompatStep, ...]:
    trace = blueprint.trace(list(lines))
    found = compat_steps(blueprint.profile(trace), ["vm"])
    assert isinstance(found, tuple), found
    return found


def grouped(track: str, name: str, start: float, dur: float, **more: Any) -> Any:
    return (track, name, start, dur, {"group_id": 0, **more})


def test_the_larger_class_wins_and_what_is_left_is_unknown() -> None:
    (step,) = steps_of(
        grouped("main", "train", 0, 200, step_name="0"),
        grouped("gpu:0/Steps", "0", 10, 100),
        grouped("gpu:0/7(Compute)", "sgemm", 10, 20, correlation_id=1),
        grouped("gpu:0/7(Compute)", "gemm_fp16", 30, 10, correlation_id=2),
        grouped("gpu:0/8(x)", "MemcpyH2D", 40, 10, correlation_id=3),
        grouped("gpu:0/8(x)", "MEMCPYHtoD", 50, 10, correlation_id=4),
        grouped("gpu:0/9(x)", "ncclAllReduce", 60, 10, correlation_id=5),
        grouped("pool", "IteratorGetNext", 55, 20),
        grouped("pool", "cuLaunchKernel", 72, 8, correlation_id=1),
        grouped("pool", "a/Op:Op", 78, 12),
        grouped("pool", "EagerExecute", 90, 10),
    )
    assert step.duration_ps == 200 * US
    assert {name: ps // US for name, ps in step.category_ps.items() if ps} == {
        "device_compute_32": 30,
        "device_compute_16": 10,
        "input": 20 + 5,
        "kernel_launch": 5,
        "host_compute": 10,
        "other": 120,
    }


def test_without_a_marker_around_it_the_devices_step_is_the_step() -> None:
    (step,) = steps_of(
        grouped("gpu:0/Steps", "0", 10, 100),
        grouped("gpu:0/7(Compute)", "sgemm", 10, 40, correlation_id=1),
        grouped("main", "a/Op:Op", 0, 60),
    )
    assert (step.start_ps, step.duration_ps) == (10 * US, 100 * US)
    assert step.category_ps["host_compute"] == 10 * US
    assert step.category_ps["other"] == 50 * US


def test_without_stored_groups_there_is_nothing_to_compare() -> None:
    trace = blueprint.a1()
    profile = ProfileWithTools("run", {"vm": trace})
    found = profile.tool("overview_page", compat="tensorflow")
    assert isinstance(found, Unavailable)
    assert found.code == "NO_STEPS"
    assert "group" in found.reason


def test_on_a_host_alone_the_marked_call_is_the_step_and_its_ops_are_compute() -> None:
    """TensorFlow measured a step of Keras on a CPU, and compat had no answer."""
    (step,) = steps_of(
        ("main", "EagerKernelExecute", 0, 100, {"group_id": 0, "step_name": "0"}),
        grouped("main", "FunctionRun", 2, 5),
        grouped("pool", "IteratorGetNext:IteratorGetNext", 10, 20),
        grouped("pool", "ExecutorState::Process", 40, 10),
        grouped("pool", "a/MatMul:MatMul", 50, 30),
    )
    assert (step.start_ps, step.duration_ps) == (0, 100 * US)
    used = {name: spent // US for name, spent in step.category_ps.items() if spent}
    assert used == {"input": 20, "host_compute": 40, "other": 40}
