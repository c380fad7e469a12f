"""`launch.eager`: one by one, the same in one call, and others that cost nothing."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.traces import blueprint
from tests.support.traces.judged import Judged
from tests.support.traces.training import KERNELS, Recorder, findings, together

from stepscope.advice.engine import signals_of
from stepscope.advice.rules.launches.op_launches import judge_eager_ops as evaluate
from stepscope.derive.facts.hosts.eager_ops import EagerOps, EagerSignals, eager_signals
from stepscope.derive.verdicts.recorded_devices import DeviceSignals
from stepscope.reporting.compose import judge_profile

RULE = "launch.eager"
STEPS = 12
HOST_ONLY = DeviceSignals(recorded="host_only")


def one_by_one(
    *, ops: int = 100, op_us: float = 60.0, pause_us: float = 40.0, **stats: Any
) -> list[Any]:
    """A step of the host whose ops are calls of their own."""
    made = Recorder()
    step_us = 10_000.0
    for number in range(STEPS):
        begin = step_us * number
        made.mark(number, begin, step_us - 5.0)
        for at in range(ops):
            start = begin + 10.0 + (op_us + pause_us) * at
            stats = {"is_eager": 1}
            made.lines.append(("main", f"op_{at}:Mul", start, op_us, stats))
    return made.lines


def in_one_call() -> list[Any]:
    """The same ops inside one call of a function."""
    return [
        (*line[:4], {"is_eager": 0}) if line[1].endswith(":Mul") else line
        for line in one_by_one()
    ]


def launched(*, eager: int, apart_us: float) -> list[Any]:
    """A device whose 200 kernels of 10 µs each wait for an op of their own."""
    made = Recorder()
    for number in range(STEPS):
        begin = 10_000.0 * number
        made.mark(number, begin, 9_900.0)
        for at in range(200):
            called = begin + 20.0 + apart_us * at
            stats = {"is_eager": eager}
            made.lines.append(("main", f"m/mul_{at}:Mul", called - 2.0, 12.0, stats))
            made.launch(("mul_kernel", 10.0, f"m/mul_{at}:Mul"), called, called + 8.0)
    return made.lines


def facts_of(found: Any) -> dict[str, float | None]:
    return {fact.name: fact.value for fact in found.facts}


def test_ops_that_are_called_one_by_one_are_found() -> None:
    found = findings(one_by_one(), devices=None)[RULE]
    assert (found.status, found.severity) == ("fail", "critical")
    assert facts_of(found) == {"per_step": 100.0, "eager": 100.0}
    # From the last op of a step to the next step's first there are 45 µs.
    assert found.value == pytest.approx(100 * (99 * 40 + 45) / 10_000, abs=0.5)
    assert found.parts[0].name == "Mul"
    assert found.saving_ms is not None
    assert (found.saving_ms.low, found.explained_by) == (0.0, ())


def test_the_same_ops_in_one_function_pass() -> None:
    found = findings(in_one_call(), devices=None)[RULE]
    assert (found.status, facts_of(found)["eager"]) == ("pass", 0.0)


def test_long_ops_one_after_the_other_cost_nothing() -> None:
    found = findings(one_by_one(op_us=99.5, pause_us=0.5), devices=None)[RULE]
    assert (found.status, found.note) == ("pass", "hidden")


def test_eager_ops_of_a_validation_are_not_the_steps() -> None:
    lines = in_one_call()
    begin = 10_000.0 * STEPS + 100.0
    lines += [
        ("main", f"v_{at}:Mul", begin + 50.0 * at, 20.0, {"is_eager": 1})
        for at in range(400)
    ]
    assert findings(lines, devices=None)[RULE].status == "pass"


def test_a_device_that_waits_for_ops_called_one_by_one_is_found() -> None:
    lines = launched(eager=1, apart_us=45.0)
    found = findings(lines)
    assert (found[RULE].status, found[RULE].explained_by) == ("fail", ("launch.delay",))
    assert found[RULE].saving_ms is None
    assert found["launch.delay"].status == "fail"


def test_the_same_waits_for_one_graph_are_no_matter_of_eager_ops() -> None:
    found = findings(launched(eager=0, apart_us=45.0))
    assert (found[RULE].status, found[RULE].note) == ("pass", None)
    assert found["launch.delay"].status == "fail"


def test_primitives_of_jax_called_one_by_one_are_found() -> None:
    lines = [
        (track, "PjitFunction(add)" if name.endswith(":Mul") else name, *rest)
        for track, name, *rest in one_by_one()
    ]
    lines += [("pool", "wrapped_add:add", 10_000.0 * at, 9.0) for at in range(STEPS)]
    found = findings(lines, devices=None)[RULE]
    assert (found.status, found.parts[0].name) == ("fail", "add")
    assert facts_of(found)["eager"] is None


def test_a_call_of_jax_costs_what_its_instructions_do_not_take() -> None:
    """Each call of 60 µs computes for 20 of them; between two lie 40 µs."""
    calls = [
        (track, "PjitFunction(add)" if name.endswith(":Mul") else name, *rest)
        for track, name, *rest in one_by_one()
    ]
    lines = calls + [
        ("pool", "add.1", start + 15.0, 20.0, {"hlo_op": "add.1"})
        for _, name, start, *_ in calls
        if name.startswith("Pjit")
    ]
    found = findings(lines, devices=None)[RULE]
    cost = 100 * 40 + 99 * 40 + 45
    assert found.value == pytest.approx(100 * cost / 10_000, abs=0.5)


def test_the_function_that_calls_the_ops_is_named_with_its_line() -> None:
    lines = one_by_one()
    begins = [line[2] for line in lines if line[1] == "train"]
    lines += [
        ("main", "$/app/train.py:31 update", begin + 1.0, 9_990.0) for begin in begins
    ]
    profile = blueprint.profile(blueprint.trace(lines, devices={}))
    named = Judged(signals_of(profile))[RULE].parts[0]
    assert (named.function, named.file, named.line) == ("update", "/app/train.py", 31)
    said = judge_profile(profile).headline
    assert said.finding == RULE
    assert "called from `update` (train.py:31)" in said.text


def test_a_step_of_few_calls_passes() -> None:
    found = findings(one_by_one(ops=4), devices=None)[RULE]
    assert found.status == "pass"


@pytest.mark.parametrize("table", ["events", "stats"])
def test_a_table_that_is_needed_and_absent_never_becomes_a_pass(table: str) -> None:
    found = findings(one_by_one(), devices=None, without=table)[RULE]
    assert found.status == "cannot_tell"
    assert found.unavailable is not None


@pytest.mark.parametrize("table", ["device_activity", "launches"])
def test_what_a_device_does_must_be_known_where_there_is_one(table: str) -> None:
    found = findings(launched(eager=1, apart_us=45.0), without=table)[RULE]
    assert found.status == "cannot_tell"


def test_ops_that_do_not_say_how_they_ran_cannot_tell() -> None:
    assert len(KERNELS) > 100
    assert findings(together())[RULE].status == "cannot_tell"


def eager(**fields: Any) -> EagerSignals:
    ops = {
        "eager_ps": 50,
        "op_ps": 100,
        "dispatch_ps": (400_000_000,) * 12,
        "per_step": 30.0,
        "names": (("Mul", 100.0),),
    }
    return EagerSignals({"vm": EagerOps(**(ops | fields))}, torch=False)


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({}, "fail"),
        ({"dispatch_ps": (290_000_000,) * 12}, "pass"),
        ({"per_step": 19.0}, "pass"),
        ({"eager_ps": 9}, "pass"),
        ({"op_ps": None}, "fail"),
    ],
)
def test_number_share_and_cost_must_all_be_there(
    signals_of: Any, shares: Any, fields: Any, status: str
) -> None:
    given = {eager_signals: eager(**fields)}
    signals = signals_of(shares(device=None), given, device=HOST_ONLY)
    assert evaluate(signals).status == status


def test_pytorch_is_not_judged(signals_of: Any, shares: Any) -> None:
    given = {eager_signals: EagerSignals({}, torch=True)}
    signals = signals_of(shares(), given)
    assert evaluate(signals).status == "not_applicable"


def test_waits_that_lost_records_may_be_cannot_tell(
    signals_of: Any, shares: Any
) -> None:
    one = shares(launch=0.35, fields={"lost_ps": 2_000_000_000})
    signals = signals_of(one, {eager_signals: eager()})
    assert evaluate(signals).status == "cannot_tell"


def copied(*, op_us: float, pause_us: float) -> list[Any]:
    """A step: 4 ms of one graph, then a function that calls 50 ops one by one."""
    made = Recorder()
    for number in range(STEPS):
        begin = 10_000.0 * number
        made.mark(number, begin, 9_995.0)
        for at, name in enumerate(("a", "b", "c", "d")):
            start = begin + 10.0 + 1_000.0 * at
            made.lines.append(
                ("main", f"m/{name}:Mul{name}", start, 999.0, {"is_eager": 0})
            )
        made.lines += [
            (
                *("main", "keep:Copy", begin + 4_100.0 + (op_us + pause_us) * at),
                *(op_us, {"is_eager": 1}),
            )
            for at in range(50)
        ]
        made.lines.append(
            ("main", "$/app/train.py:31 keep_best", begin + 4_050.0, 5_800.0)
        )
    return made.lines


def test_ops_of_a_function_that_is_a_finding_itself_are_no_step_to_compile() -> None:
    """The story: to copy the weights in each step, one by one, was to be compiled."""
    found = findings(copied(op_us=80.0, pause_us=30.0), devices=None)
    work = found["host.work"]
    assert (work.status, work.explained_by) == ("fail", ())
    assert (work.parts[0].name, found[RULE].parts[0].name) == ("keep_best",) * 2
    assert (found[RULE].status, found[RULE].explained_by) == ("fail", ("host.work",))


def test_ops_that_take_most_of_their_function_to_begin_explain_it() -> None:
    found = findings(copied(op_us=20.0, pause_us=90.0), devices=None)
    assert found["host.work"].explained_by == (RULE,)
    assert found[RULE].explained_by == ()
