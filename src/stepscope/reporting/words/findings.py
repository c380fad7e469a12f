"""Findings as sentences, with the numbers of the rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from stepscope.advice.finding import SEVERITIES, STATUSES
from stepscope.advice.registry import RULES
from stepscope.frozen import Frozen
from stepscope.reporting.words.names import (
    UNKNOWN_SPEED,
    join_phrases,
    ms,
    part_text,
    percent,
    range_ms,
    us,
)
from stepscope.units import PS_PER_MS, bytes_text, duration_text

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from stepscope.advice.finding import Action, Finding, Pattern
    from stepscope.advice.item import Sentences
    from stepscope.derive.facts.evidence import Evidence, Part, Saving
    from stepscope.thresholds import Threshold

_SEVERITY_NAMES: Final = {"critical": "Critical", "warn": "Warning", "info": "Note"}
#: Minimum number of steps that can show a pattern.
_MIN_STEPS: Final = 3

#: Unit → function that writes the numbers of a finding and of its facts.
_UNITS: Final[dict[str, Callable[[float], str]]] = {
    "us": us,
    "ms": ms,
    "percent": percent,
    "count": "{:,.0f}".format,
    "ratio": "{:.3g}".format,
    "bytes": bytes_text,
}
#: Unit → function that writes a threshold, a round number that a person chose.
_LIMITS: Final[dict[str, Callable[[float], str]]] = {
    "percent": "{:g} %".format,
    "ps": duration_text,
    "count": "{:g}".format,
    "ratio": "{:g}".format,
}
UNCONFIRMED: Final = "the rule was tested on synthetic programs only"
#: Words of templates, by what the finding's share refers to.
_OF_STEPS: Final = {
    "of_step": "of the step",
    "the_step": "the step",
    "the_steps": "the steps",
}
_OF_RECORDING: Final = {
    "of_step": "of the recording",
    "the_step": "the program",
    "the_steps": "the program",
}
_SENTENCES: Final = {rule.item.id: rule.item.words for rule in RULES}


def number_text(value: float, unit: str) -> str:
    """Write a number of a finding or of one of its facts."""
    return _UNITS[unit](value)


def limit_text(limit: Threshold) -> str:
    """Write a threshold."""
    return _LIMITS[limit.unit](limit.value)


def status_name(finding: Finding) -> str:
    """Write a verdict in one or two words."""
    if finding.shown_status == "unconfirmed":
        return "not confirmed"
    return finding.status.replace("_", " ")


def status_text(finding: Finding) -> str:
    """Write a verdict in one or two words; for a failed check, write its severity."""
    if finding.status == "fail":
        return _SEVERITY_NAMES[finding.severity]
    return status_name(finding).capitalize()


def threshold_text(finding: Finding) -> str | None:
    """Write the threshold of a finding, with what it limits and its source."""
    limit = finding.threshold
    if limit is None:
        return None
    return f"{limit_text(limit)} ({limit.meaning}; source: {limit.source})"


def number_rows(finding: Finding) -> list[tuple[str, str, str]]:
    """Return name, value and note of each known number of a finding."""
    numbers = [
        ("value", finding.value, finding.unit, ""),
        ("effect of a step", finding.ms_per_step, "ms", ""),
        *(
            (fact.name.replace("_", " "), fact.value, fact.unit, fact.note or "")
            for fact in finding.facts
        ),
    ]
    return [
        (name, number_text(value, unit), note)
        for name, value, unit, note in numbers
        if value is not None
    ]


def sort_by_urgency(findings: Sequence[Finding]) -> list[Finding]:
    """Sort findings by status, severity and stage of the checklist."""
    return sorted(
        findings,
        key=lambda finding: (
            STATUSES.index(finding.status),
            SEVERITIES.index(finding.severity),
            finding.stage,
        ),
    )


def finding_headline(finding: Finding) -> str:
    """Write what was found, with its size, in one or two sentences."""
    if finding.status == "not_applicable":
        why = finding.unavailable
        return f"Does not apply. {why.reason}" if why else "Does not apply."
    if finding.status == "cannot_tell":
        why = finding.unavailable
        return (
            f"Cannot tell whether {finding.title}. {why.reason if why else ''}".strip()
        )
    declared = _SENTENCES[finding.id]
    text = declared.sentences(finding.status, finding.note)
    known = _known_values(finding, declared)
    sentences = [_first_complete(alternatives, known) for alternatives in text]
    return " ".join(sentence for sentence in sentences if sentence is not None)


def lead_sentence(finding: Finding) -> str:
    """Write the first sentence of a report whose headline is a failing finding."""
    declared = _SENTENCES[finding.id]
    known = _known_values(finding, declared)
    text = declared.sentences(finding.status, finding.note)
    first = _first_complete((*declared.lead, *text[0]), known)
    return finding_headline(finding) if first is None else first


class _KnownValue(Frozen, frozen=True, eq=True):
    """A value as text; `{value:none}` in a template writes "none" for zero."""

    text: str
    is_zero: bool = False

    def __format__(self, word_for_zero: str) -> str:
        return word_for_zero if self.is_zero and word_for_zero else self.text


def _first_complete(
    alternatives: tuple[str, ...], known: Mapping[str, _KnownValue]
) -> str | None:
    """Write the first alternative whose placeholders are all known, as a sentence."""
    for template in alternatives:
        try:
            text = template.format_map(known)
        except KeyError:
            continue
        return text[:1].upper() + text[1:]
    return None


def _known_values(finding: Finding, declared: Sentences) -> dict[str, _KnownValue]:
    numbers = [(fact.name, fact.value, fact.unit) for fact in finding.facts]
    numbers += [
        ("value", finding.value, finding.unit),
        ("share_percent", finding.share_percent, "percent"),
        ("ms_per_step", finding.ms_per_step, "ms"),
        *(
            (f"mostly_{cause.cause}", cause.share_percent, "percent")
            for cause in finding.causes[:1]
        ),
    ]
    limit, title = finding.threshold, finding.title
    about = _OF_STEPS
    if finding.ms_per_step is None and (finding.owners or finding.topics):
        # The finding's share is one of the recording.
        about, title = _OF_RECORDING, declared.title_of_recording or title
    texts: dict[str, str | None] = {
        **{f"{fact.name}_note": fact.note for fact in finding.facts},
        **about,
        "title": title,
        "passed": declared.passed and declared.passed.format_map(about),
        "threshold": None if limit is None else limit_text(limit),
        "pattern": pattern_sentence(finding),
        "function": _called_function(finding.parts),
        "worker_function": _called_function(finding.workers),
    }
    if finding.causes:
        texts["cause"] = declared.causes.get(finding.causes[0].cause)
    if finding.because:
        texts["reason"] = declared.causes.get(finding.because[0])
    texts["epoch"] = _epoch_text(finding)
    if finding.pattern is not None and texts["epoch"] is not None:
        waits = _wait_range(finding.pattern)
        texts["bursts"] = f"{texts['epoch']} waits {waits}"
    elif finding.pattern is not None and finding.pattern.kind == "bursts":
        texts["bursts"] = burst_text(finding.pattern)
    if finding.parts:
        largest = finding.parts[0]
        name = part_text(largest)
        bare = part_text(msgspec.structs.replace(largest, detail=None))
        texts |= {
            "named": name,
            # A verb of the template follows the name, so a comma closes a clause.
            "subject": name if largest.lines or name == bare else f"{name},",
            "detail": largest.detail,
            "sleeper": f"{bare} waits"
            + (f" in `{largest.detail}`" if largest.detail else ""),
        }
    thread_part = next(
        (part for part in finding.parts if part.thread is not None), None
    )
    if thread_part is not None:
        doing = msgspec.structs.replace(thread_part, detail=None, thread=None)
        texts["elsewhere"] = f"thread `{thread_part.thread}` is in {part_text(doing)}"
    return {
        **{
            name: _KnownValue(_UNITS[unit](value), is_zero=value == 0)
            for name, value, unit in numbers
            if value is not None
        },
        **{
            name: _KnownValue(str(text))
            for name, text in texts.items()
            if text is not None
        },
    }


def pattern_sentence(finding: Finding) -> str | None:
    """Write how the lost time is distributed over the steps."""
    spread = finding.pattern
    if finding.status != "fail" or spread is None or finding.steps_clean is None:
        return None
    if spread.steps < _MIN_STEPS:
        return None
    if spread.kind == "every":
        which = "every step" if spread.steps_hit == spread.steps else "most steps"
        return f"This affects {which}, by up to {ms(spread.longest_ms)}."
    epoch = _epoch_text(finding)
    if epoch is not None:
        which = f"{spread.steps_hit} of {spread.steps} recorded steps"
        return f"This affects {epoch}, by {_wait_range(spread)}: {which}."
    if spread.kind == "once":
        return f"This affects one of {spread.steps} steps, by {ms(spread.longest_ms)}."
    return f"This comes in bursts: {burst_text(spread)}."


def burst_text(spread: Pattern) -> str:
    """Write how many steps are affected, and how long each waits."""
    return f"{spread.steps_hit} of {spread.steps} steps wait {_wait_range(spread)}"


def _wait_range(spread: Pattern) -> str:
    shortest = spread.longest_ms if spread.shortest_ms is None else spread.shortest_ms
    return range_ms(shortest, spread.longest_ms)


def _epoch_text(finding: Finding) -> str | None:
    """Write how often a burst in the first step of an epoch comes; None for others."""
    if finding.note != "each_epoch":
        return None
    lengths = (fact.value for fact in finding.facts if fact.name == "epoch_steps")
    steps = next(lengths, None)
    often = "" if steps is None else f" (every {steps:,.0f} steps)"
    return f"the first step of each epoch{often}"


def _called_function(parts: tuple[Part, ...]) -> str | None:
    """Write the largest part of lost time if it is a function that the steps call."""
    if not parts or parts[0].function is None or parts[0].loop:
        return None
    detail = parts[0].detail if parts[0].lines else None
    return part_text(msgspec.structs.replace(parts[0], detail=detail))


def causes_text(finding: Finding) -> str | None:
    """Write the causes of the lost time, with their shares."""
    cause_texts = _SENTENCES[finding.id].causes
    parts = [
        f"{cause_texts.get(cause.cause, cause.cause)} {percent(cause.share_percent)}"
        for cause in finding.causes
    ]
    causes = join_phrases(parts)
    because = join_phrases([cause_texts.get(key, key) for key in finding.because])
    texts = [part for part in (causes, because) if part]
    return "; ".join(texts) if texts else None


def part_shares(finding: Finding) -> str | None:
    """Write the largest parts of the lost time by name."""
    parts = [
        f"{part_text(part)} {percent(part.share_percent)}"
        f"{' (total time)' if part.inclusive else ''}"
        for part in finding.parts
    ]
    return "; ".join(parts) or None


#: Minimum gain of a finding not shared with others, as a fraction of its lost time.
_MIN_OWN_GAIN_PART: Final = 0.02


def gain_text(finding: Finding) -> str | None:
    """Write what a change would save.

    A gain of zero is not written as a number: other work delays the step just as long,
    or the gain belongs to another finding.
    """
    if finding.saving_ms is None:
        return None
    effect = finding.ms_per_step or 0.0
    if finding.explained_by and finding.saving_ms.high < _MIN_OWN_GAIN_PART * effect:
        return f"included in the gain of {join_phrases(finding.explained_by)}"
    if finding.saving_ms.high <= 0:
        return "none alone: other work delays the step equally long"
    return saving_text(finding.saving_ms)


def saving_text(saving: Saving) -> str:
    """Write a gain per step, and why the gain may be larger."""
    size = saving_size(saving)
    return f"{size}: {UNKNOWN_SPEED}" if saving.open_above else size


def saving_size(saving: Saving) -> str:
    """Write a gain per step, and whether the gain may be larger."""
    if not saving.open_above:
        return f"{range_ms(saving.low, saving.high)} a step"
    if saving.low > 0:
        return f"{range_ms(saving.low, saving.high)} a step, or more"
    return f"{ms(saving.high)} a step, perhaps less or more"


def evidence_basis_text(finding: Finding) -> str:
    """Write how many steps the verdict is based on, and how certain the verdict is."""
    parts = []
    if finding.steps_clean is not None and finding.steps_hit is not None:
        steps = "step" if finding.steps_clean == 1 else "steps"
        parts.append(f"in {finding.steps_hit} of {finding.steps_clean} {steps}")
    parts.append(f"confidence {percent(100 * finding.confidence)}")
    notes = {
        "few_steps": "fewer than three steps: at most a warning",
        "once": "a single step: at most a note",
        "noisy": "the step times vary too much for certainty",
        "each_epoch": "in the first step of each epoch",
    }
    if not finding.calibrated:
        parts.append(UNCONFIRMED)
    if finding.note in notes:
        parts.append(notes[finding.note])
    if finding.explained_by:
        parts.append(f"covers the time of {join_phrases(finding.explained_by)}")
    if finding.after_stage is not None:
        parts.append("fix the findings above first")
    return ", ".join(parts)


def fitting_actions(finding: Finding, frameworks: Collection[str]) -> list[Action]:
    """Return the actions of a finding for the frameworks of the program.

    Args:
        finding: The finding; only a failing finding has actions.
        frameworks: Frameworks that the program uses; empty if unknown, which returns
            the actions for all frameworks.
    """
    if finding.status != "fail":
        return []
    fitting = [
        action for action in finding.actions if action.framework in (*frameworks, "any")
    ]
    return fitting if frameworks else list(finding.actions)


def evidence_text(evidence: Evidence) -> str:
    """Write where the evidence is on the timeline."""
    start = evidence.start_ps / PS_PER_MS
    length = ms((evidence.end_ps - evidence.start_ps) / PS_PER_MS)
    track = f", {evidence.track}" if evidence.track else ""
    ops = f": {evidence.ops[0]}" if evidence.ops else ""
    return f"{length} at {start:,.3f} ms{track}{ops}"
