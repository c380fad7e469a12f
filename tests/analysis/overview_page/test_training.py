"""Whether a program trains: known from the names of its ops, else unknown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.traces import blueprint

from stepscope.analysis.overview_page import OverviewPageResult
from stepscope.analysis.tools import ProfileWithTools

if TYPE_CHECKING:
    from collections.abc import Sequence


def page(events: Sequence[Any]) -> OverviewPageResult:
    trace = blueprint.trace(events)
    overview = ProfileWithTools("run", {trace.host: trace}).tool("overview_page")
    assert isinstance(overview, OverviewPageResult), overview
    return overview


def test_kernels_without_op_names_show_neither_training_nor_inference() -> None:
    starts_us = range(0, 4000, 1000)
    steps = [
        ("main", "train", start, 900, {"_r": 1, "step_num": step})
        for step, start in enumerate(starts_us)
    ]
    launches = [
        ("main", "cuLaunchKernel", start + 10, 1, {"correlation_id": start + 1})
        for start in starts_us
    ]
    kernels = [
        ("gpu:0/7(Compute)", "kernel", start + 20, 50, {"correlation_id": start + 1})
        for start in starts_us
    ]
    found = page([*steps, *launches, *kernels])
    assert found.is_training is None
    assert "is_training" in {missing.field for missing in found.missing}
    named = [(*kernel[:4], {"tf_op": "gradients/Relu:ReluGrad"}) for kernel in kernels]
    assert page([*steps, *named]).is_training is True
    # Most of the work has no name: a gradient may be in it.
    first, *others = [(*kernel[:4], {"tf_op": "dense/Relu:Relu"}) for kernel in kernels]
    assert page([*steps, *launches, first, *kernels[1:]]).is_training is None
    assert page([*steps, first, *others]).is_training is False


@pytest.mark.parametrize(
    ("name", "trains"),
    [("dot.3", None), ("jit(f)/dot_general:", False), ("aten::mm", False)],
)
def test_instructions_without_a_scope_show_neither(
    name: str, *, trains: bool | None
) -> None:
    """A trace of a training was called inference: XLA's `dot.3` has no scope."""
    lines = [
        ("main", "train", step * 1000, 990, {"_r": 1, "step_num": step})
        for step in range(4)
    ]
    given = {"hlo_op": name} if name == "dot.3" else {}
    lines += [("pool", name, step * 1000, 900, given) for step in range(4)]
    assert page(lines).is_training is trains
