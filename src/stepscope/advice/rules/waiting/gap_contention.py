"""`gap.contention`: input threads use the cores that launching needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from stepscope.advice.catalogue import rule_item
from stepscope.advice.item import rule
from stepscope.advice.judging.owned import OWNED_READS, Owned, judge_owned
from stepscope.derive.facts.devices.contention import contention_signals
from stepscope.derive.facts.evidence import Fact, Saving
from stepscope.units import PS_PER_US

if TYPE_CHECKING:
    from stepscope.advice.finding import Finding
    from stepscope.advice.signals import Signals
    from stepscope.derive.facts.devices.contention import Contention
    from stepscope.thresholds import Thresholds

_ITEM: Final = rule_item("gap.contention")

_OWNED: Final = Owned(
    parts={"launch": ("launch",)}, device=True, seen=("launch",), clocks=True, lost=True
)


@rule(_ITEM, *OWNED_READS, contention_signals)
def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
    judged = judge_owned(_ITEM, _OWNED, signals, thresholds)
    fields: dict[str, Any] = {
        "inputs": ("account", "host_classes", "launches"),
        "owners": (),
    }
    if not judged.failed:
        # The device hardly waits for launches, so contention does not matter.
        return judged.finding(**fields)
    shares = judged.shares
    found = signals.needed(contention_signals)[shares.label]
    series = msgspec.structs.replace(
        _OWNED.series(shares, thresholds), parts_ps={"contended": found.contended_ps}
    )
    judged = judge_owned(
        _ITEM, _OWNED, signals, thresholds, shares=shares, series=series
    )
    fields["facts"] = _facts_of_pace(found)
    if not judged.failed:
        return judged.finding(**fields)
    least = thresholds.contended_samples.value
    if min(found.busy_launches, found.quiet_launches) < least:
        return _ITEM.cannot_tell("few")
    pace, chance = found.pace, found.chance
    if (
        pace is None
        or chance is None
        or pace < thresholds.contended_pace.value
        or chance >= thresholds.contended_chance.value
    ):
        return judged.finding(severity="info", note="pace", saving_ms=None, **fields)
    high = judged.verdict.effect_ms * (1 - 1 / max(pace, 1.0))
    return judged.finding(saving_ms=Saving(low=high / 2, high=high), **fields)


def _facts_of_pace(found: Contention) -> tuple[Fact, ...]:
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
        *_ITEM.facts(pace=None if found.pace is None else round(found.pace, 1)),
    )
