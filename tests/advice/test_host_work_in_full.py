"""Every number of `host.work` over literal functions, worked out by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from tests.advice.conftest import shares, signals_of
from tests.advice.host_functions import MS, named, op, part_of, runs_of, time_of
from tests.support.traces.literal import spans_of

from stepscope.advice.catalogue import rule_item
from stepscope.advice.registry import RULES
from stepscope.derive.facts.devices.small_work import small_ops
from stepscope.derive.facts.evidence import Part, Saving
from stepscope.derive.facts.hosts.callbacks import CalledBack, called_back
from stepscope.derive.facts.hosts.function_divisions import (
    TimeDivision,
    function_divisions,
)
from stepscope.derive.facts.hosts.function_runs import function_runs
from stepscope.derive.facts.hosts.own_lines import OwnLines, enclosing_functions
from stepscope.derive.facts.hosts.worker_processes import (
    machine_cores,
)
from stepscope.derive.facts.program_traits import collected_by_hand
from stepscope.derive.frameworks import frameworks_used
from stepscope.derive.verdicts.recorded_devices import DeviceSignals

if TYPE_CHECKING:
    from stepscope.derive.intervals.spans import Spans

ITEM = rule_item("host.work")
RULE = next(rule for rule in RULES if rule.item.id == "host.work")
HOST_ONLY = DeviceSignals(recorded="host_only")


def signals(time: Any = None, account: Any = None, **known: Any) -> Any:
    """A function `f` with 25 % of the steps in its own code, beside ops of a model."""
    one = account or shares(device=None, steps=10, names=[op(60), named("f", 25)])
    given = {frameworks_used: ("torch",)}
    if time is not None:
        given[function_runs] = {"vm": runs_of(f=time)}
    return signals_of(one, given | known.pop("known", {}), device=HOST_ONLY, **known)


def judged(time: Any = None, **given: Any) -> Any:
    return RULE.evaluate(signals(time, **given))


def facts_of(finding: Any) -> dict[str, float]:
    return {fact.name: fact.value for fact in finding.facts if fact.value is not None}


BY_HAND = "collects_perhaps_by_hand"
RARE = {"times_ps": (0,) * 6 + (15 * MS // 2,) * 4}
OFTEN = {"times_ps": (0,) * 5 + (6 * MS,) * 5}


@pytest.mark.parametrize(
    ("fields", "groups"),
    [
        ({"exchanging": 50.0}, ("exchanges",)),
        ({"exchanging": 49.9}, ("default",)),
        ({"collecting": 50.0}, ("collects_perhaps_by_hand",)),
        ({"exchanging": 50.0, "collecting": 90.0}, ("exchanges",)),
        (
            {"collecting": 50.0, "works": {"copies": 90.0}},
            ("collects_perhaps_by_hand",),
        ),
        *(
            ({"works": {work: 50.0}}, (work,))
            for work in ("copies", "compiles_patterns", "unpacks", "parses", "writes")
        ),
        *(
            ({"works": {work: 50.0}}, (work,))
            for work in ("reports", "works_on_rows", "decodes_images", "draws_numbers")
        ),
        ({"works": {"starts_processes": 50.0}}, ("starts_processes",)),
        ({"works": {"parses": 60.0, "unpacks": 50.0}}, ("unpacks",)),
        ({"works": {"parses": 49.9}}, ("default",)),
        ({"works": {"parses": 90.0}, "mostly_predicts": True}, ("predicts",)),
        ({"asks_the_model": True, "ops_percent": 90.0}, ("asks_the_model",)),
        ({"asks_the_model": True, "works": {"parses": 50.0}}, ("parses",)),
        ({"ops_percent": 50.0}, ("runs_ops", "move_into_pipeline", "do_it_rarely")),
        # What calls NumPy cannot be compiled as it is.
        (
            {"ops_percent": 50.0, "calls_numpy": True},
            ("runs_ops_and_numpy", "move_into_pipeline", "do_it_rarely"),
        ),
        ({"ops_percent": 49.9}, ("default",)),
        (RARE | {"ops_percent": 50.0}, ("do_it_rarely", "runs_ops")),
        (
            OFTEN | {"ops_percent": 50.0},
            ("runs_ops", "move_into_pipeline", "do_it_rarely"),
        ),
    ],
)
def test_what_a_function_spends_half_of_its_time_on_is_advised(
    fields: Any, groups: tuple[str, ...]
) -> None:
    finding = judged(time_of(**{"ms": 3, **fields}))
    assert finding.status == "fail"
    assert finding.actions == ITEM.chosen(*groups)


@pytest.mark.parametrize(
    ("by_hand", "group"),
    [(True, "do_not_collect_by_hand"), (False, "collects")],
)
def test_collections_by_hand_are_told_apart(*, by_hand: bool, group: str) -> None:
    known = {collected_by_hand: {"vm": by_hand}}
    finding = judged(time_of(3, collecting=50.0), known=known)
    assert finding.actions == ITEM.chosen(group)


def test_what_few_steps_do_is_to_be_done_rarely() -> None:
    rarely = ITEM.action("do_it_rarely")
    default = ITEM.chosen("default")
    first = (rarely, *(action for action in default if action != rarely))
    assert judged(time_of(3, **RARE)).actions == first
    assert judged(time_of(3, **OFTEN)).actions == default
    few = {"times_ps": (0,) * 5 + (9 * MS,) * 2}
    account = shares(device=None, steps=7, names=[op(40), named("f", 18)])
    assert judged(time_of(3, **few), account=account).actions == default


@pytest.mark.parametrize(
    ("fields", "saving"),
    [
        # 30 ms in ten steps, 20 ms, and none of which the steps are known.
        ({"ms": 3}, Saving(low=1.5, high=3.0)),
        ({"ms": 2}, Saving(low=1.0, high=2.0)),
        ({"ms": 0}, Saving(low=1.25, high=2.5)),
        ({"ms": 0, "times_ps": (3 * MS,) * 9}, Saving(low=1.35, high=2.7)),
    ],
)
def test_a_function_saves_half_of_its_time_or_all(fields: Any, saving: Any) -> None:
    found = judged(time_of(**fields))
    assert found.saving_ms == Saving(
        low=pytest.approx(saving.low), high=pytest.approx(saving.high)
    )
    assert facts_of(found)["named_share"] == found.parts[0].share_percent


def test_every_part_and_fact_of_a_function() -> None:
    loop = named("loop", 6, loop=True)
    account = shares(
        device=None, steps=10, names=[op(50), named("f", 25), loop, named("g", 5)]
    )
    found = judged(time_of(3), account=account)
    f, conv = part_of("f", 30.0, inclusive=True), Part(name="Conv", share_percent=50.0)
    assert found.parts == (f, conv, part_of("loop", 6.0, loop=True))
    facts = facts_of(found)
    assert (facts["named_share"], facts["leading_share"]) == (30.0, 30.0)
    assert "alone_share" not in facts
    assert "beside_device" not in facts
    assert (found.value, found.ms_per_step) == (100.0, 10.0)
    changes = RULE.changes(
        signals(time_of(3, removal_change=lambda **given: given), account=account)
    )
    assert changes == ({"effect_ms": 3.0, "only": None},)
    assert RULE.changes(signals(account=account)) == ()
    without = shares(device=None, steps=10, names=[op(50), named("f", 5)])
    assert RULE.changes(signals(time_of(1), account=without)) == ()


def test_lines_that_block_stand_for_their_function() -> None:
    """15 of 100 ms of `loop` are lines without ops, scaled by two for few samples."""
    working = spans_of((0, 10 * MS), (20 * MS, 25 * MS))
    lines = OwnLines(5, 7, working, working, 30 * MS, 9)
    time = time_of(5, own_lines=(lines,), asks_the_model=True, ops_percent=90.0)
    time.removal_change = lambda **given: given
    names = [op(50), named("f", 40, loop=True), named("g", 5)]
    account = shares(device=None, steps=10, names=names)
    runs = runs_of(f=time, blurred=True)
    known = {function_runs: {"vm": runs}}
    found = judged(account=account, known=known)
    assert found.status == "fail"
    blocking = part_of("f", 30.0, lines=(5, 7))
    assert found.parts[0] == blocking
    assert [part.name for part in found.parts] == ["f", "g", "Conv"]
    assert facts_of(found)["alone_share"] == 30.0
    # It works alone: what it asks of the model elsewhere is not advised against.
    rare = ITEM.action("do_it_rarely")
    assert found.actions == tuple(dict.fromkeys((rare, *ITEM.chosen("default"))))
    changes = RULE.changes(signals(account=account, known=known))
    assert changes == ({"effect_ms": 3.0, "only": working},)


def test_a_function_that_calls_the_model_is_left_out_if_its_lines_block() -> None:
    working = spans_of((0, 30 * MS))
    lines = OwnLines(5, 7, working, working, 30 * MS, 9)
    time = time_of(5, own_lines=(lines,), calls_the_model=True)
    account = shares(device=None, steps=10, names=[op(50), named("f", 9)])
    found = judged(time, account=account)
    conv = Part(name="Conv", share_percent=50.0)
    assert found.parts == (part_of("f", 30.0, lines=(5, 7)), conv)


@pytest.mark.parametrize(
    ("account", "verdict"),
    [
        (shares(device=None, steps=10, names=[op(90)]), ("pass", "ops")),
        (
            shares(device=None, steps=10, names=[named("f", 90)]),
            ("fail", "functions"),
        ),
        (
            shares(steps=10, host_compute=5.0, names=[op(40), named("f", 5)]),
            ("pass", "ops"),
        ),
    ],
)
def test_ops_or_functions_that_are_the_step_are_no_fault(
    account: Any, verdict: tuple[str, str]
) -> None:
    """How functions could be faster is a note; of ops nothing is said."""
    found = judged(account=account)
    assert (found.status, found.note) == verdict
    assert (found.severity, found.saving_ms) == ("info", None)


def test_work_on_the_host_may_be_hidden_by_an_unseen_device() -> None:
    one = shares(device=None, steps=10, names=[op(60), named("f", 25)])
    silent = signals_of(one, device=DeviceSignals(recorded="silent"))
    assert RULE.evaluate(silent).status == "cannot_tell"


def test_a_function_whose_time_is_ops_is_explained_by_them() -> None:
    """Of 3 ms in each step 1.8 are ops; alone between ops there are none."""
    tiny = SimpleNamespace(dispatch_ps=(18 * MS,), own_ps=(0,))
    known = {small_ops: {"vm": tiny}}
    found = judged(time_of(3), known=known)
    assert found.explained_by == ("launch.small",)
    less = {small_ops: {"vm": SimpleNamespace(dispatch_ps=(17 * MS,), own_ps=(0,))}}
    assert judged(time_of(3), known=less).explained_by == ()
    alone = time_of(3, calls_the_model=True, alone=spans_of((0, 30 * MS)))
    assert judged(alone, known=known).explained_by == ()
    assert judged(alone, known=known).parts[0] == part_of("f", 30.0)


def test_what_an_op_calls_back_is_rewritten_first() -> None:
    called = {called_back: {"vm": CalledBack((part_of("back", 30.0),))}}
    account = shares(device=None, steps=10, names=[op(60)])
    found = judged(account=account, known=called)
    assert found.parts[0] == part_of("back", 30.0)
    assert found.actions == ITEM.chosen("called_back", "default")


# --- how the time is used ---


def divided(division: TimeDivision | None, **asked: Any) -> dict[Any, Any]:
    def of_function(part: Part, device: int | None, *, only: Spans | None) -> Any:
        assert (part.name, device, only) == (
            "f",
            asked.get("device"),
            asked.get("only"),
        )
        return division

    return {
        function_divisions: {"vm": SimpleNamespace(division_of_function=of_function)}
    }


@pytest.mark.parametrize(
    ("division", "key"),
    [
        ((50.0, 30.0, 20.0, None), "vectorise_own_lines"),
        ((50.0, 30.0, 20.0, 49.9), "vectorise_own_lines"),
        ((50.0, 30.0, 20.0, 50.0), "waits"),
        ((49.9, 50.0, 0.1, 0.0), "vectorise_elements"),
        ((49.9, 0.1, 50.0, 0.0), "call_libraries_less"),
        ((49.9, 25.0, 25.1, 0.0), "vectorise_loops"),
    ],
)
def test_actions_fit_how_a_function_uses_its_time(division: Any, key: str) -> None:
    loops, *others = ITEM.chosen("default")
    assert loops == ITEM.action("vectorise_loops")
    expected = (*ITEM.chosen(key), *others)
    found = judged(time_of(3), known=divided(TimeDivision(*division)))
    assert found.actions == expected
    names = ("own_lines", "one_by_one", "in_libraries", "off_core")
    told = {fact.name: fact.value for fact in found.facts if fact.name in names}
    assert told == dict(zip(names, division, strict=True))
    known = divided(TimeDivision(*division), device=0)
    account = shares(host_compute=5.0, names=[named("f", 60)])
    beside = RULE.evaluate(signals_of(account, known))
    assert beside.actions == expected
    assert judged(time_of(3), known=divided(None)).actions == ITEM.chosen("default")


@pytest.mark.parametrize(
    ("ms", "loop", "leading"),
    [(30.0, False, 25.0), (29.9, False, None), (30.0, True, None)],
)
def test_half_of_the_work_beside_a_device_leads(
    ms: float, leading: float | None, *, loop: bool
) -> None:
    """Of 120 ms 60 are work on the host."""
    account = shares(host_compute=5.0, names=[named("f", ms, loop=loop)])
    found = RULE.evaluate(signals_of(account))
    assert facts_of(found).get("leading_share") == leading
    assert facts_of(found)["beside_device"] == 50.0
    more = [*account.names, named("g", 20, loop=not loop)]
    several = shares(host_compute=5.0, names=more)
    found = RULE.evaluate(signals_of(several))
    assert facts_of(found).get("leading_share") == leading
    around = {enclosing_functions: {"vm:0": part_of("f", 40.0)}}
    found = RULE.evaluate(signals_of(account, around))
    # The loop around the steps holds more than its own work, which is what is said.
    own = msgspec.structs.replace(part_of("f", 25.0), loop=True)
    assert found.parts == (own if loop else part_of("f", 40.0),)
    nothing = RULE.evaluate(signals_of(shares(host_compute=5.0)))
    assert "leading_share" not in facts_of(nothing)


def test_numbers_of_workers_fit_the_machine() -> None:
    found = judged(time_of(3), known={machine_cores: {"vm": 3}})
    codes = [action.code for action in found.actions if action.code]
    assert any("num_workers=3" in code for code in codes)
    assert any("worker_count=3" in code for code in codes)
    account = shares(host_compute=5.0, names=[named("f", 60)])
    beside = RULE.evaluate(signals_of(account, {machine_cores: {"vm": 3}}))
    codes = [action.code for action in beside.actions if action.code]
    assert any("num_workers=3" in code for code in codes)
