"""The most valuable findings: what to do first, then, and after that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.advice.headline import by_cost
from stepscope.frozen import Frozen
from stepscope.report.words.findings import fitting_actions, gain, lead_sentence

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from stepscope.advice.finding import Action, Finding

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
        frameworks: Frameworks seen in the profile.
    """
    worth = (one for one in by_cost(findings) if one.id == first or _gains(one))
    ranked = sorted(worth, key=lambda one: one.id != first)
    if ranked and ranked[0].note == "ended":
        # What the start of a program cost is not what keeps it from its steps.
        ranked = ranked[:1]
    return tuple(
        _valuable(one, label, told=one.id == first, frameworks=frameworks)
        for one, label in zip(ranked, _ORDER, strict=False)
    )


def _gains(finding: Finding) -> bool:
    return finding.saving_ms is None or finding.saving_ms.high > 0


def _text(action: Action, frameworks: Collection[str]) -> str:
    """Write a change; of which framework it is where that of the program is unknown."""
    if frameworks or action.framework == "any":
        return action.text
    return f"{action.text.removesuffix('.')} (as in {action.framework})."


def _valuable(
    finding: Finding, label: str, *, told: bool, frameworks: Collection[str]
) -> Valuable:
    actions = fitting_actions(finding, frameworks)
    action = _text(actions[0], frameworks) if actions else ""
    promise = gain(finding) if _gains(finding) else None
    return Valuable(
        finding=finding.id,
        label="Do first" if told else label,
        found="" if told and (action or promise) else lead_sentence(finding),
        action=action,
        promise=f"It may save {promise}." if promise else "",
        code=(actions[0].code or actions[0].env or "") if actions else "",
    )
