"""Rules about compilers, and ops on the host, over literal signals: whole findings."""

from __future__ import annotations

from typing import Any

import pytest

from stepscope.advice.rules.compilation import compiling
from stepscope.advice.rules.copies import ops_on_host
from stepscope.advice.rules.running import debug_print
from stepscope.derive.facts.devices.op_sides import HostPlaced, placement_signals
from stepscope.derive.facts.hosts.compilations import CompiledFunction, compile_signals
from stepscope.derive.facts.program_traits import anomaly_checks, blocking_calls

MS = 1_000_000_000


def facts_of(finding: Any) -> dict[str, tuple[float | None, str | None]]:
    return {fact.name: (fact.value, fact.note) for fact in finding.facts}


FUNCTIONS = (
    CompiledFunction("f", 3, 6 * MS),
    CompiledFunction("g", 5, 3 * MS, "tensor 'x' size mismatch"),
    CompiledFunction("h", 1, 2 * MS),
    CompiledFunction("i", 1, 1 * MS),
)


def test_everything_about_functions_that_are_compiled_again(
    signals_of: Any, shares: Any
) -> None:
    one = shares(compile=[9.0, 9.0, *[1.0] * 10])
    signals = signals_of(one, {compile_signals: {"vm": FUNCTIONS}})
    finding = compiling.judge_recompiled(signals)
    assert (finding.status, finding.because) == ("fail", ("shapes", "repeats"))
    # 28 of 120 ms are compilation; of the parts three are named.
    share = 100 * 28 / 120
    assert [(it.name, it.detail, it.share_percent) for it in finding.parts] == [
        ("f", None, pytest.approx(share / 2)),
        ("g", "tensor 'x' size mismatch", pytest.approx(share / 4)),
        ("h", None, pytest.approx(share / 6)),
    ]
    facts = facts_of(finding)
    assert facts["late"][0] == pytest.approx(10.0)
    assert facts["later_steps"][0] == 10
    assert facts["in_steps"] == (3, "tensor 'x' size mismatch")
    assert facts["functions"][0] == 4
    assert finding.inputs == ("account", "event_kinds", "host_values")
    assert finding.explained_by == ()
    # Only what comes after the first steps can be saved: 10 ms in 12 steps.
    assert finding.saving_ms.high == pytest.approx(10 / 12)


@pytest.mark.parametrize(
    ("late", "functions", "status", "note", "because"),
    [
        # From a fiftieth of the later steps on it is no warm-up.
        (0.2, FUNCTIONS, "fail", None, ("shapes", "repeats")),
        (0.19, FUNCTIONS, "pass", "warm_up", ("shapes", "repeats")),
        (0.0, FUNCTIONS, "pass", "warm_up", ()),
        (0.2, FUNCTIONS[:1], "fail", None, ("repeats",)),
        (0.2, (CompiledFunction("g", 2, MS, "other"),), "fail", None, ()),
        (0.2, (CompiledFunction("g", 2, MS, "new shape"),), "fail", None, ("shapes",)),
        (0.2, (), "fail", None, ()),
    ],
)
def test_what_comes_back_after_the_first_steps_is_no_warm_up(
    signals_of: Any,
    shares: Any,
    *,
    late: float,
    functions: tuple[CompiledFunction, ...],
    status: str,
    note: str | None,
    because: tuple[str, ...],
) -> None:
    one = shares(compile=[9.0, 9.0, *[late] * 10])
    signals = signals_of(one, {compile_signals: {"vm": functions}})
    finding = compiling.judge_recompiled(signals)
    assert (finding.status, finding.because) == (status, because)
    if note is not None or status == "pass":
        assert finding.note == note
    facts = facts_of(finding)
    assert facts["late"][0] == pytest.approx(10 * late)
    repeated = functions[0].steps if functions else 0
    assert facts["in_steps"][0] == repeated


