"""The phase of host events by ranges, names of ops and gradients, and of kernels."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from tests.support.traces import blueprint

from stepscope.derive.phases import (
    PHASES,
    HostPhases,
    Phases,
    host_phases,
    phases,
    range_phases,
)

US = 1_000_000
ENGINE = "autograd::engine::evaluate_function: "
STEP = ("main", "train", 0, 1000, {"_r": 1, "step_num": 0})


@pytest.mark.parametrize(
    ("name", "phase"),
    [
        (f"{ENGINE}AddmmBackward0", "backward"),
        ("torch::autograd::AccumulateGrad", "backward"),
        ("CompiledFunctionBackward", "backward"),
        ("torch/_tensor.py(566): backward", "backward"),
        ("## backward ##", "backward"),
        ("Backward pass", "backward"),
        ("loss.backward()", "backward"),
        ("Optimizer.step#SGD.step", "optimizer"),
        ("Optimizer.zero_grad#SGD.zero_grad", "optimizer"),
        ("torch/optim/sgd.py(105): step", "optimizer"),
        ("## optimizer ##", "optimizer"),
        ("optimizer_step", "optimizer"),
        ("nn.Module: CrossEntropyLoss_0", "loss"),
        ("## loss ##", "loss"),
        ("nn.Module: Linear_3", "forward"),
        ("DistributedDataParallel.forward", "forward"),
        ("## forward ##", "forward"),
        ("ProfilerStep#3", "unknown"),
        ("forward_features.py", "unknown"),
        ("backward compatible thing", "unknown"),
        ("learning rate optimizer report", "unknown"),
        ("train", "unknown"),
    ],
)
def test_the_phase_of_a_range_by_its_name(name: str, phase: str) -> None:
    assert PHASES[range_phases(pl.Series([name]))[0]] == phase


def host_phases_of(*lines: tuple[Any, ...]) -> dict[str, tuple[str, str]]:
    """Name of each event → its firm and its loose phase."""
    trace = blueprint.trace([STEP, *lines])
    found = blueprint.profile(trace).derived("vm", host_phases)
    assert isinstance(found, HostPhases)
    events, types = trace.table("events"), trace.table("event_types")
    assert isinstance(events, pl.DataFrame)
    assert isinstance(types, pl.DataFrame)
    names = types["name"].gather(events["type"])
    return {
        name: (PHASES[firm], PHASES[loose])
        for name, firm, loose in zip(names, found.firm, found.loose, strict=True)
    }


def test_everything_in_a_backward_pass_belongs_to_it() -> None:
    found = host_phases_of(
        ("main", f"{ENGINE}CheckpointBackward", 10, 80),
        ("main", "nn.Module: Linear_0", 20, 30),
        ("main", "aten::addmm", 25, 10),
        ("main", "aten::mm", 95, 2),
    )
    assert found["aten::addmm"] == ("backward", "forward")
    assert found["aten::mm"] == ("unknown", "unknown")


def test_the_innermost_op_or_range_decides_between_forward_and_loss() -> None:
    found = host_phases_of(
        ("main", "nn.Module: Net_0", 10, 80),
        ("main", "aten::conv2d", 12, 10),
        ("main", "aten::cross_entropy_loss", 40, 30),
        ("main", "aten::log_softmax", 45, 10),
    )
    assert found["aten::conv2d"] == ("unknown", "forward")
    assert found["aten::log_softmax"] == ("unknown", "loss")


def test_an_op_with_a_gradient_is_of_the_forward_pass() -> None:
    found = host_phases_of(
        ("main", "aten::conv2d", 10, 20, {"fwdbwd": 4}),
        ("main", "aten::_convolution", 12, 10),
        ("main", "aten::normal_", 40, 5),
        ("main", "aten::cross_entropy_loss", 50, 10, {"fwdbwd": 5}),
        ("other", f"{ENGINE}NllLossBackward0", 70, 5, {"fwdbwd": 5}),
        ("other", f"{ENGINE}ConvolutionBackward0", 80, 9, {"fwdbwd": 4}),
        ("other", "aten::half linked", 92, 3, {"fwdbwd": 9}),
    )
    assert found["aten::conv2d"] == ("unknown", "forward")
    assert found["aten::_convolution"] == ("unknown", "forward")
    assert found["aten::normal_"] == ("unknown", "unknown")
    # Its name says more than that it has a gradient.
    assert found["aten::cross_entropy_loss"] == ("unknown", "loss")
    assert found["aten::half linked"] == ("unknown", "unknown")
    assert found[f"{ENGINE}ConvolutionBackward0"][0] == "backward"


def phases_of(*lines: tuple[Any, ...]) -> tuple[Phases, dict[str, float]]:
    found = blueprint.profile(blueprint.trace([STEP, *lines])).derived("vm", phases)
    assert isinstance(found, Phases), found
    row = found.rows.row(0, named=True)
    times = {phase: row[f"{phase}_ps"] / US for phase in PHASES if row[f"{phase}_ps"]}
    return found, times


def launch(at: float, number: int) -> tuple[Any, ...]:
    return ("main", "cudaLaunchKernel", at, 2, {"correlation_id": number})


def kernel(at: float, dur: float, number: int, **stats: str) -> tuple[Any, ...]:
    return ("gpu:0/7(Compute)", "k", at, dur, {"correlation_id": number, **stats})


def test_a_kernel_is_of_the_phase_in_which_it_was_launched() -> None:
    found, times = phases_of(
        ("main", "## forward ##", 10, 20), launch(15, 1), kernel(300, 7, 1),
        ("main", f"{ENGINE}MmBackward0", 40, 20), launch(45, 2), kernel(310, 11, 2),
        ("main", "Optimizer.step#SGD.step", 70, 20), launch(75, 3), kernel(330, 13, 3),
        launch(100, 4), kernel(350, 17, 4),
        kernel(380, 19, 99),
    )  # fmt: skip
    assert times == {"forward": 7, "backward": 11, "optimizer": 13, "unknown": 36}
    assert found.seen == {"forward", "backward", "optimizer", "unknown"}


def test_the_name_of_a_kernels_op_says_more_than_a_loose_range() -> None:
    _, times = phases_of(
        ("main", "## forward ##", 10, 60),
        launch(15, 1), kernel(300, 7, 1, tf_op="loss/Log:Log"),
        launch(20, 2), kernel(320, 11, 2, tf_op="gradient_tape/m/MatMul:MatMul"),
        ("main", f"{ENGINE}NllLossBackward0", 80, 20),
        launch(85, 3), kernel(340, 13, 3, tf_op="aten::nll_loss_forward"),
    )  # fmt: skip
    assert times == {"loss": 7, "backward": 24}


def test_an_op_of_the_backward_pass_tells_it_without_its_launch_call() -> None:
    _, times = phases_of(kernel(300, 7, 99, tf_op="aten::nll_loss_backward"))
    assert times == {"backward": 7}


def test_without_a_device_ops_of_the_host_are_told_apart_alike() -> None:
    found, times = phases_of(
        ("main", "aten::conv2d", 10, 20, {"fwdbwd": 1}),
        ("main", f"{ENGINE}ConvolutionBackward0", 40, 30, {"fwdbwd": 1}),
        ("main", "aten::convolution_backward", 45, 20),
        ("main", "Optimizer.step#SGD.step", 100, 50),
        ("main", "aten::add_", 110, 10),
        ("main", "aten::normal_", 200, 5),
    )
    assert found.side == "host"
    # The range of the optimizer is its own work where it runs no op, too.
    assert times == {"forward": 20, "backward": 30, "optimizer": 50, "unknown": 5}
