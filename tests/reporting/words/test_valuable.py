"""The most valuable findings: what is promised, and what is left out."""

from __future__ import annotations

import msgspec
import pytest
from tests.support.traces.training import apart, findings

from stepscope.derive.facts.evidence import Saving
from stepscope.reporting.words.checks import most_valuable_findings


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
