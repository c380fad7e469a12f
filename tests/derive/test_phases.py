"""Forward, loss, backward and optimizer time by the scopes and types of ops."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from tests.support.traces import blueprint

from stepscope.derive.phases import PHASES, Phases, op_phases, phases
from stepscope.unavailable import Unavailable

US = 1_000_000


def phases_of(*lines: tuple[Any, ...]) -> Phases:
    marker = ("main", "train", 0, 100, {"_r": 1, "step_num": 0})
    trace = blueprint.trace([marker, *lines])
    found = blueprint.profile(trace).derived("vm", phases)
    assert isinstance(found, Phases), found
    return found


def times_us(found: Phases) -> dict[str, float]:
    row = found.rows.row(0, named=True)
    return {phase: row[f"{phase}_ps"] / US for phase in PHASES if row[f"{phase}_ps"]}


@pytest.mark.parametrize(
    ("name", "op_type", "phase"),
    [
        ("model/dense/MatMul", "MatMul", "forward"),
        ("gradient_tape/model/dense/MatMul", "MatMul", "backward"),
        ("gradient_tape/loss/Cast", "Cast", "backward"),
        ("Adam/Adam/update/ResourceApplyAdam", "ResourceApplyAdam", "optimizer"),
        ("call/adam/mul_3", "Mul", "optimizer"),
        ("compile_loss/sparse_categorical_crossentropy/Log", "Log", "loss"),
        ("ReluGrad", "ReluGrad", "backward"),
        ("MatMul", "MatMul", "unknown"),
        ("IteratorGetNext/_3", "_Send", "unknown"),
        ("(no annotation)", "Unknown", "unknown"),
        ("jit(step)/jvp()/dot_general", "dot_general", "forward"),
        ("jit(step)/transpose(jvp())/dot_general", "dot_general", "backward"),
    ],
)
def test_the_phase_of_an_op(name: str, op_type: str, phase: str) -> None:
    code = op_phases(pl.Series([name]), pl.Series([op_type]))
    assert PHASES[code[0]] == phase


def test_a_differentiated_program_says_what_of_it_is_forward() -> None:
    names = pl.Series(["jit(f)/transpose(jvp())/dot", "jit(f)/jvp()/dot", "jit(f)/mul"])
    code = op_phases(names, pl.Series(["dot", "dot", "mul"]))
    assert [PHASES[one] for one in code] == ["backward", "forward", "unknown"]


def test_on_a_device_the_phases_add_up_to_compute() -> None:
    found = phases_of(
        ("gpu:0/7(Compute)", "a", 0, 20, {"tf_op": "m/dense/MatMul:MatMul"}),
        ("gpu:0/8(Compute)", "b", 10, 20, {"tf_op": "gradient_tape/m/MatMul:MatMul"}),
        ("gpu:0/7(Compute)", "c", 40, 5),
        ("gpu:0/9(MemcpyH2D)", "MemcpyH2D", 60, 5),
    )
    assert found.side == "device"
    assert times_us(found) == {"forward": 20, "backward": 10, "unknown": 5}
    assert found.seen == {"forward", "backward", "unknown"}


def test_without_a_device_the_phases_add_up_to_host_compute() -> None:
    found = phases_of(
        ("pool", "ExecutorState::Process", 10, 50),
        ("pool", "m/dense/MatMul:MatMul", 20, 10),
        ("pool", "gradient_tape/m/MatMul:MatMul", 30, 10),
        ("main", "IteratorGetNext", 30, 5),
    )
    assert found.side == "host"
    assert times_us(found) == {"forward": 10, "backward": 5, "unknown": 30}


GONE = Unavailable(code="LOST_EVENTS", reason="Taken away.", remedy="Put it back.")


def steps(*starts: float) -> list[tuple[Any, ...]]:
    return [
        ("main", "train", start, 100, {"_r": 1, "step_num": number})
        for number, start in enumerate(starts)
    ]


def kernel(
    start: float, dur: float, op: str, device: int = 0, stream: int = 7
) -> tuple[Any, ...]:
    stats = {"tf_op": f"{op}:MatMul"} if op else {}
    return (f"gpu:{device}/{stream}(Compute)", "k", start, dur, stats)


TWO_DEVICES = [
    *steps(0, 100),
    kernel(10, 20, "m/dense"),
    kernel(20, 20, "gradient_tape/m", stream=8),
    kernel(90, 30, "gradient_tape/m"),
    kernel(110, 5, "m/dense", stream=8),
    kernel(150, 5, ""),
    kernel(50, 10, "compile_loss/x", device=1),
    kernel(110, 20, "Adam/Adam/update/x", device=1),
    ("gpu:1/9(MemcpyH2D)", "MemcpyH2D", 60, 5),
]


def test_every_phase_of_every_window_and_device() -> None:
    trace = blueprint.trace(TWO_DEVICES)
    found = blueprint.profile(trace).derived("vm", phases)
    assert isinstance(found, Phases)
    columns = ("window", "device", *(f"{phase}_ps" for phase in PHASES))
    # Times of two phases are those of the first: of [20, 30) and of [110, 115).
    assert found.rows.select(columns).rows() == [
        (0, 0, 20 * US, 0, 20 * US, 0, 0),
        (0, 1, 0, 10 * US, 0, 0, 0),
        (1, 0, 5 * US, 0, 15 * US, 0, 5 * US),
        (1, 1, 0, 0, 0, 20 * US, 0),
    ]
    # Of what was launched, only kernels have a phase.
    assert found.seen == frozenset(PHASES)
    assert found.side == "device"


def test_without_ops_or_activity_the_reason_is_handed_on() -> None:
    trace = blueprint.trace(TWO_DEVICES)
    bare = blueprint.substitute(trace, device_activity=GONE)
    assert blueprint.profile(bare).derived("vm", phases) == GONE


def test_only_the_compute_of_threads_that_drive_steps_has_phases() -> None:
    lines = [
        *steps(0, 100),
        ("main", "m/dense/MatMul:MatMul", 10, 30),
        # A file is read inside of an op, and inside of its gradient.
        ("main", "gradient_tape/m/MatMul:MatMul", 50, 30),
        ("main", "IteratorGetNext", 60, 10),
        ("main", "compile_loss/Log:Log", 120, 10),
        ("main", "Mul:Mul", 140, 7),
    ]
    trace = blueprint.trace(lines)
    found = blueprint.profile(trace).derived("vm", phases)
    assert isinstance(found, Phases)
    columns = ("window", "device", *(f"{phase}_ps" for phase in PHASES))
    assert found.rows.select(columns).rows() == [
        (0, None, 30 * US, 0, 20 * US, 0, 0),
        (1, None, 0, 10 * US, 0, 0, 7 * US),
    ]
    assert found.side == "host"
    assert found.seen == {"forward", "loss", "backward", "unknown"}
