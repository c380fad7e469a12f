"""`gap.contention`: input threads take the cores that launching needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

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
from stepscope.advice.verdict import judge
from stepscope.derive.facts.devices.contention import contention_signals
from stepscope.derive.facts.evidence import Fact, Saving
from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_US

if TYPE_CHECKING:
    from stepscope.advice.signals import Signals
    from stepscope.advice.verdict import Verdict
    from stepscope.derive.facts.devices.contention import Contention
    from stepscope.derive.facts.step_shares import StepShares
    from stepscope.thresholds import Thresholds

_ITEM: Final = rule_item("gap.contention")

_OWNED: Final = Owned(
    parts={"launch": ("launch",)},
    device=True,
    seen=("launch",),
    clocks=True,
    lost=True,
)


def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
    shares = shares_of(_ITEM, _OWNED, signals, thresholds)
    if isinstance(shares, Finding):
        return shares
    warn, critical = thresholds.launch_warn, thresholds.launch_critical
    verdict = judge_shares(_OWNED, shares, thresholds, warn=warn, critical=critical)
    if verdict.status != "fail":
        # The device hardly waits for launches, whoever has the cores.
        return _finding(signals, shares, verdict, thresholds)
    devices = signals.of(contention_signals)
    if isinstance(devices, Unavailable):
        return _ITEM.cannot_tell(devices)
    found = devices[shares.label]
    series = msgspec.structs.replace(
        _OWNED.series(shares, thresholds), parts_ps={"contended": found.contended_ps}
    )
    verdict = judge(series, warn=warn, critical=critical, thresholds=thresholds)
    if verdict.status != "fail":
        return _finding(signals, shares, verdict, thresholds, facts=_facts(found))
    least = thresholds.contended_samples.value
    if min(found.busy_launches, found.quiet_launches) < least:
        return _ITEM.cannot_tell("few")
    slower = _is_slower(found, thresholds)
    high = verdict.effect_ms * (1 - 1 / max(found.pace or 1.0, 1.0))
    return _finding(
        signals,
        shares,
        verdict,
        thresholds,
        facts=_facts(found),
        severity=verdict.severity if slower else "info",
        note=verdict.note if slower else "pace",
        saving_ms=Saving(low=high / 2, high=high) if slower else None,
    )


def _finding(
    signals: Signals,
    shares: StepShares,
    verdict: Verdict,
    thresholds: Thresholds,
    **fields: Any,
) -> Finding:
    return owned_finding(
        _ITEM,
        _OWNED,
        signals,
        shares=shares,
        verdict=verdict,
        thresholds=thresholds,
        warn=thresholds.launch_warn,
        **({"inputs": ("account", "host_classes", "launches"), "owners": ()} | fields),
    )


def _is_slower(found: Contention, thresholds: Thresholds) -> bool:
    return (
        found.pace is not None
        and found.chance is not None
        and found.pace >= thresholds.contended_pace.value
        and found.chance < thresholds.contended_chance.value
    )


def _facts(found: Contention) -> tuple[Fact, ...]:
    busy, quiet = found.busy_pace_ps, found.quiet_pace_ps
    return (
        *_ITEM.facts(cores=found.cores),
        _ITEM.fact(
            "busy_pace",
            None if busy is None else busy / PS_PER_US,
            busy_launches=found.busy_launches,
        ),
        _ITEM.fact(
            "quiet_pace",
            None if quiet is None else quiet / PS_PER_US,
            quiet_launches=found.quiet_launches,
        ),
        *_ITEM.facts(pace=_rounded(found.pace)),
    )


def _rounded(ratio: float | None) -> float | None:
    return None if ratio is None else round(ratio, 1)


RULE: Final = Rule(_ITEM, evaluate, (*OWNED_READS, contention_signals))
