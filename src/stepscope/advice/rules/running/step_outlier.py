"""`step.outlier`: a few steps are much slower than the others.

Definition: docs/advice/step_outlier.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np

from stepscope.advice.finding import Action, Finding
from stepscope.advice.item import Item
from stepscope.advice.judging.owned import OWNED_READS, Owned, shares_of
from stepscope.advice.rule import Rule
from stepscope.advice.verdict import judge
from stepscope.advice.words import OWNER_WORDS, WAITING, Words
from stepscope.derive.facts.evidence import Fact
from stepscope.derive.facts.hosts.function_ways import rare_functions
from stepscope.derive.facts.processors import processor_signals
from stepscope.derive.facts.recording import record_grade
from stepscope.derive.facts.slow_steps import (
    evidence,
    excess,
    held_time,
    named,
    rare_function,
    slow_steps,
)
from stepscope.derive.facts.step_shares import account_signals
from stepscope.unavailable import Unavailable, present

if TYPE_CHECKING:
    from stepscope.advice.signals import Signals
    from stepscope.advice.verdict import Verdict
    from stepscope.derive.facts.step_shares import StepShares
    from stepscope.thresholds import Thresholds

_OWNED: Final = Owned(parts={}, host=True, steps=True)
_ACTIONS: Final = (
    Action(
        cause="function",
        framework="any",
        text="Do it more rarely or on less data, or on another thread, while the next "
        "steps run.",
    ),
    Action(
        cause="any",
        framework="any",
        text="Compare a slow step with a usual one: what takes longer in it is named "
        "here, and often has a finding of its own.",
    ),
    Action(
        cause="any",
        framework="any",
        text="Where nothing in the program differs, look for others on the machine: "
        "jobs, file systems, clocks.",
    ),
)
#: Owners that are the work of the model itself.
_WORK: Final = frozenset(
    {*(one for one in OWNER_WORDS if one.startswith("compute")), "host_compute"}
)
_SLOW: Final = (
    "Of {steps} steps, {slow} took much longer than the others, the worst {slowest} "
    "times the median: that costs {share_percent} of the time, {ms_per_step} a step on "
    "average."
)
_RARE: Final = (
    "Of {steps} steps, {slow} took much longer than the others, the worst {slowest} "
    "times the median; that costs {share_percent} of the time (a matter from "
    "{threshold} on)."
)
_OTHERS: Final = (
    "Other programs use most of the machine's cores, which by itself makes some steps "
    "slow."
)
_WORDS: Final = Words(
    passed="no step is much slower than the others",
    lead=(
        (
            "{function} makes {slow} of {steps} steps much slower than the others: "
            "that costs {share_percent} of the time."
        ),
        (
            "{slow} of {steps} steps hold {held_by_slow_steps} of the time: against a "
            "usual step they lose {share_percent} of it, most of it {cause}."
        ),
    ),
    texts={
        **WAITING,
        ("fail", None): ((_SLOW,), ("Most of it is {function}.",)),
        ("fail", "same_work"): ((_SLOW,), ("In them the same work takes longer.",)),
        ("fail", "others"): ((_SLOW,), ("Most of it is {function}.",), (_OTHERS,)),
        ("pass", None): (
            ("No step is slower than 1.2 times the median, and far from the others.",),
        ),
        ("pass", "rare"): ((_RARE,),),
    },
    causes=OWNER_WORDS,
)
_ITEM: Final = Item(
    id="step.outlier",
    stage=9,
    title="a few steps are much slower than the others",
    words=_WORDS,
    pages=("overview_page", "trace_viewer"),
    confirm="Look at the slow steps in the timeline, beside a usual one.",
    refute="Record again: if other steps are slow, and for another reason, it is the "
    "machine, not the program.",
    actions=_ACTIONS,
)


def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
    """Judge the time that slow steps take beyond a usual one."""
    shares = shares_of(_ITEM, _OWNED, signals, thresholds)
    if isinstance(shares, Finding):
        return shares
    steps = len(shares.window_ps)
    if steps < thresholds.outlier_steps.value:
        return _ITEM.cannot_tell(_few(steps, thresholds))
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
    return _ITEM.judged(
        verdict,
        grade=signals.of(record_grade),
        threshold=warn,
        smallest=thresholds.smallest_effect,
        note="rare" if rare else None,
        share_percent=None if not slow.any() else verdict.share_percent,
        devices=present(signals.of(account_signals)).ranked(),
        parts=named(shares, slow, largest, function),
        actions=_ACTIONS if function is not None else _ACTIONS[1:],
        facts=(
            Fact(name="slow", value=int(slow.sum()), unit="count"),
            Fact(name="steps", value=steps, unit="count"),
            held_time(shares, slow),
            Fact(
                name="slowest",
                value=round(float(length.max() / np.median(length)), 1),
                unit="ratio",
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


def _few(steps: int, thresholds: Thresholds) -> Unavailable:
    return Unavailable(
        code="NO_STEPS",
        reason="Which steps are unusual shows from "
        f"{thresholds.outlier_steps.value:g} recorded steps on (here: {steps}).",
        remedy="Record more steps.",
    )


RULE: Final = Rule(_ITEM, evaluate, (*OWNED_READS, processor_signals, rare_functions))
