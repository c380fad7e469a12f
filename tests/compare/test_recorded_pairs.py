"""Comparisons of recorded runs of which the programs' own clocks tell the truth."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from stepscope.compare.comparison import compare_runs
from stepscope.thresholds import THRESHOLDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepscope.compare.comparison import Comparison
    from stepscope.compare.measured import MeasuredSteps

    Against = Callable[..., Comparison]

DATA = Path(__file__).resolve().parents[1] / "data"


def clock_ms(name: str) -> list[float]:
    """Begin to begin of each step, as the program's own clock says."""
    truth = json.loads((DATA / name / "truth.json").read_text("utf-8"))
    found: list[float] = truth["begin_to_begin_ms"]
    return found


@pytest.mark.slow(seconds=0.4)
def test_a_graph_of_the_same_kernels_is_faster_as_the_programs_clocks_say(
    against: Against,
) -> None:
    found = against("gpu/torch_graph", "gpu/torch_healthy")
    assert found.parity.comparable
    assert found.step_time is not None
    assert found.step_time.verdict == "faster"
    for run, name in ((found.base, "torch_healthy"), (found.new, "torch_graph")):
        clock = statistics.median(clock_ms(f"gpu/{name}"))
        assert run.median_ms == pytest.approx(clock, rel=0.02)


def test_the_gain_of_a_graph_lies_in_what_the_launches_promised(
    against: Against,
) -> None:
    promises = against("gpu/torch_graph", "gpu/torch_healthy").promises
    (outcome,) = (one for one in promises if one.findings == ("launch.delay",))
    assert outcome.verdict == "inside"
    assert outcome.measured_ms is not None
    assert outcome.low_ms <= outcome.measured_ms <= outcome.high_ms


def test_a_pipeline_that_was_mended_gains_its_wait_and_more(
    against: Against,
) -> None:
    # The README beside the data gives the mean markers: 52.116 and 10.634 ms. Without
    # the first of the slow ones, a cold start of 184 ms, they take 45.187 ms.
    found = against("tf_cpu/healthy", "tf_cpu/sequential_map")
    assert found.step_time is not None
    assert found.step_time.change_ms == pytest.approx(10.634 - 45.187, rel=0.05)
    owners = {one.name: one for one in found.owners or ()}
    assert found.owners is not None
    assert found.owners[0].name == "input"
    assert owners["input"].certain
    assert {one.id: one.change for one in found.findings}["input.bound"] == "gone"
    (outcome,) = (one for one in found.promises if one.measured_ms is not None)
    # The promise is the mean wait of the 19 warm steps, 30.25 ms: the steps' ops took
    # 4.3 ms less, too.
    assert outcome.verdict == "above"
    assert outcome.high_ms == pytest.approx(30.25, abs=0.01)


@pytest.mark.parametrize(
    ("new", "base"),
    [
        ("tf_cpu/healthy", "tf_cpu/sequential_map"),
        ("gpu/torch_graph", "gpu/torch_healthy"),
        ("jax_ahead", "jax_marked"),
    ],
)
def test_what_the_owners_gained_and_lost_adds_up_to_the_step(
    against: Against, new: str, base: str
) -> None:
    found = against(new, base)
    assert found.step_time is not None
    total = sum(one.change_ms for one in found.owners or ())
    assert total == pytest.approx(found.step_time.change_ms, abs=1e-6)


@pytest.mark.slow(seconds=0.4)
def test_two_recordings_of_one_program_differ_by_chance_only(against: Against) -> None:
    found = against("gpu/jax_healthy", "gpu/jax_healthy_without_graphs")
    assert found.parity.comparable
    assert found.step_time is not None
    assert found.step_time.verdict == "noise"
    assert {one.verdict for one in found.promises} == {"untried"}


@pytest.mark.parametrize(
    ("new", "base", "why"),
    [
        ("tf_cpu/xla", "tf_cpu/healthy", "ops of a step"),
        ("tf_keras_fit", "tf_cpu/healthy", "ops of a step"),
        ("gpu/jax_input_bound", "gpu/jax_healthy", "batch size"),
        ("gpu/torch_healthy", "gpu/torch_launch_bound", "kernels of a step"),
        ("tf_cpu/healthy", "gpu/jax_healthy", "devices differ"),
        ("tf_cpu/inference", "tf_cpu/healthy", "ops of a step"),
        ("gpu/kernels", "gpu/torch_healthy", "whole step"),
    ],
)
@pytest.mark.sweep(every=3)
def test_other_work_is_never_shown_as_a_gain(
    against: Against, new: str, base: str, why: str
) -> None:
    found = against(new, base)
    assert not found.parity.comparable
    assert found.parity.unavailable is not None
    assert why in found.parity.unavailable.reason
    assert (found.step_time, found.owners, found.ops, found.kernels) == (None,) * 4
    assert {one.field for one in found.missing} >= {"step_time", "owners"}
    for outcome in found.promises:
        assert outcome.verdict == "not_comparable"
        assert outcome.measured_ms is None


def test_a_statement_outweighs_what_the_recordings_do_not_show(
    against: Against,
) -> None:
    found = against("tf_cpu/xla", "tf_cpu/healthy", same_work=True)
    assert found.parity.comparable
    assert found.parity.vouched
    assert found.step_time is not None
    # The README beside the data: 17.670 and 10.634 ms.
    assert found.step_time.change_ms == pytest.approx(17.670 - 10.634, rel=0.05)


def test_a_statement_does_not_outweigh_what_they_show(against: Against) -> None:
    found = against("tf_cpu/healthy", "gpu/jax_healthy", same_work=True)
    assert not found.parity.comparable
    assert not found.parity.vouched


def test_a_run_against_itself_gained_nothing(against: Against) -> None:
    found = against("tf_cpu/healthy", "tf_cpu/healthy")
    assert found.step_time is not None
    assert found.step_time.change_ms == 0
    assert found.step_time.verdict == "noise"
    assert {one.change_ms for one in found.ops or ()} == {0.0}
    assert {one.overlap for one in found.parity.checks if one.overlap} == {1.0}


@pytest.mark.profiles
def test_workers_gain_what_the_wait_for_batches_promised(
    shared_profile: Callable[[str], Path], run_of: Callable[[str], MeasuredSteps]
) -> None:
    # Two traces of one program that the authors of PyTorch's plugin published: a loader
    # in the main process, and one with four workers.
    base, new = (
        run_of(str(shared_profile(f"kineto/resnet50_num_workers_{count}")))
        for count in (0, 4)
    )
    found = compare_runs(base, new, thresholds=THRESHOLDS)
    assert found.parity.comparable
    assert {one.topic: one.by for one in found.parity.checks}["batch"] == "operands"
    assert found.step_time is not None
    assert found.step_time.verdict == "faster"
    verdicts = {one.findings: one.verdict for one in found.promises}
    assert verdicts["input.bound",] == "inside"
    assert verdicts["amp.share",] == "untried"
