"""What rules say of a run, each judged when a test asks for it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Final
from unittest import mock

from hypothesis import settings

from stepscope.advice import engine
from stepscope.advice.registry import RULES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepscope.advice.finding import Finding
    from stepscope.advice.item import Rule
    from stepscope.advice.signals import Signals

BY_ID: Final = {rule.item.id: rule for rule in RULES}


class Judged(Mapping[str, "Finding"]):
    """Findings by id: those that are asked for, and whatever may explain them.

    Among all 60 rules one finding takes a fraction of the time. `make test` judges all
    of them at once, as a report does: no trace of any test may be an error for a rule.
    Only then is it known which stage a finding waits for.
    """

    def __init__(self, signals: Signals) -> None:
        self._signals = signals
        self._found: dict[str, Finding] = {}
        if not is_brief():
            self._judge(RULES)

    def __getitem__(self, rule: str) -> Finding:
        if rule not in self._found:
            self._judge((BY_ID[rule],))
            # One that does not fail explains nothing, and needs no explanation.
            if self._found[rule].status == "fail":
                self._judge(tuple(BY_ID[each] for each in sorted(related(rule))))
        return self._found[rule]

    def __iter__(self) -> Iterator[str]:
        if len(self._found) < len(RULES):
            self._judge(RULES)
        return iter(self._found)

    def __len__(self) -> int:
        return len(RULES)

    def _judge(self, rules: tuple[Rule, ...]) -> None:
        with mock.patch.object(engine, "RULES", rules):
            found = engine.evaluate(self._signals)
        self._found |= {one.id: one for one in found}


def is_brief() -> bool:
    """Whether these are the tests of `make test-core`."""
    return settings().max_examples == settings.get_profile("brief").max_examples


@cache
def related(rule: str) -> frozenset[str]:
    """The rule with those that it explains or that explain it, and theirs in turn."""
    beside: dict[str, set[str]] = {name: set() for name in BY_ID}
    for narrow, declared in BY_ID.items():
        for broad in beside.keys() & set(declared.item.explains):
            beside[narrow].add(broad)
            beside[broad].add(narrow)
    found, ahead = {rule}, [rule]
    while ahead:
        new = beside[ahead.pop()] - found
        found |= new
        ahead += new
    return frozenset(found)
