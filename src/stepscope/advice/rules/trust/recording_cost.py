"""`recording.cost`: what the recording itself took."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from stepscope.advice.catalogue import rule_item
from stepscope.advice.finding import Finding
from stepscope.advice.item import Rule
from stepscope.advice.judging.owned import (
    OWNED_READS,
    Owned,
    judge_shares,
    owned_finding,
    shares_of,
)
from stepscope.derive.facts.recording import recorder_signals
from stepscope.units import PS_PER_US

if TYPE_CHECKING:
    from stepscope.advice.signals import Signals
    from stepscope.derive.facts.evidence import Fact
    from stepscope.derive.facts.step_shares import StepShares
    from stepscope.thresholds import Thresholds

_ITEM: Final = rule_item("recording.cost")

_OWNED: Final = Owned(
    parts={"profiler": ("profiler",)},
    host=True,
    seen=("profiler",),
    unknown=False,
)


def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
    shares = shares_of(_ITEM, _OWNED, signals, thresholds)
    if isinstance(shares, Finding):
        return shares
    warn = thresholds.profiler_warn
    # However much it is, the program is none the slower without a recording.
    verdict = judge_shares(_OWNED, shares, thresholds, warn=warn, critical=warn)
    if verdict.severity == "critical":
        verdict = msgspec.structs.replace(verdict, severity="warn")
    return owned_finding(
        _ITEM,
        _OWNED,
        signals,
        shares=shares,
        verdict=verdict,
        thresholds=thresholds,
        warn=warn,
        facts=_facts(signals, shares),
        inputs=("account", "event_kinds"),
        saving_ms=None,
    )


def _facts(signals: Signals, shares: StepShares) -> tuple[Fact, ...]:
    own = signals.of(recorder_signals).get(shares.host)
    if own is None:
        return ()
    return (
        # Nothing of a kind is no number, so that no sentence speaks of it: where no
        # event is one, the start may lie before the recording.
        *_ITEM.facts(
            start_stop=own.start_stop_ps / PS_PER_US if own.start_stop_ps else None
        ),
        _ITEM.fact(
            "buffers",
            own.buffers_ps / PS_PER_US if own.buffers_ps else None,
            buffers=own.buffers,
        ),
        *_ITEM.facts(in_judged_steps=own.judged_ps / PS_PER_US),
    )


RULE: Final = Rule(_ITEM, evaluate, (*OWNED_READS, recorder_signals))
