"""Rules about the recorded steps: their marks, warm-up, and whether they are enough."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.advice.catalogue import rule_item
from stepscope.advice.finding import SEVERITIES
from stepscope.advice.item import rule
from stepscope.derive.facts.hosts.compilations import FIRST_STEPS
from stepscope.derive.facts.judged_steps import step_signals
from stepscope.derive.facts.program_traits import program_traits
from stepscope.derive.facts.recording import record_grade
from stepscope.derive.facts.step_shares import account_signals
from stepscope.derive.frameworks import PLAIN, frameworks_used
from stepscope.frozen import Frozen
from stepscope.thresholds import THRESHOLDS
from stepscope.units import PS_PER_MS, PS_PER_NS, PS_PER_US

if TYPE_CHECKING:
    from stepscope.advice.finding import Finding, Severity
    from stepscope.advice.signals import Signals
    from stepscope.derive.facts.evidence import Fact
    from stepscope.derive.facts.judged_steps import HostSteps
    from stepscope.derive.facts.step_shares import AccountSignals, StepShares

_STEPS_ITEM: Final = rule_item("capture.steps")


@rule(_STEPS_ITEM, step_signals, frameworks_used, program_traits)
def judge_step_marks(signals: Signals) -> Finding:
    hosts = signals.needed(step_signals)
    without = [host_steps for host_steps in hosts.values() if host_steps.source is None]
    if without and all(host_steps.requests for host_steps in without):
        return _STEPS_ITEM.not_applicable("requests")
    flaws = {label: _step_flaw(steps) for label, steps in hosts.items()}

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
    return _STEPS_ITEM.finding(
        "pass" if note is None else "fail",
        severity=severity,
        note=note_key,
        confidence=1.0,
        value=_shown_confidence(steps),
        unit="ratio",
        threshold=THRESHOLDS.high_confidence
        if note == "inferred"
        else THRESHOLDS.medium_confidence,
        devices=(label,),
        facts=_facts_of_steps(steps),
        inputs=("step_candidates", "steps", "input_between_steps", "requests"),
        # If the program ended before its first step, advice to mark steps is useless.
        actions=_STEPS_ITEM.actions_for(
            note, None if note == "ended" else "unmarked", keras
        ),
    )


def _step_flaw(steps: HostSteps) -> tuple[str | None, Severity]:
    """Return the flaw of a host's steps and its severity; None without a flaw."""
    if steps.early_end is not None:
        return "ended", "critical"
    if steps.source is None:
        repeats = max((tried.confidence for tried in steps.tried), default=0.0)
        # In a recording of one step, or of a program's start, hardly anything repeats.
        is_one_shot = repeats < THRESHOLDS.medium_confidence.value / 2
        return "none", "info" if is_one_shot else "warn"
    outside = steps.outside_percent
    if outside is not None and outside >= THRESHOLDS.outside_warn.value:
        return "outside", "warn"
    if steps.confidence < THRESHOLDS.high_confidence.value:
        return "inferred", "info"
    return None, "info"


def _shown_confidence(steps: HostSteps) -> float | None:
    """Return the confidence in the steps, rounded without crossing the threshold."""
    if steps.source is not None:
        return round(steps.confidence, 2)
    best = max((candidate.confidence for candidate in steps.tried), default=None)
    if best is None:
        return None
    shown, needed = round(best, 2), THRESHOLDS.medium_confidence.value
    return shown if (shown >= needed) == (best >= needed) else round(shown - 0.01, 2)


def _facts_of_steps(steps: HostSteps) -> tuple[Fact, ...]:
    best = max(steps.tried, key=lambda candidate: candidate.confidence, default=None)
    early_end = steps.early_end
    # A division into steps with enough confidence was rejected for another reason.
    refused = (
        best.n
        if steps.source is None
        and best is not None
        and best.confidence >= THRESHOLDS.medium_confidence.value
        else None
    )
    doubtful = None
    if steps.source is None and best is not None and best.may_be_steps:
        doubtful = best
    return (
        _STEPS_ITEM.fact("steps", steps.count, note=steps.source),
        _STEPS_ITEM.fact(
            "confidence",
            _shown_confidence(steps),
            note=None
            if best is None
            else _STEPS_ITEM.note("best_candidate", count=best.n, what=best.what),
        ),
        _STEPS_ITEM.fact(
            "tried",
            len(steps.tried) or None,
            note="; ".join(
                f"{tried.what}: {tried.n}, confidence {tried.confidence:.2f}"
                for tried in steps.tried
            )
            or None,
        ),
        _STEPS_ITEM.fact("repeats", refused, note=None if best is None else best.what),
        *_STEPS_ITEM.facts(
            outside=steps.outside_percent,
            passes=None if doubtful is None else doubtful.n,
            pass_ms=None if doubtful is None else (doubtful.period_ps or 0) / PS_PER_MS,
        ),
        _STEPS_ITEM.fact(
            "ended",
            None,
            note=None if early_end is None else early_end.removesuffix("."),
        ),
        *_STEPS_ITEM.facts(
            recorded=None if early_end is None else steps.recorded_ps / PS_PER_MS
        ),
    )


_WINDOW_ITEM: Final = rule_item("capture.window")


