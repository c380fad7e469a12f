"""What an item makes of its texts, and in which order findings are acted on."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.advice.engine import mark_explained_findings, mark_stage_order
from stepscope.advice.finding import Action, Finding
from stepscope.advice.item import Item, Reason, Rule, Sentences, Texts, rule
from stepscope.advice.signals import CannotTell, NotApplicable, Signals
from stepscope.derive.facts.evidence import Fact, Saving
from stepscope.remedies import Remedy
from stepscope.thresholds import THRESHOLDS
from stepscope.unavailable import Unavailable

WHY = Unavailable(code="LOST_EVENTS", reason="Taken away.", remedy="Put it back.")
SOME_REMEDY = next(iter(Remedy))


def action(cause: str, text: str) -> Action:
    return Action(cause=cause, framework="any", text=text)


def item_of(**fields: Any) -> Item:
    texts: dict[str, Any] = {
        "declared_actions": {
            "first": action("any", "Do {what}."),
            "second": action("slow", "Be quick."),
            "third": action("any", SOME_REMEDY.name),
            "fourth": action("slow", "Be quick and sure."),
        },
        "conditions": {"third": ("known",), "fourth": ("sure", "known")},
        "groups": {"both": ("second", "first")},
        "reasons": {
            "few": Reason(code="FEW_STEPS", reason="Only {n} steps.", remedy="Wait."),
            "none": Reason(code="NOT_RECORDED", reason="No.", remedy=SOME_REMEDY.name),
        },
        "units": {"cores": "count", "share": "percent", "plain": "ratio"},
        "notes": {"share": "of {n} steps"},
    }
    fixed = {"stage": 3, "place": 1, "module": "m", "title": "Late", "about": "It."}
    return Item(
        **{
            **texts,
            **fixed,
            "id": "topic.matter",
            "words": Sentences(texts={}),
            "tools": (),
            "confirm": "Look.",
            "refute": "Look away.",
            "floors": ("latency",),
            **fields,
        }
    )


def keys_of(item: Item, actions: tuple[Action, ...]) -> list[str]:
    names = {id(each): key for key, each in item.declared_actions.items()}
    return [names[id(each)] for each in actions]


@pytest.mark.parametrize(
    ("facts", "keys"),
    [
        ((), ["first"]),
        ((None,), ["first"]),
        (("slow",), ["first", "second"]),
        (("known",), ["first", "third"]),
        (("slow", "sure"), ["first", "second"]),
        (("sure", "known", "slow"), ["first", "second", "third", "fourth"]),
    ],
)
def test_actions_are_those_whose_cause_and_conditions_hold(
    facts: tuple[str | None, ...], keys: list[str]
) -> None:
    item = item_of()
    assert keys_of(item, item.actions_for(*facts)) == keys
    assert keys_of(item, item.chosen("fourth", "both")) == ["fourth", "second", "first"]


def test_texts_have_their_words_and_remedies() -> None:
    item = item_of()
    assert item.action("first", what="this").text == "Do this."
    assert item.action("first").text == "Do {what}."
    assert item.action("first", what="this").cause == "any"
    assert item.action("third").text == SOME_REMEDY.value
    assert Texts().actions_for("any") == ()


def test_facts_have_their_units_and_notes() -> None:
    item = item_of()
    assert item.fact("share", 5.0, n=4) == Fact(
        name="share", value=5.0, unit="percent", note="of 4 steps"
    )
    assert item.fact("share", None, note="own") == Fact(
        name="share", value=None, unit="percent", note="own"
    )
    assert item.facts(cores=2, plain=None) == (
        Fact(name="cores", value=2, unit="count"),
        Fact(name="plain", value=None, unit="ratio"),
    )
    assert item.note("share", n=1) == "of 1 steps"


def test_reasons_have_their_numbers_and_remedies() -> None:
    item = item_of()
    other = list(Remedy)[1]
    assert item.reason("few", n=3) == Unavailable(
        code="FEW_STEPS", reason="Only 3 steps.", remedy="Wait."
    )
    assert item.reason("none").remedy is SOME_REMEDY
    assert item.reason("none", remedy=other).remedy is other
    assert item.reason("few", n=3, remedy=other).remedy is other


def test_what_only_a_fail_tells_is_left_out_of_other_findings() -> None:
    item = item_of()
    given: dict[str, Any] = {
        "evidence": ("x",),
        "actions": item.chosen("second"),
        "severity": "warn",
    }
    failing = item.finding("fail", **given)
    assert (failing.confirm, failing.refute) == ("Look.", "Look away.")
    assert failing.floors == ("latency",)
    assert (failing.evidence, failing.actions) == (("x",), item.chosen("second"))
    passing = item.finding("pass", **given)
    assert (passing.confirm, passing.refute, passing.floors) == (None, None, ())
    assert (passing.evidence, passing.actions) == ((), ())
    for found in (failing, passing):
        assert (found.id, found.title, found.stage) == ("topic.matter", "Late", 3)
        assert found.severity == "warn"
    # Fields of a finding replace those of its item.
    assert item.finding("fail", confirm="Ask.").confirm == "Ask."
    assert keys_of(item, item.finding("fail").actions) == ["first"]
    default = item_of(groups={"default": ("fourth", "second")})
    assert keys_of(default, default.finding("fail").actions) == ["fourth", "second"]


def test_without_a_verdict_there_is_a_reason() -> None:
    item = item_of()
    few = Unavailable(code="FEW_STEPS", reason="Only 2 steps.", remedy="Wait.")
    for make, status in (
        (item.cannot_tell, "cannot_tell"),
        (item.not_applicable, "not_applicable"),
    ):
        assert (make(WHY).status, make(WHY).unavailable) == (status, WHY)
        found = make("few", n=2)
        assert (found.status, found.unavailable) == (status, few)


@pytest.mark.parametrize(
    ("collects", "seen_on", "calibrated"),
    [(False, None, False), (True, None, True), (False, "x", True), (True, "x", True)],
)
def test_a_rule_is_calibrated_if_it_failed_somewhere_or_never_fails(
    *, collects: bool, seen_on: str | None, calibrated: bool
) -> None:
    item = item_of(collects=collects, seen_on=seen_on)
    assert item.is_calibrated is calibrated
    assert item.finding("pass").calibrated is calibrated


def test_levels_are_equal_where_nothing_is_critical() -> None:
    both = item_of(level="launch").levels
    assert both == (THRESHOLDS.launch_warn, THRESHOLDS.launch_critical)
    alone = item_of(level="fill").levels
    assert alone == (THRESHOLDS.fill_warn, THRESHOLDS.fill_critical)
    single = item_of(level="amp").levels
    assert single == (THRESHOLDS.amp_warn, THRESHOLDS.amp_warn)


def test_a_rule_without_its_signals_has_no_verdict_and_no_change() -> None:
    item, signals = item_of(), Signals(lambda _: None)
    edits: Any = ("edit",)

    def judge(signals: Signals) -> Finding:
        return item.finding("pass", value=signals.of(reads[0]))

    reads: Any = (lambda: 1, lambda: 2)
    made = rule(item, reads[0], reads[1], reads[0], change=lambda *_: edits)(judge)
    assert (made.item, made.judge, made.reads) == (item, judge, reads)
    assert made.changes(signals) == edits
    assert made.evaluate(signals).status == "pass"
    assert made(signals).status == "pass"
    assert Rule(item, judge, ()).changes(signals) == ()

    for stop, status in (
        (CannotTell, "cannot_tell"),
        (NotApplicable, "not_applicable"),
    ):

        def refuse(*_: Any, stop: Any = stop) -> Any:
            raise stop(WHY)

        refused = Rule(item, refuse, (), refuse)
        found = refused.evaluate(signals)
        assert (found.status, found.unavailable) == (status, WHY)
        assert refused.changes(signals) == ()


FINDING = st.tuples(
    st.integers(0, 3),
    st.sampled_from(("fail", "fail", "pass")),
    st.sampled_from(("info", "warn", "critical")),
    st.sampled_from((None, 0.0, 8.9, 9.0, 10.0)),
    st.booleans(),
)


@given(st.lists(FINDING, max_size=6))
def test_a_finding_waits_for_an_earlier_stage_with_about_as_much_to_gain(
    rows: list[tuple[int, Any, Any, float | None, bool]],
) -> None:
    findings = [
        Finding(
            id=f"f.{number}",
            title="",
            stage=stage,
            status=status,
            severity=severity,
            saving_ms=None if gain is None else Saving(low=0.0, high=gain),
            explained_by=("f.x",) if explained else (),
        )
        for number, (stage, status, severity, gain, explained) in enumerate(rows)
    ]
    found = mark_stage_order(findings)
    ordered = sorted(range(len(rows)), key=lambda number: (rows[number][0], number))
    assert [one.id for one in found] == [f"f.{number}" for number in ordered]
    for one, number in zip(found, ordered, strict=True):
        stage, status, _, gain, _ = rows[number]
        earlier = set()
        for other, state, severity, more, explained in rows:
            if other >= stage or state != "fail" or severity == "info" or explained:
                continue
            flaw = other == 0 and severity == "critical"
            if flaw or (gain and 0.8 * (more or 0.0) >= gain):
                earlier.add(other)
        waits = min(earlier) if earlier and status == "fail" else None
        assert one.after_stage == waits


@pytest.mark.parametrize(
    ("narrow", "broad", "explained"),
    [
        # Of 60 % of the broader one's time on, the narrower one explains it.
        ((20.0, None), (20.0, None), ((), ("narrow",))),
        ((12.0, None), (20.0, None), ((), ("narrow",))),
        ((11.9, None), (20.0, None), (("broad",), ())),
        ((None, None), (20.0, None), (("broad",), ())),
        # What has a gain is no part of what has none.
        ((11.9, 1.0), (20.0, None), ((), ())),
        ((11.9, 1.0), (20.0, 1.0), (("broad",), ())),
        ((11.9, None), (20.0, 1.0), (("broad",), ())),
        ((12.0, 1.0), (20.0, None), ((), ("narrow",))),
    ],
)
def test_the_narrower_finding_explains_a_broad_one_or_is_a_part_of_it(
    narrow: tuple[float | None, float | None],
    broad: tuple[float | None, float | None],
    explained: tuple[tuple[str, ...], tuple[str, ...]],
) -> None:
    share = THRESHOLDS.explained_share.value
    assert share == 60
    findings = {
        name: Finding(
            id=name,
            title="",
            stage=2,
            status="fail",
            severity="warn",
            share_percent=percent,
            saving_ms=None if gain is None else Saving(low=0.0, high=gain),
        )
        for name, (percent, gain) in (("narrow", narrow), ("broad", broad))
    }
    items = [
        item_of(id="narrow", explains=("broad", "nobody")),
        item_of(id="broad"),
        item_of(id="absent", explains=("broad",)),
    ]
    rules = [Rule(item, lambda *_: findings["broad"], ()) for item in items]
    found = mark_explained_findings(findings, {}, rules)
    assert tuple(found[name].explained_by for name in findings) == explained
