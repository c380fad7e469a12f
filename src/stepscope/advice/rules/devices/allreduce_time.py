"""`allreduce.time`: exchanges are slower than the link allows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from stepscope.advice.catalogue import rule_item
from stepscope.advice.finding import Finding
from stepscope.advice.judging.exchanged import (
    EXCHANGE_READS,
    at_rate,
    exchanges_of,
    without_sizes,
)
from stepscope.advice.rule import Rule
from stepscope.derive.facts.evidence import Fact, Saving
from stepscope.derive.facts.recording import record_grade
from stepscope.units import PS_PER_MS, PS_PER_US

if TYPE_CHECKING:
    from stepscope.advice.finding import Severity
    from stepscope.advice.signals import Signals
    from stepscope.derive.facts.devices.exchanges import ExchangeSignals
    from stepscope.derive.facts.replaying.edits import Change
    from stepscope.thresholds import Thresholds

_ITEM: Final = rule_item("allreduce.time")


def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
    found = exchanges_of(_ITEM, signals)
    if isinstance(found, Finding):
        return found
    if not found.least_ps:
        if found.bytes is None:
            return _ITEM.cannot_tell(without_sizes(found))
        return _ITEM.not_applicable("all_small")
    if found.expected_ps is None:
        return _ITEM.cannot_tell("no_rate")
    reached = 100 * found.expected_ps / found.least_ps
    slow = reached < thresholds.link_warn.value and _lost_ps(found) >= (
        thresholds.smallest_effect.value
    )
    if slow and found.workers < _TOGETHER:
        # Waiting for workers that were not recorded may be in the time.
        return _ITEM.cannot_tell("one_member")
    return _ITEM.finding(
        "fail" if slow else "pass",
        severity=_severity(found, reached, thresholds) if slow else "info",
        confidence=min(signals.of(record_grade), found.step_confidence),
        value=reached,
        threshold=thresholds.link_warn,
        ms_per_step=_lost_ps(found) / PS_PER_MS,
        steps_clean=len(found.window_ps),
        devices=(found.label,),
        facts=_facts(found),
        inputs=("collective_calls", "windows"),
        saving_ms=_saving(found) if slow else None,
    )


def _lost_ps(found: ExchangeSignals) -> float:
    """Return the time beyond what the link needs that nothing hides, per step."""
    exposed = sum(found.exposed_ps) / max(len(found.window_ps), 1)
    return min(found.least_ps - (found.expected_ps or 0.0), exposed)


def _severity(
    found: ExchangeSignals, reached: float, thresholds: Thresholds
) -> Severity:
    """Return how grave it is; a rate that the recording itself shows is no proof."""
    grave = reached < thresholds.link_critical.value
    return "critical" if grave and found.rate_source == "data sheet" else "warn"


def _saving(found: ExchangeSignals) -> Saving:
    most = _lost_ps(found) / PS_PER_MS
    return Saving(low=most / 2, high=most)


def _facts(found: ExchangeSignals) -> tuple[Fact, ...]:
    needed = found.expected_ps
    return (
        *_ITEM.facts(
            measured=found.least_ps / PS_PER_US,
            needed=None if needed is None else needed / PS_PER_US,
        ),
        _ITEM.fact("gb_per_s", found.gb_per_s, note=found.rate_source),
    )


#: Members whose shortest time holds no waiting.
_TOGETHER: Final = 2


def changes(signals: Signals, thresholds: Thresholds) -> tuple[Change, ...]:
    """Let large all-reduces take what their link needs, and wait as long as before."""
    found = exchanges_of(_ITEM, signals)
    if isinstance(found, Finding):
        return ()
    large = found.calls.filter(
        (pl.col("bytes") >= thresholds.large_exchange.value)
        & pl.col("link_ps").is_not_null()
    )
    latency = thresholds.exchange_latency.value
    return at_rate(large, pl.col("link_ps") + latency)


RULE: Final = Rule(_ITEM, evaluate, EXCHANGE_READS, changes)
