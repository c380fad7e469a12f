"""The PyTorch profile of the repository against the clock of its script."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import stepscope as ss
from stepscope.derive.account.time_by_cause import account
from stepscope.derive.ops.database import host_ops
from stepscope.derive.phases import phases

if TYPE_CHECKING:
    from pathlib import Path

    from stepscope.derive.profile_data import ProfileData

#: Milliseconds between what the script's clock and the profiler's say.
CLOCK = 0.05


@pytest.fixture(scope="module")
def recorded(repository: Path) -> tuple[ProfileData, dict[str, Any]]:
    folder = repository / "tests" / "data" / "torch_train"
    truth = json.loads((folder / "truth.json").read_text(encoding="utf-8"))
    return ss.open(folder), truth


def test_steps_and_their_times(recorded: tuple[ProfileData, dict[str, Any]]) -> None:
    profile, truth = recorded
    overview = profile.tool("overview_page")
    assert overview.step_detection.source == "marker"
    first = truth["first_step_num"]
    numbers = [step.step for step in overview.steps]
    assert numbers == list(range(first, first + truth["steps"]))
    times = [step.duration_ms for step in overview.steps]
    assert times[:-1] == pytest.approx(truth["begin_to_begin_ms"], abs=CLOCK)
    assert times == pytest.approx(truth["step_ms"], abs=2 * CLOCK)


def test_parts_of_steps(recorded: tuple[ProfileData, dict[str, Any]]) -> None:
    """Ops lie inside what the script timed; what is between them is Python."""
    profile, truth = recorded
    (host,) = profile.hosts
    ours = profile.derived(host, phases).rows
    for phase in ("forward", "loss", "backward", "optimizer"):
        for found, own in zip(ours[f"{phase}_ps"], truth[f"{phase}_ms"], strict=True):
            assert 0 < found / 1e9 <= own
            if phase in ("forward", "backward"):
                assert found / 1e9 >= own - 0.5
    waits = profile.derived(host, account).rows["input_ps"]
    for found, own in zip(waits, truth["batch_ms"], strict=True):
        assert own - CLOCK <= found / 1e9 <= own


def test_executions_of_ops(recorded: tuple[ProfileData, dict[str, Any]]) -> None:
    profile, truth = recorded
    (host,) = profile.hosts
    rows = profile.derived(host, host_ops).rows
    counts = dict(rows.select("name", "occurrences").iter_rows())
    convolutions = truth["steps"] * truth["convolutions_per_step"]
    assert counts["aten::conv2d"] == convolutions
    assert counts["ConvolutionBackward0"] == convolutions
    updates = truth["steps"] * truth["parameters"]
    assert counts["torch::autograd::AccumulateGrad"] == updates


def test_no_memory_is_lost_from_step_to_step(
    recorded: tuple[ProfileData, dict[str, Any]],
) -> None:
    """The script keeps nothing from a step but gradients and momentum."""
    profile, _ = recorded
    memory = profile.tool("memory_profile").memories["cpu"]
    assert memory.level == "recorded_since_start"
    assert set(memory.steps["growth_bytes"][1:-1]) == {0}
