"""The declared knobs: each answers rules that exist, and becomes changes."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from stepscope.advice.registry import RULES
from stepscope.trials.inside.turn_files import Setting, TurnPlan
from stepscope.trials.knobs import knob_changes, knobs_for_rule, load_knobs

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def sixteen_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stepscope.trials.knobs.core_count", lambda: 16)


@pytest.mark.parametrize("name", load_knobs())
def test_a_knob_answers_rules_and_each_value_is_a_change(name: str) -> None:
    knob = load_knobs()[name]
    assert set(knob.rules) <= {rule.item.id for rule in RULES}
    changes = knob_changes(name, {}, "folder")
    assert len(changes) == len(knob.set) - 3
    for change in changes:
        assert change.settings
        assert change.write
        assert "{" not in change.name + "".join(change.write)


def values_of(name: str) -> list[object]:
    return [change.settings[0].value for change in knob_changes(name, {}, "")]


def test_values_are_those_of_the_machine_each_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert values_of("torch.num_workers") == [2, 8, 16]
    monkeypatch.setattr("stepscope.trials.knobs.core_count", lambda: 2)
    assert values_of("torch.num_workers") == [2, 1]
    monkeypatch.setattr("stepscope.trials.knobs.core_count", lambda: 1)
    assert values_of("torch.num_workers") == [2, 1]


def test_a_knob_may_set_several_functions() -> None:
    (change,) = knob_changes("torch.fused_optimizer", {}, "")
    assert [setting.target for setting in change.settings] == [
        "torch.optim:Adam.__init__",
        "torch.optim:AdamW.__init__",
        "torch.optim:SGD.__init__",
    ]


def test_a_variable_that_is_set_already_is_no_change() -> None:
    mode = "tensorflow.gpu_thread_mode"
    assert knob_changes(mode, {"TF_GPU_THREAD_MODE": "gpu_private"}, "") == ()
    (change,) = knob_changes(mode, {"TF_GPU_THREAD_MODE": "global"}, "")
    assert change.environment == (("TF_GPU_THREAD_MODE", "gpu_private"),)


def test_flags_of_the_user_stay() -> None:
    (change,) = knob_changes("tensorflow.xla_auto_jit", {"TF_XLA_FLAGS": "--own"}, "")
    ((name, value),) = change.environment
    assert name == "TF_XLA_FLAGS"
    assert value.split()[:2] == ["--own", "--tf_xla_auto_jit=2"]


def test_knobs_fit_the_frameworks_of_the_program() -> None:
    assert knobs_for_rule("copy.exposed", {"jax"}) == []
    assert knobs_for_rule("copy.exposed", {"torch"}) == ["torch.pin_memory"]
    assert knobs_for_rule("gap.gc", ()) == ["any.gc_freeze", "any.gc_threshold"]


def test_a_plan_survives_the_environment() -> None:
    settings = (
        Setting("k", "call", "m:f", "", "x y"),
        Setting("l", "call", "m:f", "n", -1),
    )
    plan = TurnPlan("/a b\n", settings, warm_s=0.5)
    assert TurnPlan.from_environment({"STEPSCOPE_TRY": plan.to_text()}) == plan
    assert TurnPlan.from_environment({}) is None


def test_the_table_of_knobs_is_generated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "build_tools"))
    spec = importlib.util.find_spec("knob_list")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "knob_list", module)
    spec.loader.exec_module(module)
    page = module.PAGE.read_text("utf-8")
    assert page == module.with_knobs(page), "run python build_tools/knob_list.py"
