"""Rules about steps slower than the others, at irregular or at regular intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from stepscope.advice.catalogue import rule_item
from stepscope.advice.item import rule
from stepscope.advice.judging.lost_time import (
    OWNED_READS,
    JudgedSeries,
    Owned,
    judge_series,
    owned_shares,
)
from stepscope.advice.signals import CannotTell
from stepscope.derive.facts.hosts.function_divisions import rare_functions
from stepscope.derive.facts.processors import processor_signals
from stepscope.derive.facts.slow_steps import (
    excess_by_owner,
    held_time,
    longest_period,
    longest_slow_steps,
    named_parts,
    period_of_slow_steps,
    rare_function,
    slow_steps,
)
from stepscope.derive.facts.step_shares import account_signals
from stepscope.derive.step_time.owners import COMPUTE_OWNERS
from stepscope.thresholds import THRESHOLDS
from stepscope.units import PS_PER_US

if TYPE_CHECKING:
    from stepscope.advice.finding import Finding
    from stepscope.advice.item import Item
    from stepscope.advice.signals import Signals
    from stepscope.array_types import Bools
    from stepscope.derive.facts.evidence import Part
    from stepscope.derive.facts.step_shares import StepShares

_OUTLIERS_ITEM: Final = rule_item("step.outlier")

_OWNED: Final = Owned(parts={}, host=True, steps=True)
#: Causes of time that are work of the model itself.
_WORK: Final = frozenset({*COMPUTE_OWNERS, "host_compute"})


@rule(_OUTLIERS_ITEM, *OWNED_READS, processor_signals, rare_functions)
def judge_outliers(signals: Signals) -> Finding:
    shares = _shares_of_enough_steps(_OUTLIERS_ITEM, signals)
    slow = slow_steps(shares, THRESHOLDS)
    series = excess_by_owner(shares, slow)
    judged = judge_series(_OUTLIERS_ITEM, signals, series)
    function = rare_function(slow, series, signals.of(rare_functions).get(shares.host))
    judged = _with_tempered_severity(judged, shares, is_named=function is not None)
    verdict, length = judged.verdict, np.array(shares.window_ps)
    slowest = round(float(length.max() / np.median(length)), 1)
    return judged.finding(
        note="rare" if verdict.status == "pass" and slow.any() else None,
        share_percent=verdict.share_percent if slow.any() else None,
        actions=_OUTLIERS_ITEM.actions_for(None if function is None else "function"),
        facts=(
            *_OUTLIERS_ITEM.facts(slow=int(slow.sum()), steps=len(length)),
            held_time(shares, slow),
            *_OUTLIERS_ITEM.facts(slowest=slowest),
        ),
        **_slow_step_fields(judged, shares, slow, function),
    )


def _shares_of_enough_steps(item: Item, signals: Signals) -> StepShares:
    """Return the time by cause, if there are enough steps to detect unusual ones."""
    shares = owned_shares(_OWNED, signals)
    steps, min_steps = len(shares.window_ps), THRESHOLDS.outlier_steps.value
    if steps < min_steps:
        raise CannotTell(item.reason("few", outlier_steps=min_steps, steps=steps))
    return shares


def _slow_step_fields(
    judged: JudgedSeries, shares: StepShares, slow: Bools, function: Part | None
) -> dict[str, Any]:
    causes = judged.verdict.causes
    largest = causes[0].cause if causes else None
    return {
        "devices": judged.signals.needed(account_signals).ranked_labels(),
        "parts": named_parts(shares, slow, largest, function),
        # Other findings about the same lost time have its saving.
        "saving_ms": None,
        "evidence": longest_slow_steps(shares, slow),
        "inputs": ("windows", "account"),
    }


def _with_tempered_severity(
    judged: JudgedSeries, shares: StepShares, *, is_named: bool
) -> JudgedSeries:
    """Limit the severity to a warning, or to a note if the program is not to blame.

    The program is not to blame if no function runs only in the slow steps, and other
    processes use the machine or the same work took longer. A finding on a single slow
    step keeps its severity.
    """
    if not judged.failed:
        return judged
    cores = (judged.signals.known(processor_signals) or {}).get(shares.host)
    crowded = cores is not None and cores.whose_threads_crowd(THRESHOLDS) == "others"
    same_work = judged.verdict.causes[0].cause in _WORK
    if not is_named and (crowded or same_work) and judged.verdict.note != "once":
        note = "others" if crowded else "same_work"
        return judged.with_verdict(severity="info", note=note)
    if judged.verdict.severity == "info":
        return judged
    return judged.with_verdict(severity="warn")


_RHYTHM_ITEM: Final = rule_item("step.periodic")


@rule(_RHYTHM_ITEM, *OWNED_READS, rare_functions)
def judge_rhythm(signals: Signals) -> Finding:
    shares = _shares_of_enough_steps(_RHYTHM_ITEM, signals)
    steps = len(shares.window_ps)
    period = period_of_slow_steps(shares, slow_steps(shares, THRESHOLDS))
    slow = np.zeros(steps, np.bool_) if period is None else period.slow
    series = excess_by_owner(shares, slow)
    judged = judge_series(_RHYTHM_ITEM, signals, series)
    rarely = signals.of(rare_functions).get(shares.host)
    longer = float(np.mean(np.array(series.effect_ps)[slow])) if slow.any() else None
    passes = judged.verdict.status == "pass"
    return judged.finding(
        note="rare" if passes and period is not None else None,
        facts=(
            *_RHYTHM_ITEM.facts(
                every=period and period.every,
                longer=longer and longer / PS_PER_US,
                longest_period=longest_period(steps),
                steps=steps,
            ),
            held_time(shares, slow),
        ),
        **_slow_step_fields(judged, shares, slow, rare_function(slow, series, rarely)),
    )
