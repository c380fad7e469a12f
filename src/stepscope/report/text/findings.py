"""The headline, and each finding with its evidence and gain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.advice.headline import by_cost
from stepscope.report.page import Piece, cut, line, wrapped
from stepscope.report.words.findings import (
    by_urgency,
    evidence_words,
    fitting_actions,
    gain,
    headline,
    lead_sentence,
    names,
    reasons,
    standing,
)

if TYPE_CHECKING:
    from stepscope.advice.finding import Action, Finding
    from stepscope.report.document import Document
    from stepscope.report.page import Line, Role

__all__ = ["findings", "verdict"]

_MARKS: Final[dict[str, tuple[str, Role]]] = {
    "critical": ("✗ critical", "bad"),
    "warn": ("✗ warning", "warn"),
    "info": ("• note", "dim"),
    "cannot_tell": ("? cannot tell", "warn"),
    "pass": ("✓ pass", "good"),
    "not_applicable": ("– not applicable", "dim"),
}


def verdict(document: Document, width: int) -> list[Line]:
    """Write the headline, what to do about it, and what comes second."""
    lines = wrapped(document.headline.text, width, indent=0, role="title")
    ranked = by_cost(document.findings)
    told = [one for one in ranked if one.id == document.headline.finding]
    for first in told:
        promise = gain(first)
        saves = f" It may save {promise}." if promise else ""
        actions = fitting_actions(first, document.frameworks)
        if actions:
            lines += wrapped(f"Do first: {actions[0].text}{saves}", width, indent=0)
    rest = [one for one in ranked if one not in told]
    if rest:
        return lines + _second(rest[0], document, width)
    return lines if told else lines + _unsure(document, width)


def _second(finding: Finding, document: Document, width: int) -> list[Line]:
    """Write what comes next, with its action."""
    actions = fitting_actions(finding, document.frameworks)
    todo = f" {actions[0].text}" if actions else ""
    return wrapped(f"Then: {lead_sentence(finding)}{todo}", width, indent=0)


def _unsure(document: Document, width: int) -> list[Line]:
    """Say how many checks could not tell, where none is spoken of."""
    unsure = sum(one.status == "cannot_tell" for one in document.findings)
    if not unsure:
        return []
    count = "One check" if unsure == 1 else f"{unsure} checks"
    return wrapped(f"{count} could not tell.", width, indent=0)


def findings(document: Document, width: int) -> list[Line]:
    """Write every finding: those that fail, then the unknown, then those that pass."""
    lines: list[Line] = []
    for finding in by_urgency(document.findings):
        lines += _finding(finding, document, width)
    return lines


def _finding(finding: Finding, document: Document, width: int) -> list[Line]:
    kind = finding.severity if finding.status == "fail" else finding.status
    mark, role = _MARKS[kind]
    lines = [line("  ", Piece(mark, role), Piece(f"  {finding.id}", "dim"))]
    lines += wrapped(headline(finding), width, indent=4)
    if finding.status == "cannot_tell" and finding.unavailable is not None:
        lines += wrapped(f"To know: {finding.unavailable.remedy}", width, indent=4)
    if finding.status != "fail":
        return lines
    for label, text in (
        ("from", reasons(finding)),
        ("names", names(finding)),
        ("gain", gain(finding)),
        ("basis", standing(finding)),
    ):
        if text:
            lines += _labelled(label, text, width)
    lines += [
        line(f"    {'see' if at == 0 else '':7}", cut(evidence_words(one), width - 11))
        for at, one in enumerate(finding.evidence)
    ]
    for at, action in enumerate(fitting_actions(finding, document.frameworks)):
        lines += _action(action, width, first=at == 0)
    if finding.refute:
        lines += _labelled("doubt", finding.refute, width)
    return lines


def _labelled(label: str, text: str, width: int) -> list[Line]:
    body = wrapped(text, width, indent=11)
    first = line(Piece(f"    {label:7}", "dim"), body[0][1])
    return [first, *body[1:]]


def _action(action: Action, width: int, *, first: bool) -> list[Line]:
    who = "" if action.framework == "any" else f" ({action.framework})"
    lines = _labelled("do" if first else "", f"{action.text}{who}", width)
    lines += [
        line(" " * 13, Piece(text, "code"))
        for text in (action.code, action.env)
        if text is not None
    ]
    return lines
