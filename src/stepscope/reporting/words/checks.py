"""Sentences on all checks: each stage, the most valuable findings, their joint gain."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from stepscope.advice.catalogue import OWNER_TEXTS
from stepscope.advice.headline import (
    findings_by_cost,
    is_similar_gain,
    is_tied_gain,
    time_without_core,
)
from stepscope.advice.registry import RULES
from stepscope.frozen import Frozen
from stepscope.reporting.words.findings import (
    fitting_actions,
    gain_text,
    lead_sentence,
    saving_size,
    saving_text,
    status_name,
)
from stepscope.reporting.words.names import join_phrases, percent
from stepscope.reporting.words.predictions import predicted_gain

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from stepscope.advice.checklist import CheckedStage
    from stepscope.advice.finding import Finding, Severity
    from stepscope.advice.predicted_gains import Together

#: Severity of a failed check → words for one and for several.
_SEVERITY_NAMES: Final[dict[Severity, tuple[str, str]]] = {
    "critical": ("critical", "critical"),
    "warn": ("warning", "warnings"),
    "info": ("note", "notes"),
}


def stage_line(
    stage: CheckedStage, findings: Sequence[Finding], *, named: bool = True
) -> str:
    """Write how many checks of a stage have each verdict.

    Checks with the verdict "cannot_tell" are named, because they need a better
    recording. If a page lists the checks below the line, no names are written. A pass
    of a rule that was never seen to fail counts as "not confirmed".
    """
    checks = [finding for finding in findings if finding.id in stage.findings]
    parts = []
    for status in stage.counts:
        alike = [finding for finding in checks if finding.status == status]
        if status == "fail":
            counts = Counter(finding.severity for finding in alike)
            parts += [
                f"{counts[severity]} {word if counts[severity] == 1 else several}"
                for severity, (word, several) in _SEVERITY_NAMES.items()
                if counts[severity]
            ]
            continue
        has_names = named and status == "cannot_tell"
        names = f" ({', '.join(finding.id for finding in alike)})" if has_names else ""
        for name, alike_count in Counter(map(status_name, alike)).items():
            parts.append(f"{alike_count} {name}{names}")
    return f"{stage.title}: {' · '.join(parts)}"


#: Labels of the most valuable findings, in order, of one that gains about as much as
#: the first, and of one that may: another recording of the program may show these in
#: the other order.
_ORDER: Final = ("First", "Then", "After that")
_AS_VALUABLE: Final = "About as valuable"
_PERHAPS_AS_VALUABLE: Final = "Perhaps as valuable"


class Valuable(Frozen, frozen=True, eq=True):
    """One of the most valuable findings.

    Attributes:
        finding: Id of the finding.
        label: "Do first" if the headline already says what was found; otherwise the
            finding's position in the order.
        found: Sentence on what was found; empty if the headline says it.
        action: Sentence on what to do; empty if no change is known.
        gain: The possible gain in a few words; empty if it is unknown.
        promise: Sentence on the possible gain; empty if it is unknown.
        code: The change as a line of code or as environment variables; empty if the
            change has neither form.
    """

    finding: str
    label: str
    found: str
    action: str
    gain: str
    promise: str
    code: str

    @property
    def text(self) -> str:
        """Return what was found, what to do, and what the change may save."""
        return " ".join(filter(None, (self.found, self.action, self.promise)))


def most_valuable_findings(
    findings: Sequence[Finding], *, first: str | None, frameworks: Collection[str]
) -> tuple[Valuable, ...]:
    """Return at most three failing findings, the one that may save most first.

    If a fix is known to save nothing because of other work, the finding is left out.

    Args:
        findings: All findings.
        first: Id of the headline's finding, which comes first; null without one.
    """
    worth = [
        finding
        for finding in findings_by_cost(findings)
        if finding.id == first or _gains_something(finding)
    ]
    noted = [finding for finding in findings if advises_without_fault(finding)]
    if first is None and noted:
        worth, first = [*noted, *worth], noted[0].id
    ranked = sorted(worth, key=lambda finding: finding.id != first)
    if ranked and ranked[0].note == "ended":
        # If a program ended before its first step, no other finding matters.
        ranked = ranked[:1]
    without_core_ms = time_without_core(findings)
    return tuple(
        _make_valuable(
            finding,
            label
            if finding is ranked[0]
            else _AS_VALUABLE
            if is_similar_gain(finding, ranked[0])
            else _PERHAPS_AS_VALUABLE
            if is_tied_gain(finding, ranked[0], without_core_ms)
            else label,
            is_first=finding.id == first,
            frameworks=frameworks,
        )
        for finding, label in zip(ranked, _ORDER, strict=False)
    )


def advises_without_fault(finding: Finding) -> bool:
    """Return whether a finding says how the work of a plain program could be faster."""
    return finding.note == "functions" and bool(finding.actions)


def _gains_something(finding: Finding) -> bool:
    return finding.saving_ms is None or finding.saving_ms.high > 0


def _make_valuable(
    finding: Finding, label: str, *, is_first: bool, frameworks: Collection[str]
) -> Valuable:
    actions = fitting_actions(finding, frameworks)
    action = actions[0].text if actions else ""
    if actions and not frameworks and actions[0].framework != "any":
        action = f"{action.removesuffix('.')} (as in {actions[0].framework})."
    predicted = predicted_gain(finding, actions)
    saving = finding.saving_ms if _gains_something(finding) else None
    promise = gain_text(finding) if saving is not None else None
    return Valuable(
        finding=finding.id,
        label="Do first" if is_first else label,
        found="" if is_first and (action or promise) else lead_sentence(finding),
        action=action,
        gain=f"may save {saving_size(saving)}" if saving is not None else "",
        promise=(
            f"Predicted: {predicted}."
            if promise and predicted
            else f"It may save {promise}."
            if promise
            else ""
        ),
        code=(actions[0].code or actions[0].env or "") if actions else "",
    )


def nothing_to_fix_text(findings: Sequence[Finding]) -> str | None:
    """Write that nothing is to be fixed, and which checks that rests on.

    None if a check failed with more than a note, or if no check passed.
    """
    if any(each.status == "fail" and each.severity != "info" for each in findings):
        return None
    passed = sum(each.status == "pass" for each in findings)
    if not passed:
        return None
    checks = "1 check passes" if passed == 1 else f"{passed} checks pass"
    unknown = [each.id for each in findings if each.status == "cannot_tell"]
    told = f"; {join_phrases(unknown)} cannot tell from this recording"
    return f"No check found anything to fix: {checks}{told if unknown else ''}."


_TITLES: Final = {rule.item.id: f"“{rule.item.title}”" for rule in RULES}


def joint_gain_text(joined: Together, *, by_title: bool = False) -> str | None:
    """Write the joint gain and the next bottleneck; None if a replay computed neither.

    Args:
        joined: The findings, their joint gain, and the changed step's longest part.
        by_title: Whether findings are called by title, for pages that do not show ids.
    """
    joint = None
    if joined.saving_ms is not None:
        names = join_phrases(
            [_TITLES[name] if by_title else name for name in joined.findings]
        )
        joint = f"Fixing {names} together may save {saving_text(joined.saving_ms)}."
    sentences = joint, _next_bottleneck(joined, by_title=by_title)
    return " ".join(filter(None, sentences)) or None


def _next_bottleneck(joined: Together, *, by_title: bool) -> str | None:
    if joined.next_owner is None or joined.next_percent is None:
        return None
    what = OWNER_TEXTS[joined.next_owner]
    if joined.next_hidden:
        what = f"more {what}, which other work hides now"
    first = joined.findings[0]
    if by_title:
        # With a joint gain, the previous sentence already names the finding.
        unnamed = joined.saving_ms is None
        first = _TITLES[first] if unnamed else "the first finding"
    return (
        f"Once {first} is fixed, the longest part of a step would be {what} "
        f"({percent(joined.next_percent)} of its critical path)."
    )
