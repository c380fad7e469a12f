"""`step.periodic`: every n-th step is slow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.advice.catalogue import rule_item
from stepscope.advice.finding import Finding
from stepscope.advice.judging.owned import OWNED_READS, Owned, shares_of
from stepscope.advice.rule import Rule
from stepscope.advice.verdict import judge
from stepscope.derive.facts.hosts.function_ways import rare_functions
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
    from stepscope.thresholds import Thresholds

_ITEM: Final = rule_item("step.periodic")

_OWNED: Final = Owned(parts={}, host=True, steps=True)


def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
    shares = shares_of(_ITEM, _OWNED, signals, thresholds)
    if isinstance(shares, Finding):
        return shares
    steps = len(shares.window_ps)
    if steps < thresholds.outlier_steps.value:
        return _ITEM.cannot_tell(_few(steps, thresholds))
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
    return _ITEM.judged(
        verdict,
        grade=signals.of(record_grade),
        threshold=warn,
        smallest=thresholds.smallest_effect,
        note="rare" if verdict.status == "pass" and found is not None else None,
        devices=present(signals.of(account_signals)).ranked(),
        parts=named(shares, slow, largest, rare_function(slow, series, rarely)),
        facts=(
            *_ITEM.facts(
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


def _few(steps: int, thresholds: Thresholds) -> Unavailable:
    return _ITEM.reason(
        "few", outlier_steps=thresholds.outlier_steps.value, steps=steps
    )


RULE: Final = Rule(_ITEM, evaluate, (*OWNED_READS, rare_functions))
