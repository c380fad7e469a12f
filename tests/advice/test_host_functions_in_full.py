"""Which function of a literal host holds up its steps, worked out by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace
from tests.advice.conftest import shares, signals_of
from tests.advice.host_functions import MS, named, op, part_of, runs_of, time_of
from tests.support.traces.literal import spans_of

from stepscope.advice.judging.host_functions import (
    HostFunction,
    are_ops_of_function,
    host_functions,
    rule_of_ops,
)
from stepscope.derive.facts.devices.small_work import small_ops
from stepscope.derive.facts.hosts.callbacks import CalledBack, called_back
from stepscope.derive.facts.hosts.eager_ops import eager_signals
from stepscope.derive.facts.hosts.function_runs import function_runs
from stepscope.derive.facts.hosts.own_lines import OwnLines
from stepscope.derive.facts.processors import asleep
from stepscope.derive.facts.step_shares import NamedTime
from stepscope.derive.frameworks import PLAIN, frameworks_used
from stepscope.derive.intervals.spans import Spans
from stepscope.thresholds import THRESHOLDS


def found(
    *names: NamedTime, runs: Any = None, account: Any = None, **given: Any
) -> Any:
    one = account or shares(device=None, steps=10, names=names)
    known = {function_runs: {} if runs is None else {"vm": runs}}
    known |= {frameworks_used: given.pop("used", ("torch",))}
    known |= {called_back: {"vm": given.pop("called", CalledBack())}}
    return host_functions(signals_of(one, known, **given), one)


NESTED = ("outer", "inner")


def len_of_others(times: Any) -> int:
    """Each function calls the next one, which takes nearly all of its time."""
    return len(times) - 1


def only(time: Any, ms: float = 20) -> HostFunction:
    (function,) = found(named("f", ms), runs=runs_of(f=time)).every
    return function


def test_without_calls_only_self_time_is_known() -> None:
    (function,) = found(named("f", 20), named("Conv", 30, op=True)).every
    assert function == HostFunction(part_of("f", 20.0), 20.0)
    assert function.is_step
    assert function.times_ps() == ()


@pytest.mark.parametrize(
    ("fields", "share", "calls_model", "is_step", "is_seen"),
    [
        ({"ms": 3}, 30.0, False, False, True),
        ({"ms": 1}, 20.0, False, False, True),
        ({"ms": 2}, 20.0, False, False, True),
        ({"ms": 3, "looks": 3}, 30.0, False, False, True),
        ({"ms": 3, "looks": 2}, 30.0, False, False, False),
        ({"ms": 3, "is_in_the_model": True}, 30.0, False, True, True),
        ({"ms": 3, "is_the_step": True}, 30.0, False, True, True),
        ({"ms": 3, "calls_the_model": True}, 30.0, True, False, True),
        (
            {"ms": 3, "calls_the_model": True, "is_the_step": True}
            | {"mostly_predicts": True, "is_in_the_model": True},
            *(30.0, False, False, True),
        ),
    ],
)
def test_every_field_of_a_function(
    fields: Any, share: float, *, calls_model: bool, is_step: bool, is_seen: bool
) -> None:
    time = time_of(**fields)
    assert only(time) == HostFunction(
        part_of("f", share, inclusive=share > 20.0),
        *(20.0, time),
        calls_model=calls_model,
        is_step=is_step,
        is_seen=is_seen,
    )
    assert only(time).times_ps() == time.times_ps


def test_work_of_a_function_between_ops_of_the_model_counts_alone() -> None:
    alone = spans_of((0, 12 * MS), (15 * MS, 28 * MS))
    time = time_of(3, calls_the_model=True, alone=alone)
    assert only(time) == HostFunction(
        part_of("f", 25.0), 25.0, time, is_step=True, alone=alone
    )
    assert only(time).times_ps() == (10 * MS, 7 * MS, 8 * MS, *[0] * 7)
    scaled = replace(only(time), scale=1.5)
    assert scaled.times_ps() == (10 * MS, 10 * MS, 10 * MS, *[0] * 7)
    assert replace(scaled, scale=1.2).times_ps()[1:3] == (8_400_000_000, 9_600_000_000)
    without = time_of(3, alone=alone)
    assert only(without).alone is None


@pytest.mark.parametrize(
    ("own", "fields", "holds"),
    [
        (20.0, {}, True),
        (19.99, {}, False),
        (5.0, {"is_step": False}, True),
        (5.0, {"is_step": True}, False),
        (20.0, {"calls_model": True}, False),
        (20.0, {"is_seen": False}, False),
    ],
)
def test_a_fifth_of_a_step_holds_it_up(own: float, fields: Any, *, holds: bool) -> None:
    function = HostFunction(part_of("f", 20.0), own, **fields)
    assert function.holds_up() is holds


@pytest.mark.parametrize(
    ("fields", "wastes"),
    [
        ({}, False),
        ({"collects_percent": 5.0}, True),
        ({"collects_percent": 4.99}, False),
        ({"collects_percent": 5.0, "repeats": False}, False),
        ({"collects_percent": 5.0, "collecting": 50.0}, False),
        ({"collects_percent": 5.0, "collecting": 49.9}, True),
        ({"works": {"copies": 50.0}}, True),
        ({"works": {"copies": 49.9}}, False),
        ({"works": {"compiles_patterns": 50.0}}, True),
        ({"works": {"reports": 50.0}}, True),
        ({"works": {"works_on_rows": 50.0}}, True),
        ({"works": {"parses": 90.0, "copies": 40.0}}, False),
    ],
)
def test_work_that_can_be_avoided_is_waste(fields: Any, *, wastes: bool) -> None:
    function = HostFunction(part_of("f", 20.0), 20.0, time_of(2, **fields))
    assert function.does_waste() is wastes
    assert not replace(function, own_percent=19.0).does_waste()
    assert not replace(function, time=None).does_waste()


# --- all functions of a host ---


@pytest.mark.parametrize(
    ("names", "used", "has_model"),
    [
        ([op(1e-9)], ("torch",), True),
        ([], ("torch",), False),
        ([op(5)], (), True),
        ([op(4.99)], (), False),
        ([op(5)], PLAIN, True),
        ([op(4.99)], PLAIN, False),
        ([op(3), op(2, "Add")], (), True),
        ([op(90, "garbage collection")], ("torch",), False),
        ([named("f", 50)], ("torch",), False),
        ([NamedTime("host_compute", "inside", None, time_ps=MS)], ("torch",), False),
        ([NamedTime("input", "inside", "Conv", time_ps=MS)], ("torch",), False),
        ([NamedTime("host_compute", "between", "C", time_ps=MS)], ("torch",), False),
    ],
)
def test_ops_show_a_model(names: Any, used: Any, *, has_model: bool) -> None:
    assert found(*names, used=used).has_model is has_model


def test_the_function_with_the_largest_share_blocks_a_model() -> None:
    small, large = named("small", 25), named("large", 30)
    functions = found(small, op(10), large)
    assert functions.blocking is not None
    assert functions.blocking.part.name == "large"
    assert [one.part.name for one in functions.every] == ["large", "small"]
    assert found(op(10), named("less", 19)).blocking is None
    account = shares(device=0, steps=10, names=[op(10), large])
    assert found(account=account).every == ()


@pytest.mark.parametrize("has_model", [True, False])
def test_the_innermost_callee_with_most_of_the_work_blocks(*, has_model: bool) -> None:
    fields = {"works": {"copies": 60.0}, "innermost": len_of_others}
    times = {name: time_of(0, **fields) for name in ("outer", "inner")}
    names = [named("inner", 20), named("outer", 30), named("clean", 19)]
    names += [op(1)] if has_model else []
    assert found(*names, runs=runs_of(**times)).blocking.part.name == "inner"
    if not has_model:
        assert found(*names).blocking is None


@pytest.mark.parametrize("only_itself", ["inner", "outer"])
def test_of_a_function_around_the_model_no_callee_blocks(only_itself: str) -> None:
    """Its self time counts, as does the time of a function that works between ops."""
    for fields in (
        {"is_the_step": True},
        {"calls_the_model": True, "alone": spans_of((0, 30 * MS))},
    ):
        times = {name: time_of(0, innermost=len_of_others) for name in NESTED}
        times[only_itself] = time_of(0, innermost=len_of_others, **fields)
        names = [named("inner", 25), named("outer", 30), op(1)]
        functions = found(*names, runs=runs_of(**times))
        assert functions.blocking.part.name == "outer"


def test_which_functions_of_a_host_are_judged() -> None:
    """Loops are steps; what an op calls back, and what only observes, is not judged."""
    caller = NamedTime(
        "host_compute", "inside", "fn", function="caller", time_ps=60 * MS
    )
    account = shares(
        device=None,
        steps=10,
        names=[named("f", 5), named("loop", 40, loop=True), named("back", 9)],
        fields={"callers": (caller,)},
    )
    called = CalledBack((part_of("back", 22.0),), (part_of("look", 3.0),))
    own = (part_of("f", 0.0), part_of("g", 0.0), part_of("look", 0.0))
    runs = runs_of(own, caller=time_of(7), g=time_of(3), f=time_of(0.1))

    def judged(**given: Any) -> list[tuple[str, float, float, bool]]:
        functions = found(account=account, called=called, **given).every
        return [
            (one.part.name, one.part.share_percent, one.own_percent, one.is_called_back)
            for one in functions
        ]

    back = ("back", 22.0, 22.0, True)
    assert judged(runs=runs) == [
        *(("f", 5.0, 5.0, False), ("caller", 70.0, 0.0, False)),
        *(("g", 30.0, 0.0, False), back),
    ]
    for used in ((), PLAIN):
        found_names = [name for name, *_ in judged(runs=runs, used=used)]
        assert found_names == ["f", "caller", "back"]
    assert judged() == [("f", 5.0, 5.0, False), back]


def lines(**fields: Any) -> OwnLines:
    working = spans_of((0, 10 * MS), (20 * MS, 25 * MS))
    usual = {"first": 5, "last": 7, "spans": working, "working": working}
    return OwnLines(**{**usual, "sampled_ps": 18 * MS, "looks": 3, **fields})


@pytest.mark.parametrize(
    ("blurred", "fields", "share", "scale", "seen"),
    [
        (False, {}, 15.0, 1.0, True),
        (True, {}, 18.0, 1.2, True),
        (True, {"sampled_ps": 14 * MS}, 15.0, 1.0, True),
        (False, {"looks": 2}, 15.0, 1.0, False),
        (True, {"working": Spans.empty()}, 0.0, 1.0, True),
    ],
)
def test_lines_around_the_model_are_judged_alone(
    fields: Any, share: float, scale: float, *, blurred: bool, seen: bool
) -> None:
    """Of the loop, and of a function that calls the model, but of no other function."""
    line = lines(**fields)
    loop = time_of(own_lines=(line,))
    step = time_of(5, own_lines=(line,), calls_the_model=True)
    other = time_of(5, own_lines=(line,))
    functions = found(
        *(named("loop", 40, loop=True), named("step", 9), named("f", 8)),
        runs=runs_of(loop=loop, step=step, f=other, blurred=blurred),
    ).every
    assert [one.part.name for one in functions] == ["step", "f", "loop", "step"]
    for function, time in zip(functions[2:], (loop, step), strict=True):
        assert function == HostFunction(
            part_of(function.part.name, pytest.approx(share), lines=(5, 7)),
            pytest.approx(share),
            time,
            is_seen=seen,
            alone=line.working,
            scale=pytest.approx(scale),
        )


# --- ops of a function ---


def eager(dispatch_ms: float, *, leads: bool = True) -> Any:
    ops = SimpleNamespace(
        lead=lambda thresholds: leads and thresholds is THRESHOLDS,
        dispatch_ps=(round(dispatch_ms * MS) - MS, MS),
    )
    return {eager_signals: SimpleNamespace(hosts={"vm": ops})}


def tiny(dispatch_ms: float, own_ms: float) -> Any:
    ops = SimpleNamespace(
        dispatch_ps=(round(dispatch_ms * MS) - MS, MS), own_ps=(round(own_ms * MS), 0)
    )
    return {small_ops: {"vm": ops}}


@pytest.mark.parametrize(
    ("given", "rules"),
    [
        # Of 1 ms in each of ten steps 0.6 are enough.
        (eager(6.0), ("launch.eager",)),
        (eager(5.99), ()),
        (eager(5.99) | tiny(6.0, 6.0), ()),
        (eager(9.0, leads=False), ()),
        (eager(9.0, leads=False) | tiny(6.0, 6.0), ("launch.small",)),
        (tiny(3.0, 3.0), ("launch.small",)),
        (tiny(3.0, 2.99), ()),
        (tiny(2.99, 9.0), ()),
        ({}, ()),
        ({eager_signals: SimpleNamespace(hosts={}), small_ops: {}}, ()),
    ],
)
def test_a_function_whose_time_is_ops_is_a_matter_of_these(
    given: Any, rules: tuple[str, ...]
) -> None:
    one = shares(device=None, steps=10)
    assert rule_of_ops(signals_of(one, given), one, 1.0) == rules
    assert one.mean_ms(one.total_ps) == 10.0
    empty = shares(device=None, steps=0)
    assert empty.mean_ms(empty.total_ps) == 0.0


@pytest.mark.parametrize(
    ("caller", "given", "are"),
    [
        ("f", {}, True),
        ("g", {}, False),
        (None, {}, False),
        ("f", {asleep: {"vm": {"wait": "waits"}}}, False),
        ("f", {asleep: {"other": {"wait": "waits"}}}, True),
        # Of 2.5 ms in each step 1.5 are its ops.
        ("f", tiny(10.0, 5.0), False),
        ("f", tiny(10.0, 4.99), True),
    ],
)
def test_ops_go_with_the_function_that_calls_them(
    caller: str | None, given: Any, *, are: bool
) -> None:
    one = shares(device=None, steps=10, names=[op(10), named("f", 25)])
    signals = signals_of(one, {frameworks_used: ("torch",), **given})
    part = None if caller is None else part_of(caller, 1.0)
    assert are_ops_of_function(signals, one, part) is are
    none = shares(device=None, steps=10, names=[op(10)])
    assert not are_ops_of_function(signals, none, part)
