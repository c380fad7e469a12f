"""The declared knobs: each answers rules that exist, and becomes changes."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from stepscope.advice.registry import RULES
from stepscope.trials.inside.plan import Setting, TurnPlan
from stepscope.trials.inside.setters import SETTERS
from stepscope.trials.knobs import Knob, knobs_for_rule, load_knobs

ROOT = Path(__file__).resolve().parents[2]
KNOBS = {knob.id: knob for knob in load_knobs()}


@pytest.mark.parametrize("knob", load_knobs(), ids=lambda knob: knob.id)
def test_a_knob_answers_rules_by_a_setter_that_exists(knob: Knob) -> None:
    assert set(knob.rules) <= {rule.item.id for rule in RULES}
    assert callable(SETTERS[knob.setter].load_function())
    changes = knob.changes({}, "folder", cores=16)
    assert len(changes) == len(knob.values)
    for change in changes:
        assert change.write
        assert "{" not in change.name + "".join(change.write)


def test_ids_and_setters_are_used_once_and_all() -> None:
    assert len(KNOBS) == len(load_knobs())
    assert {knob.setter for knob in load_knobs()} == SETTERS.keys()


def test_values_are_those_of_the_machine_each_once() -> None:
    workers = KNOBS["loader.num_workers"]
    assert [c.setting.value for c in workers.changes({}, "", cores=16)] == [2, 8, 16]
    assert [c.setting.value for c in workers.changes({}, "", cores=2)] == [2, 1]
    assert [c.setting.value for c in workers.changes({}, "", cores=1)] == [2, 1]


def test_a_variable_that_is_set_already_is_no_change() -> None:
    mode = KNOBS["tensorflow.gpu_thread_mode"]
    assert mode.changes({"TF_GPU_THREAD_MODE": "gpu_private"}, "") == ()
    (change,) = mode.changes({"TF_GPU_THREAD_MODE": "global"}, "")
    assert change.environment == (("TF_GPU_THREAD_MODE", "gpu_private"),)


def test_flags_of_the_program_stay() -> None:
    (change,) = KNOBS["tensorflow.xla_auto_jit"].changes({"TF_XLA_FLAGS": "--own"}, "")
    ((name, value),) = change.environment
    assert (name, value.split()[:2]) == (
        "TF_XLA_FLAGS",
        ["--own", "--tf_xla_auto_jit=2"],
    )


def test_knobs_fit_the_frameworks_and_the_device() -> None:
    def ids(*frameworks: str) -> list[str]:
        return [knob.id for knob in knobs_for_rule("copy.exposed", frameworks)]

    assert ids("torch") == []
    assert ids("torch", "gpu") == ["loader.pin_memory"]
    assert [knob.id for knob in knobs_for_rule("gap.gc", ())] == [
        "gc.freeze",
        "gc.threshold",
    ]


def test_a_plan_survives_the_environment() -> None:
    settings = (Setting("k", "s", "a", value="x y"), Setting("l", "s", "b", value=-1))
    plan = TurnPlan("/a b\n", settings)
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
