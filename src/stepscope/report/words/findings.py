"""Findings in sentences, made from the numbers that the rules give."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from stepscope.advice.registry import RULES
from stepscope.report.words.names import listed, ms, percent, range_ms, us
from stepscope.units import PS_PER_MS, duration_text

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from stepscope.advice.finding import Action, Evidence, Finding
    from stepscope.advice.words import Words

__all__ = [
    "evidence_words",
    "fitting_actions",
    "gain",
    "headline",
    "reasons",
    "standing",
]

#: A typical step that differs from the mean by more than this is named beside it.
_NOTABLE: Final = 0.25

#: Unit → how numbers of a finding and its facts are written.
_UNITS: Final[dict[str, Callable[[float], str]]] = {
    "us": us,
    "ms": ms,
    "percent": percent,
    "count": "{:,.0f}".format,
    "ratio": "{:g}".format,
}
#: Unit → how thresholds are written: round numbers that somebody chose.
_LIMITS: Final[dict[str, Callable[[float], str]]] = {
    "percent": "{:g} %".format,
    "ps": duration_text,
    "count": "{:g}".format,
    "ratio": "{:g}".format,
}
_WORDS: Final = {rule.id: rule.words for rule in RULES}


def headline(finding: Finding) -> str:
    """Write what was found, with its size, in one or two sentences."""
    if finding.status == "not_applicable":
        why = finding.unavailable
        return f"Does not apply. {why.reason}" if why else "Does not apply."
    if finding.status == "cannot_tell":
        why = finding.unavailable
        return (
            f"Cannot tell whether {finding.title}. {why.reason if why else ''}".strip()
        )
    words = _WORDS[finding.id]
    plain = words.texts[finding.status, None]
    text = words.texts.get((finding.status, finding.note), plain)
    known = _known(finding, words)
    told = [_first(alternatives, known) for alternatives in text]
    return " ".join(sentence for sentence in told if sentence is not None)


class _Told(NamedTuple):
    """A number in words; a placeholder may bring a word of its own for zero."""

    text: str
    is_zero: bool = False

    def __format__(self, word_for_zero: str) -> str:
        return word_for_zero if self.is_zero and word_for_zero else self.text


def _first(alternatives: tuple[str, ...], known: Mapping[str, _Told]) -> str | None:
    """Write the first alternative whose names are all known, as a sentence."""
    for template in alternatives:
        try:
            text = template.format_map(known)
        except KeyError:
            continue
        return text[:1].upper() + text[1:]
    return None


def _known(finding: Finding, words: Words) -> dict[str, _Told]:
    """Return the values of the names in a rule's texts, as far as they are known."""
    numbers = [(fact.name, fact.value, fact.unit) for fact in finding.facts]
    numbers += [
        ("value", finding.value, finding.unit),
        ("share_percent", finding.share_percent, "percent"),
        ("ms_per_step", finding.ms_per_step, "ms"),
        ("typical", _typical(finding), "percent"),
        ("overall", _overall(finding), "percent"),
    ]
    limit = finding.threshold
    texts = {
        "title": finding.title,
        "passed": words.passed,
        "threshold": None if limit is None else _LIMITS[limit.unit](limit.value),
        "steps_hit": finding.steps_hit,
        "steps_clean": finding.steps_clean,
    }
    return {
        **{
            name: _Told(_UNITS[unit](value), is_zero=value == 0)
            for name, value, unit in numbers
            if value is not None
        },
        **{name: _Told(str(text)) for name, text in texts.items() if text is not None},
    }


def _typical(finding: Finding) -> float | None:
    """Return the value of a typical step where rare steps change the mean much."""
    value, share = finding.value, finding.share_percent
    if value is None or share is None or abs(value - share) <= _NOTABLE * share:
        return None
    return value


def _overall(finding: Finding) -> float | None:
    """Return the share of all time where it reaches the threshold."""
    share, limit = finding.share_percent, finding.threshold
    if share is None or limit is None or share < limit.value:
        return None
    return share


def reasons(finding: Finding) -> str | None:
    """Write where the effect comes from."""
    words = _WORDS[finding.id].causes
    parts = [
        f"{words.get(cause.cause, cause.cause)} {percent(cause.share_percent)}"
        for cause in finding.causes
    ]
    causes = listed(parts)
    because = listed([words.get(one, one) for one in finding.because])
    found = [part for part in (causes, because) if part]
    return "; ".join(found) if found else None


def gain(finding: Finding) -> str | None:
    """Write what a change would save."""
    if finding.saving_ms is None:
        return None
    return f"{range_ms(finding.saving_ms.low, finding.saving_ms.high)} a step"


def standing(finding: Finding) -> str:
    """Write how many steps the verdict rests on, and how certain it is."""
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
        parts.append("settle the findings above first")
    return ", ".join(parts)


def fitting_actions(finding: Finding, frameworks: Collection[str]) -> list[Action]:
    """Return what to change, as it is done in the frameworks that were recorded.

    Args:
        finding: The finding; only a failing one has actions to return.
        frameworks: Frameworks seen in the profile; where it is empty every action is
            returned.
    """
    if finding.status != "fail":
        return []
    return [
        action
        for action in finding.actions
        if not frameworks or action.framework in (*frameworks, "any")
    ]


def evidence_words(evidence: Evidence) -> str:
    """Write where on the timeline to look."""
    start = evidence.start_ps / PS_PER_MS
    length = ms((evidence.end_ps - evidence.start_ps) / PS_PER_MS)
    track = f", {evidence.track}" if evidence.track else ""
    ops = f": {evidence.ops[0]}" if evidence.ops else ""
    return f"{length} at {start:,.3f} ms{track}{ops}"