def test_little_that_repeats_is_told_of_a_pass(signals_of: Any, shares: Any) -> None:
    for steps, note in ((3, "repeats"), (2, None)):
        functions = (CompiledFunction("f", steps, MS),)
        one = shares(compile=0.01)
        signals = signals_of(one, {compile_signals: {"vm": functions}})
        finding = compiling.judge_recompiled(signals)
        assert (finding.status, finding.note) == ("pass", note)


PLACED = (
    HostPlaced("MatMul", "heavy", 60 * MS),
    HostPlaced("PyFunc", "callback", 24 * MS),
    HostPlaced("Mul", "model", 12 * MS),
    HostPlaced("Conv", "heavy", 6 * MS),
    HostPlaced("Dot", "heavy", 3 * MS),
)


@pytest.mark.parametrize(
    ("judge", "kinds", "causes"),
    [
        (
            ops_on_host.judge_work_on_host,
            ("heavy", "callback"),
            {"products": 69.0, "callbacks": 24.0},
        ),
        (ops_on_host.judge_overridden_ops, ("model",), {"overridden": 12.0}),
    ],
)
def test_work_of_the_host_is_divided_by_the_kind_of_its_ops(
    signals_of: Any,
    shares: Any,
    *,
    judge: Any,
    kinds: tuple[str, ...],
    causes: dict[str, float],
) -> None:
    # 120 of 240 ms.
    one = shares(step_ms=20.0, host_compute=10.0)
    signals = signals_of(one, {placement_signals: {"vm:0": PLACED}})
    finding = judge(signals)
    total = sum(causes.values())
    assert finding.status == "fail"
    assert finding.value == pytest.approx(100 * total / 240)
    assert {it.cause: it.share_percent for it in finding.causes} == {
        cause: pytest.approx(100 * ms / 240) for cause, ms in causes.items()
    }
    ops = [op for op in PLACED if op.kind in kinds]
    assert [(part.name, part.share_percent) for part in finding.parts] == [
        (op.name, pytest.approx(100 * op.time_ps / (240 * MS))) for op in ops[:3]
    ]
    assert facts_of(finding)["ops"][0] == len(ops)
    effect = total / 12
    assert finding.ms_per_step == pytest.approx(effect)
    assert finding.saving_ms.high == pytest.approx(effect)
    assert finding.saving_ms.low == 0
    assert finding.devices == ("vm:0",)
    # A pass has no saving.
    passing = judge(signals_of(one, {placement_signals: {}}))
    assert (passing.status, passing.saving_ms, passing.parts) == ("pass", None, ())


@pytest.mark.parametrize(
    ("calls", "checks", "because", "title"),
    [
        (90.0, 0.0, ("blocking",), "title_blocking"),
        (89.9, 0.0, (), None),
        (None, 2.0, ("anomaly",), "title_anomaly"),
        (None, 1.9, (), None),
        (95.0, 3.0, ("blocking", "anomaly"), "title_blocking"),
        (None, None, (), None),
    ],
)
def test_debugging_modes_fail_whatever_their_time(
    signals_of: Any,
    shares: Any,
    *,
    calls: float | None,
    checks: float | None,
    because: tuple[str, ...],
    title: str | None,
) -> None:
    given = {
        blocking_calls: {} if calls is None else {"vm": calls},
        anomaly_checks: {} if checks is None else {"vm": checks},
    }
    finding = debug_print.evaluate(signals_of(shares(), given))
    item = debug_print.evaluate.item
    assert finding.status == ("fail" if because else "pass")
    assert finding.severity == ("warn" if because else "info")
    assert finding.because == because
    assert finding.title == (item.note(title) if title else item.title)
    assert finding.note == (because[0] if because else None)
    facts = facts_of(finding)
    assert (facts["blocking"][0], facts["checks"][0]) == (calls, checks or None)
    assert finding.devices == ("vm:0",)
    assert finding.inputs == ("account", "account_parts", "correlation")
    if because:
        assert finding.actions == item.actions_for(*because)
