"""The most valuable findings: what to do first, then, and after that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.advice.headline import by_cost
from stepscope.frozen import Frozen
from stepscope.report.words.findings import fitting_actions, gain, lead_sentence

if TYPE_CHECKING:
    from stepscope.advice.finding import Finding
    from stepscope.report.document import Document

__all__ = ["Valuable", "most_valuable"]

#: Findings that are worth the first look.
_MOST: Final = 3


class Valuable(Frozen, frozen=True, eq=True):
    """One of the most valuable findings.

    Attributes:
        finding: Id of the finding.
        text: What was found, what to do, and what that may save.
        told: Whether the headline says already what was found, so that `text` does not.
    """

    finding: str
    text: str
    told: bool


def most_valuable(document: Document) -> tuple[Valuable, ...]:
    """Return at most three failing findings, the one that may save most first.

    The finding of the headline is the first of them.
    """
    ranked = by_cost(document.findings)
    first = document.headline.finding
    ranked.sort(key=lambda one: one.id != first)
    return tuple(_valuable(one, document) for one in ranked[:_MOST])


def _valuable(finding: Finding, document: Document) -> Valuable:
    told = finding.id == document.headline.finding
    actions = fitting_actions(finding, document.frameworks)
    promise = gain(finding)
    parts = [
        "" if told else lead_sentence(finding),
        actions[0].text if actions else "",
        f"It may save {promise}." if promise else "",
    ]
    text = " ".join(part for part in parts if part)
    return Valuable(finding.id, text or lead_sentence(finding), told)
