"""Which frameworks a program uses."""

from __future__ import annotations

import runpy
from typing import TYPE_CHECKING

import pytest
from tests.support.traces import blueprint

import stepscope as ss
from stepscope.derive.frameworks import frameworks_used

if TYPE_CHECKING:
    from pathlib import Path

    from stepscope.trace.model import TraceData


def used(trace: TraceData) -> tuple[str, ...]:
    return blueprint.profile(trace).of_run(frameworks_used)


def test_ops_tell_the_framework() -> None:
    lines: list[blueprint.Line] = [("main", "a/MatMul:MatMul", 0, 5)]
    assert used(blueprint.trace(lines)) == ("TensorFlow",)


@pytest.mark.parametrize(
    ("kernel", "framework"),
    [
        ("void at::native::reduce_kernel<512>(int)", ("PyTorch",)),
        ("void tensorflow::functor::ApplyAdamKernel<float>(int)", ("TensorFlow",)),
        ("volta_sgemm_128x64_nt", ()),
    ],
)
def test_kernels_without_ops_tell_the_framework(
    kernel: str, framework: tuple[str, ...]
) -> None:
    lines: list[blueprint.Line] = [("gpu:0/7(Compute)", kernel, 0, 5)]
    assert used(blueprint.trace(lines)) == framework


def test_what_pytorchs_profiler_did_tells_the_framework() -> None:
    """A recording without any op was told how to mark the steps of TensorFlow."""
    lines: list[blueprint.Line] = [("spans", "PyTorch Profiler (0)", 0, 5)]
    assert used(blueprint.trace(lines)) == ("PyTorch",)


def test_a_profile_without_ops_that_another_profiler_made_tells_nothing() -> None:
    lines: list[blueprint.Line] = [("main", "work", 0, 5)]
    assert used(blueprint.trace(lines)) == ()


@pytest.mark.parametrize("level", [0, 1])
def test_what_stepscope_recorded_without_a_framework_is_plain_python(
    tmp_path: Path, level: int
) -> None:
    """The tests' own process imports no framework; its functions are none's ops."""
    options = ss.ProfilerOptions(python_tracer_level=level)
    with ss.Profile(tmp_path, options), ss.Trace("work"):
        sum(range(1000))
    assert ss.open(tmp_path).of_run(frameworks_used) == ("Python",)


@pytest.mark.parametrize(
    ("text", "framework"),
    [
        ("def forward(turns):\n    return sum(range(turns))\n", "PyTorch"),
        # What is imported and never called is not used.
        ("for turn in range(600):\n    sum(range(10_000))\n", "Python"),
    ],
)
def test_functions_tell_a_framework_that_was_not_recorded(
    text: str,
    framework: str,
    tmp_path: Path,
) -> None:
    """As in a short program: its functions were sampled, and no profiler began."""
    package = tmp_path / "lib" / "site-packages" / "torch"
    package.mkdir(parents=True)
    (package / "made_up.py").write_text(text)
    options = ss.ProfilerOptions(collectors=("host", "python_samples"))
    with ss.Profile(tmp_path, options), ss.Trace("work"):
        made_up = runpy.run_path(str(package / "made_up.py"))
        for _ in range(600):
            made_up.get("forward", abs)(10_000)
    assert ss.open(tmp_path).of_run(frameworks_used) == (framework,)
