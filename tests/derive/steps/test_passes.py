"""Equal passes of a model, with nothing before, between and after them, are steps."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.traces import blueprint

from stepscope.derive.step_windows.windows import Windows, windows
from stepscope.derive.steps.chosen import Steps, steps
from stepscope.unavailable import Unavailable

#: Outermost ops of a small network; none waits, copies or updates anything.
NETWORK = ("conv2d", "batch_norm", "relu", "max_pool2d", "flatten", "linear")


def inference(
    passes: int = 10, *, ops: tuple[str, ...] = NETWORK, warm: bool = False
) -> list[Any]:
    """Passes of ops of 10 µs. A cold first pass has more inside, and takes longer."""
    lines: list[Any] = []
    at = 0.0
    for k in range(passes):
        is_cold = not k and not warm
        dur = 20.0 if is_cold else 10.0
        for op in ops:
            lines.append(("main", f"aten::{op}", at, dur - 0.1))
            inner = (1, 2, 3, 4) if is_cold else (1, 2)
            lines += [("main", "aten::empty", at + offset, 1) for offset in inner]
            at += dur
    return lines


def steps_of(lines: list[Any]) -> Steps | Unavailable:
    return blueprint.profile(blueprint.trace(lines)).derived("vm", steps)


@pytest.mark.parametrize("passes", [3, 10])
def test_equal_passes_of_inference_are_steps(passes: int) -> None:
    profile = blueprint.profile(blueprint.trace(inference(passes)))
    found = profile.derived("vm", steps)
    assert isinstance(found, Steps), found
    assert (found.source, len(found.rows)) == ("period", passes)
    assert 0.8 <= found.confidence <= 0.9
    begins = [0.0, *(60.0 + 60 * k for k in range(1, passes))]
    assert [at / 1e6 for at in found.rows["start_ps"].to_list()] == begins
    judged = profile.derived("vm", windows)
    assert isinstance(judged, Windows)
    assert len(judged.measured) == passes


@pytest.mark.parametrize(
    "around",
    [
        # An embedding before the layers or a head after them is in no layer.
        ("main", "aten::embedding", -20, 10),
        ("main", "aten::log_softmax", 700, 10),
        # One range holds several: they may be the layers of what it runs.
        ("main", "model_inference", -1, 800),
        ("main", "nn.Module: Encoder_0", -1, 800),
    ],
)
def test_what_lies_around_equal_passes_makes_layers_of_them(around: Any) -> None:
    lines = [(t, n, at + 30, dur) for t, n, at, dur in (*inference(), around)]
    found = steps_of(lines)
    assert isinstance(found, Unavailable)
    assert found.code == "NO_STEPS"


def test_few_kinds_of_ops_may_be_one_layer() -> None:
    assert isinstance(steps_of(inference(ops=NETWORK[:4])), Unavailable)
    assert isinstance(steps_of(inference(ops=NETWORK[:5])), Steps)


def test_what_stays_doubtful_is_told_as_passes() -> None:
    found = steps_of(inference(ops=NETWORK[:4], warm=True))
    assert isinstance(found, Unavailable)
    assert "10 equal passes of 40.0 µs" in found.reason


def test_passes_begin_with_the_first_op_also_where_each_waits() -> None:
    """The longest op comes before the wait: the steps do not begin in the middle."""
    lines: list[Any] = []
    for k in range(10):
        lines += [
            ("main", "aten::randn", 100.0 * k, 80),
            ("main", "aten::to", 100.0 * k + 85, 10),
            ("main", "cudaStreamSynchronize", 100.0 * k + 90, 4),
            ("main", "aten::square", 100.0 * k + 96, 1),
        ]
    found = steps_of(lines)
    assert isinstance(found, Steps)
    assert found.rows["start_ps"].to_list() == [100_000_000 * k for k in range(10)]


def test_launches_of_jax_on_the_cpu_before_0_7_are_launches() -> None:
    lines: list[Any] = []
    for k in range(8):
        lines.append(("main", "TfrtCpuExecutable::Execute", 100.0 * k, 20))
        lines += [
            ("executor", op, 100.0 * k + 25 + 10 * j, 9, {"hlo_op": op})
            for j, op in enumerate(("dot.1", "fusion.2", "dot.3", "tanh.4"))
        ]
    found = steps_of(lines)
    assert isinstance(found, Steps), found
    assert (found.source, len(found.rows)) == ("launch", 8)
    assert found.candidates[0].what.startswith("launches of TfrtCpuExecutable::Execute")
