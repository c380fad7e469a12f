"""The verdict in two sentences, and each finding with its evidence and gain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.advice.finding import STATUSES
from stepscope.report.page import Piece, cut, line, wrapped
from stepscope.report.words.findings import (
    evidence_words,
    fitting_actions,
    gain,
    headline,
    reasons,
    standing,
)
from stepscope.report.words.names import CATEGORY_NAMES, DETAIL_NAMES, percent
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.advice.finding import Action, Finding
    from stepscope.analysis.overview_page import OverviewPageResult
    from stepscope.report.document import Document
    from stepscope.report.page import Line, Role

__all__ = ["findings", "verdict"]

_OTHER: Final = "other"
_SEVERITIES: Final = {"critical": 0, "warn": 1, "info": 2}
_MARKS: Final[dict[str, tuple[str, Role]]] = {
    "critical": ("✗ critical", "bad"),
    "warn": ("✗ warning", "warn"),
    "info": ("• note", "dim"),
    "cannot_tell": ("? cannot tell", "warn"),
    "pass": ("✓ pass", "good"),
    "not_applicable": ("– not applicable", "dim"),
}


def verdict(document: Document, width: int) -> list[Line]:
    """Write what bounds the step, by how much, and what to do first."""
    failed = [one for one in document.findings if _matters(one)]
    if not failed:
        return wrapped(_calm(document), width, indent=0, role="title")
    first = min(failed, key=lambda one: (one.after_stage is not None, one.stage))
    lines = wrapped(headline(first), width, indent=0, role="title")
    promise = gain(first)
    saves = f" It may save {promise}." if promise else ""
    actions = fitting_actions(first, document.frameworks)
    if actions:
        lines += wrapped(f"Do first: {actions[0].text}{saves}", width, indent=0)
    return lines


def _matters(finding: Finding) -> bool:
    return finding.status == "fail" and finding.severity != "info"


def _calm(document: Document) -> str:
    """Write the verdict when no rule fails."""
    unsure = sum(one.status == "cannot_tell" for one in document.findings)
    overview = document.overview
    if isinstance(overview, Unavailable):
        return f"There is no step time to explain. {overview.reason}"
    checks = (
        "No check fails" if unsure < len(document.findings) else "No check could tell"
    )
    told = f"{_mostly(overview)} {checks}."
    if 0 < unsure < len(document.findings):
        count = "one" if unsure == 1 else f"{unsure}"
        told += f" But {count} could not tell."
    return told


def _mostly(overview: OverviewPageResult) -> str:
    """Say where most of the time is."""
    shares = {
        name: share
        for name, share in overview.breakdown_percent.items()
        if share is not None
    }
    if not shares:
        return "The hosts do not run in lock step, so each is shown by itself."
    largest = max(shares, key=lambda name: shares[name])
    what = "step time" if overview.window == "steps" else "recorded time"
    size = percent(shares[largest])
    if largest != _OTHER:
        return f"Most of the {what} is {CATEGORY_NAMES[largest].lower()} ({size})."
    parts = overview.breakdown_detail_ms
    kinds = {name: parts.get(name) or 0.0 for name in DETAIL_NAMES[_OTHER]}
    kind = max(kinds, key=lambda name: kinds[name])
    return (
        f"Most of the {what} ({size}) belongs to no category; the largest part of it: "
        f"{DETAIL_NAMES[_OTHER][kind]}."
    )


def findings(document: Document, width: int) -> list[Line]:
    """Write every finding: those that fail, then the unknown, then those that pass."""
    ordered = sorted(
        document.findings,
        key=lambda one: (
            STATUSES.index(one.status),
            _SEVERITIES[one.severity],
            one.stage,
        ),
    )
    lines: list[Line] = []
    for finding in ordered:
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
