"""What the step becomes after each advised action, over literal accounts."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest
from tests.advice.conftest import MS, shares, signals_of
from tests.conftest import DATA, recorded_runs

from stepscope.advice.catalogue import catalogue, rule_item
from stepscope.advice.engine import evaluate
from stepscope.advice.engine import signals_of as signals_of_profile
from stepscope.advice.finding import Finding
from stepscope.advice.step_predictions import _MODELS, predict_actions
from stepscope.derive.facts.evidence import Fact, Saving
from stepscope.derive.facts.hosts.batch_production import BatchTimes, batch_times
from stepscope.derive.facts.hosts.worker_processes import (
    LoaderWorkers,
    loader_workers,
    machine_cores,
)
from stepscope.derive.facts.processors import Processors, processor_signals
from stepscope.derive.facts.step_shares import account_signals
from stepscope.derive.frameworks import frameworks_used
from stepscope.reporting.words.findings import fitting_actions
from stepscope.session import open_profile

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stepscope.advice.finding import Action
    from stepscope.derive.facts.step_shares import StepShares
    from stepscope.derive.predictions.step_times import StepTime

FOUR_CORES = {machine_cores: {"vm": 4}}
EQUAL_STEPS = 12


def predicted(
    account: StepShares, finding: Finding, known: Any = None
) -> dict[tuple[str, str, int | None], tuple[float | None, ...]]:
    """By action, model and assumed number: low, mid and high of the step."""
    signals = signals_of(account, known or {})
    after = predict_actions(finding, signals)
    on_host = account.device is None
    return {
        (one.action, one.model, one.parameter and one.parameter.value): without_spread(
            one.step_ms,
            apart=0.09 if on_host else 0.03,
            warmer=0.05 if on_host and one.model != "queue" else 0.0,
        )
        for one in after.predictions
    }


def without_spread(
    step: StepTime, *, apart: float = 0.09, warmer: float = 0.0
) -> tuple[float | None, ...]:
    """The interval without the difference between two runs, and of a rest as it was."""
    left = 1 - warmer
    if step.mid is None or step.high is None:
        return (step.low / (1 - apart) / left, None, None)
    apart_ms = apart * step.mid
    low = math.sqrt(max((step.mid - step.low) ** 2 - apart_ms**2, 0.0))
    high = math.sqrt(max((step.high - step.mid) ** 2 - apart_ms**2, 0.0))
    return ((step.mid - low) / left, step.mid / left, step.mid + high)


def failing(
    rule: str, actions: Iterable[str], ms: float, owner: str, **fields: Any
) -> Finding:
    """A failing finding about the time of an owner, with a bound of its gain."""
    item = rule_item(rule)
    return Finding(
        **{
            "id": rule,
            "title": item.title,
            "stage": item.stage,
            "status": "fail",
            "devices": ("vm",),
            "owners": (owner,),
            "place": "any",
            "ms_per_step": ms,
            "saving_ms": Saving(low=0.0, high=ms),
            "actions": item.chosen(*actions),
            **fields,
        }
    )


def on_host(**owners: Any) -> StepShares:
    return shares(device=None, steps=EQUAL_STEPS, **owners)


def test_short_batches_hide_behind_the_step() -> None:
    actions = ("load_in_workers", "cache_epochs", "make_cheaper", "find_out_practices")
    finding = failing("input.bound", actions, 3.0, "input")
    after = predicted(on_host(input=3.0), finding, FOUR_CORES)
    seven = pytest.approx((7, 7, 7))
    assert after == {
        ("load_in_workers", "queue", 1): seven,
        ("load_in_workers", "queue", 2): seven,
        ("load_in_workers", "queue", 4): seven,
        ("cache_epochs", "removed", None): seven,
        ("make_cheaper", "bound", None): (pytest.approx(7), None, None),
    }


def test_the_advised_number_of_workers_is_first_and_in_the_code() -> None:
    finding = failing("input.bound", ["load_in_workers"], 8.0, "input")
    signals = signals_of(on_host(input=8.0), FOUR_CORES)
    after = predict_actions(finding, signals)
    numbers = [one.parameter and one.parameter.value for one in after.predictions]
    assert numbers == [4, 1, 2]
    assert "num_workers=4" in (after.actions[0].code or "")
    # 8 ms for each 2 ms of steps: they wait (2), or compute on four cores (10 / 4).
    first = after.predictions[0].step_ms
    assert without_spread(first) == pytest.approx((2, 2.25, 2.5))


def test_batches_that_are_known_to_compute_share_the_cores() -> None:
    fetched = {batch_times: {"vm": BatchTimes((8_000_000_000,) * EQUAL_STEPS, 1.0)}}
    finding = failing("input.bound", ["make_next_in_process"], 8.0, "input")
    after = predicted(
        on_host(input=8.0), finding, {machine_cores: {"vm": 1}, **fetched}
    )
    assert after == {("make_next_in_process", "queue", 1): pytest.approx((10, 10, 10))}


def test_workers_that_never_wait_tell_what_a_batch_takes() -> None:
    known = {
        machine_cores: {"vm": 2},
        loader_workers: {"vm": LoaderWorkers(1, 2, used=1.0)},
    }
    finding = failing("input.bound", ["add_workers"], 6.0, "input")
    # A batch takes one worker 10 ms; with the 4 ms of the step 14 ms on two cores.
    assert predicted(on_host(input=6.0), finding, known) == {
        ("add_workers", "queue", 2): pytest.approx((7, 7, 7))
    }


def test_other_programs_leave_fewer_cores() -> None:
    used = Processors(4, (0.0,) * EQUAL_STEPS, machine=4.0, own=1.0, threads=3)
    fetched = {batch_times: {"vm": BatchTimes((5_000_000_000,) * EQUAL_STEPS, 1.0)}}
    finding = failing("input.bound", ["make_next_in_process"], 5.0, "input")
    known = {processor_signals: {"vm": used}, **fetched}
    alone = predicted(on_host(input=5.0), finding, FOUR_CORES | fetched)
    crowded = predicted(on_host(input=5.0), finding, FOUR_CORES | known)
    key = ("make_next_in_process", "queue", 1)
    assert alone[key] == pytest.approx((5, 5, 5))
    # The others use 75 % of the cores: runs differ by another 37.5 %.
    assert crowded[key] == pytest.approx((6.25, 10, 13.75))


def test_steps_need_no_more_cores_than_there_are() -> None:
    """Three cores for 10 ms would be six for the 5 ms without the batch."""
    used = Processors(4, (0.0,) * EQUAL_STEPS, machine=3.0, own=3.0, threads=3)
    fetched = {batch_times: {"vm": BatchTimes((5_000_000_000,) * EQUAL_STEPS, 0.0)}}
    finding = failing("input.bound", ["make_next_in_process"], 5.0, "input")
    known = {processor_signals: {"vm": used}, **fetched}
    after = predicted(on_host(input=5.0), finding, FOUR_CORES | known)
    assert after["make_next_in_process", "queue", 1] == pytest.approx((5, 5, 5))


def test_pauses_are_rarer_or_in_the_background() -> None:
    actions = ("write_checkpoints_another_jax", "write_less_often")
    finding = failing("gap.output", actions, 4.0, "output")
    assert predicted(on_host(output=4.0), finding) == {
        ("write_checkpoints_another_jax", "pause", None): pytest.approx((6, 7, 8)),
        ("write_less_often", "rarer", 10): pytest.approx((6.4, 6.4, 6.4)),
    }


def test_a_wait_needs_no_core_and_no_lock() -> None:
    finding = failing("host.wait", ["wait_on_another_thread"], 7.0, "wait")
    known = {machine_cores: {"vm": 1}}
    assert predicted(on_host(wait=7.0), finding, known) == {
        ("wait_on_another_thread", "overlap", None): pytest.approx((7, 7, 7))
    }


def test_work_that_computes_may_keep_pythons_lock() -> None:
    computes = (Fact(name="off_core", value=0.0, unit="percent"),)
    finding = failing("gap.callbacks", ["do_named_n"], 4.0, "output", facts=computes)
    after = predicted(on_host(output=4.0), finding, FOUR_CORES)
    # On another core next to the step, or in turns with it.
    assert after["do_named_n", "overlap", None] == pytest.approx((6, 8, 10))


def test_on_a_device_the_replay_decides() -> None:
    replayed = Saving(low=1.0, high=2.0, basis="replay")
    actions = ("return_tensors_step", "read_result_step")
    fields = {"devices": ("vm:0",), "saving_ms": replayed}
    finding = failing("gap.readback", actions, 3.0, "output", **fields)
    after = predicted(shares(output=3.0), finding)
    assert after["read_result_step", "replay", None] == pytest.approx((8, 8.5, 9))
    rare = after["return_tensors_step", "replay", 10]
    assert rare == pytest.approx((8.2, 8.65, 9.1))


def test_a_profiler_that_works_in_one_step_makes_no_step_scatter() -> None:
    each = {"output": 3 * MS, "compute_16": 7 * MS, "profiler": 0}
    first = {**each, "profiler": 12 * MS}
    recorded = [first] + [each] * (EQUAL_STEPS - 1)
    account = shares(
        fields={
            "window_ps": tuple(sum(step.values()) for step in recorded),
            "inside_ps": {own: tuple(step[own] for step in recorded) for own in each},
        },
    )
    fields = {
        "devices": ("vm:0",),
        "saving_ms": Saving(low=1.0, high=2.0, basis="replay"),
    }
    finding = failing("gap.readback", ["read_result_step"], 3.0, "output", **fields)
    # The mean recorded step lasts 11 ms.
    after = predicted(account, finding)
    assert after["read_result_step", "replay", None] == pytest.approx((9, 9.5, 10))


def test_on_a_device_without_a_replay_only_a_bound_is_known() -> None:
    finding = failing(
        "gap.readback", ["read_result_step"], 3.0, "output", devices=("vm:0",)
    )
    # The device works for 7 ms, so that no other run can be shorter.
    assert predicted(shares(output=3.0), finding) == {
        ("read_result_step", "bound", None): (pytest.approx(7 / 0.97), None, None)
    }


@pytest.mark.parametrize(
    "fields", [{"status": "pass"}, {"saving_ms": None}], ids=["pass", "no gain"]
)
def test_nothing_is_predicted_without_a_fault_or_a_gain(fields: Any) -> None:
    finding = failing("host.work", ["cache_results"], 3.0, "host_compute", **fields)
    assert predicted(on_host(host_compute=3.0), finding) == {}


def test_two_steps_predict_nothing() -> None:
    finding = failing("gap.output", ["write_less_often"], 4.0, "output")
    assert predicted(shares(device=None, steps=2, output=4.0), finding) == {}


def test_every_declared_model_exists_and_inquiries_have_no_other() -> None:
    for item in catalogue().rules.values():
        for action in item.declared_actions.values():
            assert set(action.models) <= {*_MODELS, "inquiry"}, action.id
            assert "inquiry" not in action.models or len(action.models) == 1


def test_prefetching_made_the_recorded_step_as_long_as_predicted(
    shared_profile: Any,
) -> None:
    before, after = (
        signals_of_profile(open_profile(shared_profile(f"experiments/{name}")))
        for name in ("tf_no_prefetch", "tf_prefetched")
    )
    windows = after.of(account_signals).shares[0].window_ps
    step_ms = sum(windows) / len(windows) / 1e9
    found = {one.id: one for one in evaluate(before)}["input.bound"]
    first = found.predictions[0].step_ms
    assert first.mid == pytest.approx(step_ms, rel=0.05)
    assert first.low < step_ms < (first.high or 0.0)


@pytest.mark.slow(seconds=12)
@pytest.mark.integration
def test_most_advised_changes_have_a_prediction() -> None:
    changes = [
        (finding, action)
        for name in recorded_runs(DATA)
        for finding, action in advised_changes(name)
    ]
    have = [
        next((one for one in finding.predictions if one.action == action.id), None)
        for finding, action in changes
    ]
    assert len(changes) > 200
    known = [one for one in have if one is not None]
    assert len(known) >= 0.7 * len(changes)
    # The others have a lower bound only.
    assert sum(one.step_ms.mid is not None for one in known) >= 0.35 * len(changes)


def advised_changes(name: str) -> list[tuple[Finding, Action]]:
    """The actions for the program's frameworks that change its steps."""
    signals = signals_of_profile(open_profile(DATA / name))
    frameworks = signals.of(frameworks_used)
    return [
        (finding, action)
        for finding in evaluate(signals)
        for action in fitting_actions(finding, frameworks)
        if action.models != ("inquiry",)
    ]
