"""What a rule declares beside its function is true of it."""

from __future__ import annotations

from pathlib import Path
from string import Formatter
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.traces import blueprint
from tests.support.traces.training import on_host, parallel

from stepscope.advice.engine import signals_of
from stepscope.advice.finding import Finding
from stepscope.advice.registry import RULES
from stepscope.advice.signals.signal import Signal, Signals
from stepscope.analysis.tools import TOOLS
from stepscope.cli.demo import RECORDED
from stepscope.session import open_profile
from stepscope.thresholds import THRESHOLDS

if TYPE_CHECKING:
    from stepscope.advice.rule import Rule

ROOT = Path(__file__).resolve().parents[2]
#: Names that stand for something in the texts of every rule.
NAMES = {"passed", "named", "bursts", *Finding.__struct_fields__}
every_rule = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.item.id)


@pytest.fixture(name="measured", scope="module")
def _measured() -> Signals:
    """A recording that every rule can judge."""
    return signals_of(open_profile(RECORDED))


@every_rule
def test_a_rule_asks_for_the_signals_that_it_declares(
    rule: Rule, measured: Signals
) -> None:
    asked = set()

    def value_of(wanted: Signal[Any]) -> Any:
        asked.add(wanted)
        return measured.of(wanted)

    finding = rule.evaluate(Signals(value_of), THRESHOLDS)
    assert finding.status != "cannot_tell"
    assert asked <= set(rule.reads)


@pytest.fixture(name="applicable", scope="module")
def _applicable(measured: Signals) -> dict[str, list[Finding]]:
    """What each rule finds where it applies: on one device, on four, and without."""
    several = blueprint.profile(
        blueprint.trace(parallel(), devices=dict.fromkeys(range(4), blueprint.A100))
    )
    alone = blueprint.profile(blueprint.trace(on_host()))
    found = [
        rule.evaluate(signals, THRESHOLDS)
        for signals in (measured, signals_of(several), signals_of(alone))
        for rule in RULES
    ]
    return {
        rule.item.id: [
            one
            for one in found
            if one.id == rule.item.id
            and one.status not in {"not_applicable", "cannot_tell"}
        ]
        for rule in RULES
    }


@every_rule
def test_texts_name_what_a_finding_has(
    rule: Rule, applicable: dict[str, list[Finding]]
) -> None:
    findings = applicable[rule.item.id]
    assert findings, "no base of this test holds what the rule is about"
    facts = {fact.name for finding in findings for fact in finding.facts}
    facts |= {f"mostly_{cause}" for cause in rule.item.words.causes}
    named = {
        name
        for text in rule.item.words.texts.values()
        for alternatives in text
        for one in alternatives
        for _, name, _, _ in Formatter().parse(one)
        if name is not None
    }
    assert named <= NAMES | facts


@every_rule
def test_every_note_may_go_without_a_text_of_its_own(rule: Rule) -> None:
    assert {("fail", None), ("pass", None)} <= rule.item.words.texts.keys()


@every_rule
def test_every_cause_that_is_found_has_words(rule: Rule, measured: Signals) -> None:
    finding = rule.evaluate(measured, THRESHOLDS)
    found = {*(cause.cause for cause in finding.causes), *finding.because}
    assert found <= rule.item.words.causes.keys()


@every_rule
def test_a_rules_docs_name_the_tools_that_show_its_numbers(rule: Rule) -> None:
    module = rule.evaluate.__module__.rpartition(".")[2]
    text = (ROOT / "docs" / "advice" / f"{module}.md").read_text(encoding="utf-8")
    assert rule.item.pages
    assert set(rule.item.pages) <= {tool.name for tool in TOOLS}
    assert {
        tool for tool in rule.item.pages if f"../tools/{tool}.md" not in text
    } == set()
