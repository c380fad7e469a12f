"""What is said of all checks: of each stage, what is worth most, and the joint gain."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from stepscope.advice.catalogue import OWNER_WORDS
from stepscope.advice.headline import findings_by_cost
from stepscope.advice.registry import RULES
from stepscope.frozen import Frozen
from stepscope.report.words.findings import (
    fitting_actions,
    gain_words,
    lead_sentence,
    saving_words,
)
from stepscope.report.words.names import join_words, percent

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from stepscope.advice.checklist import CheckedStage
    from stepscope.advice.finding import Finding, Severity
    from stepscope.advice.replayed import Together

#: Severity of a fail → the words for one and for several.
_SEVERITY_WORDS: Final[dict[Severity, tuple[str, str]]] = {
    "critical": ("critical", "critical"),
    "warn": ("warning", "warnings"),
    "info": ("note", "notes"),
}


def stage_line(
    stage: CheckedStage, findings: Sequence[Finding], *, named: bool = True
) -> str:
    """Write how many checks of a stage came to which verdict.

    Checks that could not tell are named, since they are what is left to do; not where
    the checks unfold below the line.
    """
    checks = [one for one in findings if one.id in stage.findings]
    parts = []
    for status, count in stage.counts.items():
        alike = [one for one in checks if one.status == status]
        if status == "fail":
            counts = Counter(one.severity for one in alike)
            parts += [
                f"{counts[severity]} {word if counts[severity] == 1 else several}"
                for severity, (word, several) in _SEVERITY_WORDS.items()
                if counts[severity]
            ]
            continue
        has_names = named and status == "cannot_tell"
        names = f" ({', '.join(one.id for one in alike)})" if has_names else ""
        parts.append(f"{count} {status.replace('_', ' ')}{names}")
    return f"{stage.title}: {' · '.join(parts)}"


#: What is said before each of the findings that are worth the first look.
_ORDER: Final = ("First", "Then", "After that")


class Valuable(Frozen, frozen=True, eq=True):
    """One of the most valuable findings.

    Attributes:
        finding: Id of the finding.
        label: "Do first" where the headline says already what was found; else the
            place in the order.
        found: What was found; empty where the headline says it.
        action: What to do; empty where no change is known.
        promise: What that may save; empty where it is not known.
        code: The change as a line of code or as variables of the environment; empty
            where there is none.
    """

    finding: str
    label: str
    found: str
    action: str
    promise: str
    code: str

    @property
    def text(self) -> str:
        """Return what was found, what to do, and what that may save."""
        return " ".join(
            part for part in (self.found, self.action, self.promise) if part
        )


def most_valuable(
    findings: Sequence[Finding], *, first: str | None, frameworks: Collection[str]
) -> tuple[Valuable, ...]:
    """Return at most three failing findings, the one that may save most first.

    Those are left out whose removal is known to gain nothing, other work being in the
    way.

    Args:
        findings: All findings.
        first: Id of the finding of the headline, which comes first; null for none.
    """
    worth = (
        one
        for one in findings_by_cost(findings)
        if one.id == first or _gains_something(one)
    )
    ranked = sorted(worth, key=lambda one: one.id != first)
    if ranked and ranked[0].note == "ended":
        # What the start of a program cost is not what keeps it from its steps.
        ranked = ranked[:1]
    return tuple(
        _make_valuable(one, label, told=one.id == first, frameworks=frameworks)
        for one, label in zip(ranked, _ORDER, strict=False)
    )


def _gains_something(finding: Finding) -> bool:
    return finding.saving_ms is None or finding.saving_ms.high > 0


def _make_valuable(
    finding: Finding, label: str, *, told: bool, frameworks: Collection[str]
) -> Valuable:
    actions = fitting_actions(finding, frameworks)
    action = actions[0].text if actions else ""
    if actions and not frameworks and actions[0].framework != "any":
        # The framework of the program is not known.
        action = f"{action.removesuffix('.')} (as in {actions[0].framework})."
    promise = gain_words(finding) if _gains_something(finding) else None
    return Valuable(
        finding=finding.id,
        label="Do first" if told else label,
        found="" if told and (action or promise) else lead_sentence(finding),
        action=action,
        promise=f"It may save {promise}." if promise else "",
        code=(actions[0].code or actions[0].env or "") if actions else "",
    )


_TITLES: Final = {rule.item.id: f"“{rule.item.title}”" for rule in RULES}


def together_words(found: Together, *, by_title: bool = False) -> str | None:
    """Write one sentence about it, or two; None where no replay can tell.

    Args:
        found: The findings, and what holds the step without them.
        by_title: Call findings by their titles, where their ids are not in sight.
    """
    joint = None
    if found.saving_ms is not None:
        names = join_words(
            [_TITLES[one] if by_title else one for one in found.findings]
        )
        change = f"fixing {names}" if by_title else names
        joint = f"Together, {change} may save {saving_words(found.saving_ms)}."
    told = [
        sentence
        for sentence in (joint, _next_bottleneck(found, by_title=by_title))
        if sentence is not None
    ]
    return " ".join(told) or None


def _next_bottleneck(found: Together, *, by_title: bool) -> str | None:
    if found.next_owner is None or found.next_percent is None:
        return None
    what = OWNER_WORDS[found.next_owner]
    if found.next_hidden:
        what = f"more {what}, which other work hides so far"
    first = found.findings[0]
    without = f"Without what {first} finds"
    if by_title:
        told = found.saving_ms is not None  # the sentence before names it
        without = f"Once {'the first' if told else _TITLES[first]} is fixed"
    return (
        f"{without}, the longest part of a step would be {what} "
        f"({percent(found.next_percent)} of its critical path)."
    )
