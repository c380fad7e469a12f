"""The most valuable findings: what is promised, and what is left out."""

from __future__ import annotations

import msgspec
import pytest
from tests.support.traces.training import apart, findings

from stepscope.derive.facts.evidence import Saving
from stepscope.reporting.words.checks import (
    most_valuable_findings,
    nothing_to_fix_text,
)


@pytest.mark.parametrize(("high", "told"), [(0.0, False), (0.1, True)])
def test_what_gains_nothing_is_not_among_the_most_valuable(
    high: float, *, told: bool
) -> None:
    """The replay may know that other work is in the way."""
    found = findings(apart())["gaps.between"]
    one = msgspec.structs.replace(
        found, explained_by=(), saving_ms=Saving(low=0.0, high=high)
    )
    valuable = most_valuable_findings([one], first=None, frameworks=())
    assert [each.finding for each in valuable] == ([one.id] if told else [])


def test_the_headlines_own_finding_stays_without_a_promise_of_nothing() -> None:
    found = findings(apart())["gaps.between"]
    one = msgspec.structs.replace(
        found, explained_by=(), saving_ms=Saving(low=0.0, high=0.0)
    )
    (valuable,) = most_valuable_findings([one], first=one.id, frameworks=())
    assert valuable.label == "Do first"
    assert valuable.action
    assert not valuable.promise


def test_a_gain_is_told_in_a_few_words() -> None:
    found = findings(apart())["gaps.between"]

    def told(**saving: object) -> str:
        one = msgspec.structs.replace(
            found, explained_by=(), saving_ms=Saving(**saving)
        )
        (valuable,) = most_valuable_findings([one], first=None, frameworks=())
        return valuable.gain

    assert told(low=1.0, high=2.5) == "may save 1.00 to 2.50 ms a step"
    assert told(low=0.0, high=2.5) == "may save up to 2.50 ms a step"
    open_above = "may save 1.00 to 2.50 ms a step, or more"
    assert told(low=1.0, high=2.5, open_above=True) == open_above


def test_where_nothing_fails_the_checks_that_this_rests_on_are_told() -> None:
    failing = findings(apart())["gaps.between"]
    passing, unknown = (
        msgspec.structs.replace(failing, id=name, status=status)
        for name, status in (("input.bound", "pass"), ("gap.gc", "cannot_tell"))
    )
    note = msgspec.structs.replace(failing, severity="info")
    assert nothing_to_fix_text([failing, passing]) is None
    assert nothing_to_fix_text([unknown]) is None
    assert nothing_to_fix_text([passing, note]) == (
        "No check found anything to fix: 1 check passes."
    )
    assert nothing_to_fix_text([passing, passing, unknown]) == (
        "No check found anything to fix: 2 checks pass; gap.gc cannot tell from this "
        "recording."
    )
