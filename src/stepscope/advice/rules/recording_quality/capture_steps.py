"""`capture.steps`: whether there are steps, and whether the marks enclose the input."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.advice.catalogue import rule_item
from stepscope.advice.finding import SEVERITIES
from stepscope.advice.item import rule
from stepscope.derive.facts.judged_steps import step_signals
from stepscope.derive.facts.program_traits import program_traits
from stepscope.derive.frameworks import PLAIN, frameworks_used
from stepscope.units import PS_PER_MS

if TYPE_CHECKING:
    from stepscope.advice.finding import Finding, Severity
    from stepscope.advice.signals import Signals
    from stepscope.derive.facts.evidence import Fact
    from stepscope.derive.facts.judged_steps import HostSteps
    from stepscope.thresholds import Thresholds

_ITEM: Final = rule_item("capture.steps")


@rule(_ITEM, step_signals, frameworks_used, program_traits)
def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
    hosts = signals.needed(step_signals)
    without = [host_steps for host_steps in hosts.values() if host_steps.source is None]
    if without and all(host_steps.requests for host_steps in without):
        return _ITEM.not_applicable("requests")
    flaws = {label: _step_flaw(steps, thresholds) for label, steps in hosts.items()}

    def rank_of_host(label: str) -> tuple[bool, int, float]:
        note, severity = flaws[label]
        return note is None, SEVERITIES.index(severity), hosts[label].confidence

    label = min(hosts, key=rank_of_host)
    steps, (note, severity) = hosts[label], flaws[label]
    note_key = None if note == "none" else note
    if note == "none" and signals.of(frameworks_used) == PLAIN:
        # A program without a framework may have no steps.
        severity, note_key = "info", "plain"
    elif note == "none" and severity == "info":
        note_key = "one_shot"
    traits = signals.known(program_traits)
    keras = "keras_3" if traits is not None and traits.keras_3 else "without_keras_3"
    return _ITEM.finding(
        "pass" if note is None else "fail",
        severity=severity,
        note=note_key,
        confidence=1.0,
        value=_shown_confidence(steps, thresholds),
        unit="ratio",
        threshold=thresholds.high_confidence
        if note == "inferred"
        else thresholds.medium_confidence,
        devices=(label,),
        facts=_facts_of_steps(steps, thresholds),
        inputs=("step_candidates", "steps", "input_between_steps", "requests"),
        # If the program ended before its first step, advice to mark steps is useless.
        actions=_ITEM.actions_for(note, None if note == "ended" else "unmarked", keras),
    )


def _step_flaw(steps: HostSteps, thresholds: Thresholds) -> tuple[str | None, Severity]:
    """Return the flaw of a host's steps and its severity; None without a flaw."""
    if steps.early_end is not None:
        return "ended", "critical"
    if steps.source is None:
        repeats = max((tried.confidence for tried in steps.tried), default=0.0)
        # In a recording of one step, or of a program's start, hardly anything repeats.
        is_one_shot = repeats < thresholds.medium_confidence.value / 2
        return "none", "info" if is_one_shot else "warn"
    outside = steps.outside_percent
    if outside is not None and outside >= thresholds.outside_warn.value:
        return "outside", "warn"
    if steps.confidence < thresholds.high_confidence.value:
        return "inferred", "info"
    return None, "info"


def _shown_confidence(steps: HostSteps, thresholds: Thresholds) -> float | None:
    """Return the confidence in the steps, rounded without crossing the threshold."""
    if steps.source is not None:
        return round(steps.confidence, 2)
    best = max((candidate.confidence for candidate in steps.tried), default=None)
    if best is None:
        return None
    shown, needed = round(best, 2), thresholds.medium_confidence.value
    return shown if (shown >= needed) == (best >= needed) else round(shown - 0.01, 2)


def _facts_of_steps(steps: HostSteps, thresholds: Thresholds) -> tuple[Fact, ...]:
    best = max(steps.tried, key=lambda candidate: candidate.confidence, default=None)
    early_end = steps.early_end
    # A division into steps with enough confidence was rejected for another reason.
    refused = (
        best.n
        if steps.source is None
        and best is not None
        and best.confidence >= thresholds.medium_confidence.value
        else None
    )
    doubtful = None
    if steps.source is None and best is not None and best.may_be_steps:
        doubtful = best
    return (
        _ITEM.fact("steps", steps.count, note=steps.source),
        _ITEM.fact(
            "confidence",
            _shown_confidence(steps, thresholds),
            note=None
            if best is None
            else _ITEM.note("best_candidate", count=best.n, what=best.what),
        ),
        _ITEM.fact(
            "tried",
            len(steps.tried) or None,
            note="; ".join(
                f"{tried.what}: {tried.n}, confidence {tried.confidence:.2f}"
                for tried in steps.tried
            )
            or None,
        ),
        _ITEM.fact("repeats", refused, note=None if best is None else best.what),
        *_ITEM.facts(
            outside=steps.outside_percent,
            passes=None if doubtful is None else doubtful.n,
            pass_ms=None if doubtful is None else (doubtful.period_ps or 0) / PS_PER_MS,
        ),
        _ITEM.fact(
            "ended",
            None,
            note=None if early_end is None else early_end.removesuffix("."),
        ),
        *_ITEM.facts(
            recorded=None if early_end is None else steps.recorded_ps / PS_PER_MS
        ),
    )