class _WindowFacts(Frozen, frozen=True, eq=True):
    """Facts about the recorded steps (windows).

    Attributes:
        judged: Number of judged steps.
        clean: Number of judged steps with almost no compiling.
        early_percent: Compile time in the first steps, as a share of all step time.
        late_percent: Compile time in later steps, as a share of these steps' time.
        times: First step / median of the other steps, in length; None with few steps.
        apart_ps: Time between the first steps of two hosts; None if unknown.
    """

    judged: int
    clean: int
    early_percent: float
    late_percent: float
    times: float | None
    apart_ps: int | None


@rule(_WINDOW_ITEM, account_signals, record_grade, step_signals)
def judge_window(signals: Signals) -> Finding:
    account = signals.needed(account_signals)
    hosts = signals.needed(step_signals)
    shares = account.judged("compile")
    if shares.step_source is None:
        return _judge_start_up(account, signals.of(record_grade))
    windows = _window_facts(shares, hosts)
    note, severity = _window_flaw(windows, shares)
    warm = note == "warm_up"
    percent = shares.percent("compile")
    return _WINDOW_ITEM.finding(
        "pass" if note is None else "fail",
        severity=severity,
        note=None if note == "few" else note,
        confidence=signals.of(record_grade),
        value=percent if warm else windows.clean,
        unit="percent" if warm else "count",
        share_percent=percent if warm else None,
        owners=("compile",) if warm else (),
        place="any" if warm else None,
        ms_per_step=shares.mean_ms(sum(shares.times("compile"))) if warm else None,
        threshold=THRESHOLDS.dirty_compile if warm else THRESHOLDS.few_steps,
        steps_clean=windows.judged,
        devices=account.ranked_labels("compile"),
        parts=shares.parts("compile") if warm else (),
        evidence=shares.evidence("compile"),
        facts=_facts_of_window(windows, hosts.get(shares.host)),
        inputs=("windows", "steps", "account"),
        actions=_WINDOW_ITEM.actions_for(note),
    )


def _judge_start_up(account: AccountSignals, grade: float) -> Finding:
    """Judge the share of the program's start in a recording without steps."""
    shares = account.judged("startup")
    percent = shares.percent("startup")
    if percent < THRESHOLDS.start_up_warn.value:
        return _WINDOW_ITEM.cannot_tell("no_steps")
    return _WINDOW_ITEM.finding(
        "fail",
        severity="warn",
        note="start_up",
        confidence=grade,
        value=percent,
        unit="percent",
        share_percent=percent,
        owners=("startup",),
        place="between",
        threshold=THRESHOLDS.start_up_warn,
        devices=account.ranked_labels("startup"),
        parts=shares.parts("startup"),
        evidence=shares.evidence("startup"),
        inputs=("windows", "account"),
        actions=_WINDOW_ITEM.actions_for("start_up"),
    )


def _window_facts(shares: StepShares, hosts: dict[str, HostSteps]) -> _WindowFacts:
    compiling, lengths = shares.times("compile"), shares.window_ps
    dirty = sum(
        100 * time > THRESHOLDS.dirty_compile.value * length
        for time, length in zip(compiling, lengths, strict=True)
    )
    early, later = compiling[:_WARM_UP_STEPS], compiling[FIRST_STEPS:]
    later_ps = lengths[1:]
    begun = [steps.begins_ns for steps in hosts.values() if steps.begins_ns is not None]
    several = len(begun) == len(hosts) > 1
    return _WindowFacts(
        judged=len(lengths),
        clean=len(lengths) - dirty,
        early_percent=100 * sum(early) / max(shares.total_ps, 1),
        late_percent=100 * sum(later) / max(sum(lengths[FIRST_STEPS:]), 1),
        times=lengths[0] / max(float(np.median(later_ps)), 1)
        if len(later_ps) >= THRESHOLDS.few_steps.value
        else None,
        apart_ps=(max(begun) - min(begun)) * PS_PER_NS if several else None,
    )


def _window_flaw(
    window: _WindowFacts, shares: StepShares
) -> tuple[str | None, Severity]:
    min_steps = THRESHOLDS.few_steps.value
    recompiles = window.late_percent >= THRESHOLDS.recompile_warn.value
    if window.early_percent >= THRESHOLDS.dirty_compile.value and not recompiles:
        # With too few steps after warm-up the recording is not usable.
        return "warm_up", "warn" if window.clean < min_steps else "info"
    if window.judged < min_steps:
        return "few", "info"
    length = float(np.median(shares.window_ps))
    if window.apart_ps is not None and window.apart_ps > length:
        return "ranks", "info"
    long = window.times is not None and window.times > THRESHOLDS.long_first_step.value
    compile_unknown = "compile" in shares.missing
    return ("long_first" if compile_unknown and long else None), "info"


def _facts_of_window(window: _WindowFacts, steps: HostSteps | None) -> tuple[Fact, ...]:
    left_out = {} if steps is None else steps.left_out
    note = ", ".join(f"{count} {flag}" for flag, count in sorted(left_out.items()))
    period = None if steps is None else steps.period_ps
    return (
        _WINDOW_ITEM.fact("judged", window.judged, note=note or None),
        *_WINDOW_ITEM.facts(
            clean=window.clean,
            early=window.early_percent,
            times=None if window.times is None else round(window.times, 1),
            apart=None if window.apart_ps is None else window.apart_ps / PS_PER_US,
            step=None if period is None else period / PS_PER_US,
        ),
    )


#: Number of steps in which a program may still warm up.
_WARM_UP_STEPS: Final = 3
