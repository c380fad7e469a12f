"""Rules about steps that are slower than the others: now and then, or in a rhythm."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np

from stepscope.advice.catalogue import OWNER_WORDS, rule_item
from stepscope.advice.finding import Finding
from stepscope.advice.item import Rule
from stepscope.advice.judging.owned import OWNED_READS, Owned, shares_of
from stepscope.advice.verdict import judge
from stepscope.derive.facts.hosts.function_ways import rare_functions
from stepscope.derive.facts.processors import processor_signals
from stepscope.derive.facts.recording import record_grade
from stepscope.derive.facts.slow_steps import (
    evidence,
    excess,
    held_time,
    longest_period,
    named,
    period,
    rare_function,
    slow_steps,
)
from stepscope.derive.facts.step_shares import account_signals
from stepscope.unavailable import Unavailable, present
from stepscope.units import PS_PER_US

if TYPE_CHECKING:
    from stepscope.advice.signals import Signals
    from stepscope.advice.verdict import Verdict
    from stepscope.derive.facts.step_shares import StepShares
    from stepscope.thresholds import Thresholds

_OUTLIERS_ITEM: Final = rule_item("step.outlier")

_OUTLIERS_OWNED: Final = Owned(parts={}, host=True, steps=True)
#: Owners that are the work of the model itself.
_WORK: Final = frozenset(
    {*(one for one in OWNER_WORDS if one.startswith("compute")), "host_compute"}
)


def judge_outliers(signals: Signals, thresholds: Thresholds) -> Finding:
    shares = shares_of(_OUTLIERS_ITEM, _OUTLIERS_OWNED, signals, thresholds)
    if isinstance(shares, Finding):
        return shares
    steps = len(shares.window_ps)
    if steps < thresholds.outlier_steps.value:
        return _OUTLIERS_ITEM.cannot_tell(
            "few", outlier_steps=thresholds.outlier_steps.value, steps=steps
        )
    slow = slow_steps(shares, thresholds)
    series = excess(shares, slow)
    warn = thresholds.outlier_warn
    verdict = judge(series, warn=warn, critical=warn, thresholds=thresholds)
    largest = verdict.causes[0].cause if verdict.causes else None
    rarely = signals.of(rare_functions).get(shares.host)
    function = rare_function(slow, series, rarely)
    crowded = _is_crowded(signals, shares, thresholds)
    verdict = _tempered(verdict, named=function is not None, crowded=crowded)
    rare = verdict.status == "pass" and bool(slow.any())
    length = np.array(shares.window_ps)
    return _OUTLIERS_ITEM.judged(
        verdict,
        grade=signals.of(record_grade),
        threshold=warn,
        smallest=thresholds.smallest_effect,
        note="rare" if rare else None,
        share_percent=None if not slow.any() else verdict.share_percent,
        devices=present(signals.of(account_signals)).ranked(),
        parts=named(shares, slow, largest, function),
        actions=_OUTLIERS_ITEM.actions
        if function is not None
        else _OUTLIERS_ITEM.actions_for("any"),
        facts=(
            *_OUTLIERS_ITEM.facts(slow=int(slow.sum()), steps=steps),
            held_time(shares, slow),
            *_OUTLIERS_ITEM.facts(
                slowest=round(float(length.max() / np.median(length)), 1)
            ),
        ),
        # The time is that of other findings too, which promise it.
        saving_ms=None,
        evidence=evidence(shares, slow),
        inputs=("windows", "account"),
    )


def _tempered(verdict: Verdict, *, named: bool, crowded: bool) -> Verdict:
    """Make it a warning at most; a note where it need not be the program's doing.

    Others use the machine, or the same work took longer and no function of the program
    runs in the slow steps alone. A single slow step stays what it is.
    """
    if verdict.status != "fail":
        return verdict
    same_work = verdict.causes[0].cause in _WORK and not named
    if (crowded or same_work) and verdict.note != "once":
        note = "others" if crowded else "same_work"
        return msgspec.structs.replace(verdict, severity="info", note=note)
    if verdict.severity == "info":
        return verdict
    return msgspec.structs.replace(verdict, severity="warn")


def _is_crowded(signals: Signals, shares: StepShares, thresholds: Thresholds) -> bool:
    """Return whether other programs use most of the cores."""
    hosts = signals.of(processor_signals)
    found = None if isinstance(hosts, Unavailable) else hosts.get(shares.host)
    return found is not None and found.crowded_by(thresholds) == "others"


OUTLIERS: Final = Rule(
    _OUTLIERS_ITEM, judge_outliers, (*OWNED_READS, processor_signals, rare_functions)
)


_RHYTHM_ITEM: Final = rule_item("step.periodic")

_RHYTHM_OWNED: Final = Owned(parts={}, host=True, steps=True)


def judge_rhythm(signals: Signals, thresholds: Thresholds) -> Finding:
    shares = shares_of(_RHYTHM_ITEM, _RHYTHM_OWNED, signals, thresholds)
    if isinstance(shares, Finding):
        return shares
    steps = len(shares.window_ps)
    if steps < thresholds.outlier_steps.value:
        return _RHYTHM_ITEM.cannot_tell(
            "few", outlier_steps=thresholds.outlier_steps.value, steps=steps
        )
    found = period(shares, slow_steps(shares, thresholds))
    slow = np.zeros(steps, np.bool_) if found is None else found.slow
    series = excess(shares, slow)
    warn = thresholds.periodic_warn
    verdict = judge(
        series, warn=warn, critical=thresholds.periodic_critical, thresholds=thresholds
    )
    largest = verdict.causes[0].cause if verdict.causes else None
    rarely = signals.of(rare_functions).get(shares.host)
    longer = float(np.mean(np.array(series.effect_ps)[slow])) if slow.any() else None
    return _RHYTHM_ITEM.judged(
        verdict,
        grade=signals.of(record_grade),
        threshold=warn,
        smallest=thresholds.smallest_effect,
        note="rare" if verdict.status == "pass" and found is not None else None,
        devices=present(signals.of(account_signals)).ranked(),
        parts=named(shares, slow, largest, rare_function(slow, series, rarely)),
        facts=(
            *_RHYTHM_ITEM.facts(
                every=found and found.every,
                longer=longer and longer / PS_PER_US,
                longest_period=longest_period(steps),
                steps=steps,
            ),
            held_time(shares, slow),
        ),
        # The time is that of other findings too, which promise it.
        saving_ms=None,
        evidence=evidence(shares, slow),
        inputs=("windows", "account"),
    )


RHYTHM: Final = Rule(_RHYTHM_ITEM, judge_rhythm, (*OWNED_READS, rare_functions))
