"""The verdict, and the checklist with the evidence and gain of what fails."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.report.page import Piece, cut, line, wrapped
from stepscope.report.words.checklist import stage_line
from stepscope.report.words.findings import (
    UNCALIBRATED,
    by_urgency,
    evidence_words,
    fitting_actions,
    gain,
    headline,
    names,
    reasons,
    standing,
)
from stepscope.report.words.hardware import hardware_words
from stepscope.report.words.together import together_words
from stepscope.report.words.valuable import most_valuable

if TYPE_CHECKING:
    from stepscope.advice.finding import Action, Finding, Status
    from stepscope.report.document import Document
    from stepscope.report.page import Line, Role

_MARKS: Final[dict[str, tuple[str, Role]]] = {
    "critical": ("✗ critical", "bad"),
    "warn": ("✗ warning", "warn"),
    "info": ("• note", "dim"),
}
_NOTE: Final[tuple[str, Role]] = ("•", "dim")
#: Gravest status of a stage → its mark.
_STAGE_MARKS: Final[dict[Status, tuple[str, Role]]] = {
    "fail": ("✗", "bad"),
    "cannot_tell": ("?", "warn"),
    "pass": ("✓", "good"),
    "not_applicable": ("–", "dim"),
}


def verdict(document: Document, width: int) -> list[Line]:
    """Write the headline, the hardware, and the three most valuable findings."""
    lines = wrapped(document.headline.text, width, indent=0, role="title")
    context = hardware_words(document)
    if context is not None:
        lines += wrapped(context, width, indent=0, role="dim")
    told = most_valuable(
        document.findings,
        first=document.headline.finding,
        frameworks=document.frameworks,
    )
    for one in told:
        lines += wrapped(f"{one.label} ({one.finding}): {one.text}", width, indent=0)
    joint = together_words(document.together)
    if told and joint is not None:
        lines += wrapped(joint, width, indent=0)
    return lines if told or document.is_plain else lines + _unsure(document, width)


def _unsure(document: Document, width: int) -> list[Line]:
    """Say how many checks could not tell, where none is spoken of."""
    unsure = sum(one.status == "cannot_tell" for one in document.findings)
    if not unsure:
        return []
    count = "One check" if unsure == 1 else f"{unsure} checks"
    return wrapped(f"{count} could not tell.", width, indent=0)


def findings(document: Document, width: int) -> list[Line]:
    """Write the checklist: a line for each stage, and below it what fails there."""
    lines: list[Line] = []
    for stage in document.checklist:
        mine = [one for one in document.findings if one.id in stage.findings]
        only_notes = stage.notes and not stage.fails
        mark, role = _NOTE if only_notes else _STAGE_MARKS[next(iter(stage.counts))]
        first, *rest = wrapped(stage_line(stage, mine), width, indent=4)
        lines += [line("  ", Piece(mark, role), " ", *first[1:]), *rest]
        for finding in by_urgency(mine):
            if finding.status == "fail":
                lines += _finding(finding, document, width)
    return [
        *lines,
        *wrapped(
            "How a check came to its verdict: stepscope report PATH --explain RULE",
            width,
            indent=2,
            role="dim",
        ),
    ]


def _finding(finding: Finding, document: Document, width: int) -> list[Line]:
    mark, role = _MARKS[finding.severity]
    lines = [line("    ", Piece(mark, role), Piece(f"  {finding.id}", "dim"))]
    lines += wrapped(headline(finding), width, indent=4)
    if finding.severity == "info":
        # A note is no more than its sentence and its gain; the rest is in --explain.
        told = (
            ("gain", gain(finding)),
            ("basis", None if finding.calibrated else UNCALIBRATED),
        )
        return lines + [
            one for label, text in told if text for one in _labelled(label, text, width)
        ]
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
