"""`step.periodic`: every n-th step is slow.

Definition: docs/advice/step_periodic.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.advice.finding import Action, Finding
from stepscope.advice.item import Item
from stepscope.advice.judging.owned import OWNED_READS, Owned, shares_of
from stepscope.advice.rule import Rule
from stepscope.advice.verdict import judge
from stepscope.advice.words import OWNER_WORDS, WAITING, Words
from stepscope.derive.facts.evidence import Fact
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

_OWNED: Final = Owned(parts={}, host=True, steps=True)
_ACTIONS: Final = (
    Action(
        cause="any",
        framework="any",
        text="Do what comes in this rhythm more rarely: a checkpoint, a log, an "
        "evaluation, a collection.",
    ),
    Action(
        cause="any",
        framework="any",
        text="Or do it on another thread, while the next steps run.",
    ),
)
_FOUND: Final = tuple(
    "Every {every} steps one takes {longer} longer: {share_percent} of the time" + named
    for named in ("; most of it {named}.", "; most of it {cause}.", ".")
)
_WORDS: Final = Words(
    passed="no step is slow in a fixed rhythm",
    lead=_FOUND,
    texts={
        **WAITING,
        ("fail", None): (_FOUND,),
        ("pass", None): (
            (
                (
                    "No step is slow in a fixed rhythm of up to {longest_period} "
                    "steps; a longer one could not be seen in {steps} steps."
                ),
            ),
        ),
        ("pass", "rare"): (
            (
                (
                    "Every {every} steps one takes {longer} longer, which costs only "
                    "{share_percent} of the time (a matter from {threshold} on)."
                ),
            ),
        ),
    },
    causes=OWNER_WORDS,
)
_ITEM: Final = Item(
    id="step.periodic",
    stage=9,
    title="steps are slow in a fixed rhythm",
    words=_WORDS,
    pages=("overview_page", "trace_viewer"),
    confirm="Look at two slow steps in the timeline: the same is done in both, and in "
    "no step between them.",
    refute="Record again, begun at another step: if the rhythm does not go on, it was "
    "chance.",
    actions=_ACTIONS,
    explains=("step.outlier",),
)


def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
    """Judge the time that every n-th step takes beyond the others."""
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
            Fact(name="every", value=found and found.every, unit="count"),
            Fact(name="longer", value=longer and longer / PS_PER_US, unit="us"),
            Fact(name="longest_period", value=longest_period(steps), unit="count"),
            Fact(name="steps", value=steps, unit="count"),
            held_time(shares, slow),
        ),
        # The time is that of other findings too, which promise it.
        saving_ms=None,
        evidence=evidence(shares, slow),
        inputs=("windows", "account"),
    )


def _few(steps: int, thresholds: Thresholds) -> Unavailable:
    return Unavailable(
        code="NO_STEPS",
        reason=f"A rhythm shows from {thresholds.outlier_steps.value:g} recorded steps "
        f"on, and only one of a third of them (here: {steps}).",
        remedy="Record more steps.",
    )


RULE: Final = Rule(_ITEM, evaluate, (*OWNED_READS, rare_functions))
