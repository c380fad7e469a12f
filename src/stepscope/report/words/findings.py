"""Findings in sentences. Rules give numbers; here they are read out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.report.words.names import (
    CAUSE_WORDS,
    listed,
    ms,
    percent,
    range_ms,
    sentence,
    us,
)
from stepscope.units import PS_PER_MS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from stepscope.advice.finding import Action, Evidence, Finding

__all__ = [
    "evidence_words",
    "fitting_actions",
    "gain",
    "headline",
    "reasons",
    "standing",
]

#: A typical step that differs by more than this from the mean is told beside it.
_NOTABLE: Final = 0.25

_PASSED: Final = {
    "input.bound": "data arrives in time",
    "launch.delay": "launches keep up with the device",
    "amp.share": "the work that could run in 16 bit does",
}


def headline(finding: Finding) -> str:
    """What was found, with its size, in one or two sentences."""
    if finding.status == "not_applicable":
        why = finding.unavailable
        return f"Does not apply. {why.reason}" if why else "Does not apply."
    if finding.status == "cannot_tell":
        why = finding.unavailable
        return (
            f"Cannot tell whether {finding.title}. {why.reason if why else ''}".strip()
        )
    words = _WORDS.get(finding.id, _effect)
    return words(finding)


def _effect(finding: Finding) -> str:
    if finding.status == "pass" and finding.note in _NO_FINDING:
        return _NO_FINDING[finding.note](finding)
    if finding.status == "pass":
        told = f"{_PASSED.get(finding.id, 'nothing found')}: {_passed(finding)}"
        return f"{sentence(told)}{_overall(finding)}"
    size = _size(finding)
    return f"{sentence(f'{finding.title}: {size}')}{_typical(finding)}"


def _size(finding: Finding) -> str:
    parts = []
    if finding.share_percent is not None:
        whole = "the step time" if finding.ms_per_step is not None else "the time"
        parts.append(f"{percent(finding.share_percent)} of {whole}")
    if finding.ms_per_step is not None:
        parts.append(f"{ms(finding.ms_per_step)} a step")
    return ", ".join(parts)


def _typical(finding: Finding) -> str:
    """Says so where rare steps make the mean."""
    value, share = finding.value, finding.share_percent
    if value is None or share is None or abs(value - share) <= _NOTABLE * share:
        return ""
    return f" In a typical step it is {percent(value)}."


def _passed(finding: Finding) -> str:
    value = "nothing" if not finding.value else percent(finding.value)
    limit = finding.threshold.value if finding.threshold else None
    held = "" if limit is None else f" (a matter from {limit:g} % on)"
    return f"waiting takes {value} of a typical step{held}"


def _overall(finding: Finding) -> str:
    """Says so where a few steps wait so long that all of them together show it."""
    share, limit = finding.share_percent, finding.threshold
    if share is None or limit is None or share < limit.value:
        return ""
    return f" Over all steps it is {percent(share)}: a few of them wait long."


def _short(finding: Finding) -> str:
    """A large share of steps that are short: why it is no finding all the same."""
    times = {fact.name: fact.value for fact in finding.facts}
    effect, least = times.get("typical_effect"), times.get("smallest_effect")
    size = "too little time" if effect is None else us(effect)
    held = "" if least is None else f" (a matter from {us(least)} on)"
    return (
        f"Waiting takes only {size} of a typical step{held}. It is "
        f"{percent(finding.value or 0.0)} of it because the steps are so short."
    )


def _seldom(finding: Finding) -> str:
    """A large median that fewer steps show than a finding needs."""
    return (
        f"Waiting is seen in only {finding.steps_hit} of {finding.steps_clean} steps, "
        "too few to call it the rule. Where it is seen it is long: "
        f"{percent(finding.value or 0.0)} of a typical step."
    )


#: Note of a pass whose value is beyond the threshold → what is said of it.
_NO_FINDING: Final[dict[str, Callable[[Finding], str]]] = {
    "short": _short,
    "seldom": _seldom,
}


def _input(finding: Finding) -> str:
    if finding.note == "no_fetch":
        return (
            "No fetch of a batch was recorded, and a typical step is almost wholly "
            "accounted for by other work."
        )
    if finding.note != "hidden":
        return _effect(finding)
    fetch = next((one.value for one in finding.facts if one.name == "mean_fetch"), None)
    slow = "" if fetch is None else f" ({us(fetch)} each)"
    return (
        f"{_effect(finding)} But fetches find no batch ready{slow}: they stay hidden "
        "only as long as the device is the slower one."
    )


def _amp(finding: Finding) -> str:
    if finding.value is None:
        return "No kernel does work that could run in 16 bit."
    if finding.status == "pass":
        return f"Of the work that could run in 16 bit, {percent(finding.value)} does."
    cost = ""
    if finding.ms_per_step is not None:
        cost = f" In 32 bit it takes {ms(finding.ms_per_step)} of kernel time a step."
    extra = {
        "tf32": " Much of the rest runs as TF32 on the same units.",
        "share_of_all": " It is a small part of the device's time.",
    }.get(finding.note or "", "")
    return (
        f"Of the work that could run in 16 bit, {percent(finding.value)} does.{cost}"
        f"{extra}"
    )


_WORDS: Final[dict[str, Callable[[Finding], str]]] = {
    "input.bound": _input,
    "amp.share": _amp,
}


def reasons(finding: Finding) -> str | None:
    """Where the effect comes from."""
    parts = [
        f"{CAUSE_WORDS.get(cause.cause, cause.cause)} {percent(cause.share_percent)}"
        for cause in finding.causes
    ]
    causes = listed(parts)
    because = listed([CAUSE_WORDS.get(one, one) for one in finding.because])
    found = [part for part in (causes, because) if part]
    return "; ".join(found) if found else None


def gain(finding: Finding) -> str | None:
    """What a change promises."""
    if finding.saving_ms is None:
        return None
    return f"{range_ms(finding.saving_ms.low, finding.saving_ms.high)} a step"


def standing(finding: Finding) -> str:
    """How many steps carry the verdict, and how sure it is."""
    parts = []
    if finding.steps_clean is not None and finding.steps_hit is not None:
        steps = "step" if finding.steps_clean == 1 else "steps"
        parts.append(f"seen in {finding.steps_hit} of {finding.steps_clean} {steps}")
    parts.append(f"confidence {finding.confidence:.2f}")
    notes = {
        "few_steps": "fewer than three steps: at most a warning",
        "noisy": "the steps differ too much to be sure",
    }
    if finding.note in notes:
        parts.append(notes[finding.note])
    if finding.after_stage is not None:
        parts.append("settle what stands above first")
    return ", ".join(parts)


def fitting_actions(finding: Finding, frameworks: Collection[str]) -> list[Action]:
    """What to change, as it is done in the frameworks that the profile shows.

    Args:
        finding: Only a failing one asks for a change.
        frameworks: Those seen; where none was recognised every action is given.
    """
    if finding.status != "fail":
        return []
    return [
        action
        for action in finding.actions
        if not frameworks or action.framework in (*frameworks, "any")
    ]


def evidence_words(evidence: Evidence) -> str:
    """Where on the timeline to look."""
    start = evidence.start_ps / PS_PER_MS
    length = ms((evidence.end_ps - evidence.start_ps) / PS_PER_MS)
    track = f", {evidence.track}" if evidence.track else ""
    ops = f": {evidence.ops[0]}" if evidence.ops else ""
    return f"{length} at {start:,.3f} ms{track}{ops}"
