"""What kind of program was recorded, and which advice that leaves."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.traces import blueprint

from stepscope.advice.catalogue import rule_item
from stepscope.advice.engine import signals_of as signals_of_profile
from stepscope.advice.judging.program_facts import program_facts
from stepscope.advice.rules.launches.launch_delay import evaluate
from stepscope.derive.facts.program_traits import ProgramTraits, program_traits
from stepscope.unavailable import require_available


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["aten::mm"], ProgramTraits(updates=False, trains=False)),
        (
            ["aten::mm", "autograd::engine::evaluate_function: MmBackward0"],
            ProgramTraits(updates=False),
        ),
        (["aten::mm", "Optimizer.step#SGD.step"], ProgramTraits()),
        (
            ["aten::mm", "Torch-Compiled Region: 0/0"],
            ProgramTraits(compiled=True, updates=False, trains=False),
        ),
        (
            ["aten::mm", "CompiledFunctionBackward"],
            ProgramTraits(compiled=True, updates=False),
        ),
        (
            ["aten::mm", "gpu_model_runner: forward"],
            ProgramTraits(engine=True, updates=False, trains=False),
        ),
        # Without any op nothing is known of updates.
        (["cuLaunchKernel"], ProgramTraits()),
    ],
)
def test_names_show_what_kind_of_program_it_is(
    names: list[str], expected: ProgramTraits
) -> None:
    lines = [("main", name, 10 * at, 5) for at, name in enumerate(names)]
    profile = blueprint.profile(blueprint.trace(lines))
    assert signals_of_profile(profile).of(program_traits) == expected


@pytest.mark.parametrize("rule", ["fuse.runs", "launch.small"])
@pytest.mark.parametrize("updates", [True, False])
def test_optimizers_are_advised_where_weights_are_updated(
    signals_of: Any, rule: str, *, updates: bool
) -> None:
    signals = signals_of({program_traits: ProgramTraits(updates=updates)})
    fits = rule_item(rule).actions_for("device", *program_facts(signals))
    told = [one for one in fits if one.framework == "PyTorch"]
    assert len(told) == 1
    assert ("AdamW" in (told[0].code or "")) is updates


@pytest.mark.parametrize("compiled", [True, False])
def test_a_serving_engine_replays_its_own_graphs(
    signals_of: Any, shares: Any, *, compiled: bool
) -> None:
    """Nobody wraps the model of a served engine into a compiler's call."""
    traits = {program_traits: ProgramTraits(compiled=compiled, engine=True)}
    finding = evaluate(signals_of(shares(launch=2.0), traits))
    (told,) = [one for one in finding.actions if one.framework == "PyTorch"]
    assert "--enforce-eager" in (told.code or "")


@pytest.mark.parametrize("compiled", [True, False])
def test_what_is_compiled_is_not_to_be_compiled_again(
    signals_of: Any, shares: Any, *, compiled: bool
) -> None:
    traits = {program_traits: ProgramTraits(compiled=compiled)}
    finding = evaluate(signals_of(shares(launch=2.0), traits))
    (told,) = [one.text for one in finding.actions if one.framework == "PyTorch"]
    assert told.startswith("Replay the compiled program" if compiled else "Compile the")


@pytest.mark.parametrize(
    ("names", "graphed"),
    [
        (["EagerLocalExecute: __inference_train_function_7"], True),
        (["EagerLocalExecute: MatMul", "EagerLocalExecute: AddV2"], False),
        (["cuLaunchKernel"], False),
    ],
)
def test_a_program_whose_step_is_a_graph_is_not_told_to_make_one(
    signals_of: Any, shares: Any, names: list[str], *, graphed: bool
) -> None:
    """Keras puts its training step into a graph; the report advised `@tf.function`."""
    lines = [("main", name, 10 * at, 5) for at, name in enumerate(names)]
    profile = blueprint.profile(blueprint.trace(lines))
    traits = require_available(signals_of_profile(profile).of(program_traits))
    assert traits.graphed is graphed
    late = {program_traits: traits}
    codes = [
        one.code or ""
        for one in evaluate(signals_of(shares(launch=5.0), late)).actions
        if one.framework == "TensorFlow"
    ]
    assert any(code.startswith("@tf.function") for code in codes) is not graphed
    assert any("jit_compile=True" in code for code in codes)
