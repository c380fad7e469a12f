"""`gap.contention`: input threads use the cores that launching needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from stepscope.advice.catalogue import rule_item
from stepscope.advice.item import rule
from stepscope.advice.judging.owned import OWNED_READS, Owned, judge_owned
from stepscope.derive.facts.devices.contention import contention_signals
from stepscope.derive.facts.evidence import Fact, Saving
from stepscope.thresholds import THRESHOLDS
from stepscope.units import PS_PER_US

if TYPE_CHECKING:
    from stepscope.advice.finding import Finding
    from stepscope.advice.signals import Signals
    from stepscope.derive.facts.devices.contention import Contention

_ITEM: Final = rule_item("gap.contention")

_OWNED: Final = Owned(
    parts={"launch": ("launch",)}, device=True, seen=("launch",), clocks=True, lost=True
)


@rule(_ITEM, *OWNED_READS, contention_signals)
def evaluate(signals: Signals) -> Finding:
    judged = judge_owned(_ITEM, _OWNED, signals)
    fields: dict[str, Any] = {
        "inputs": ("account", "host_classes", "launches"),
        "owners": (),
    }
    if not judged.failed:
        # The device hardly waits for launches, so the lack of cores does not matter.
        return judged.finding(**fields)
    shares = judged.shares
    contention = signals.needed(contention_signals)[shares.label]
    series = msgspec.structs.replace(
        _OWNED.series(shares),
        parts_ps={"contended": contention.contended_ps},
    )
    judged = judge_owned(_ITEM, _OWNED, signals, shares=shares, series=series)
    fields["facts"] = _facts_of_pace(contention)
    if not judged.failed:
        return judged.finding(**fields)
    min_samples = THRESHOLDS.contended_samples.value
    if min(contention.busy_launches, contention.quiet_launches) < min_samples:
        return _ITEM.cannot_tell("few")
    pace, chance = contention.pace, contention.chance
    if (
        pace is None
        or chance is None
        or pace < THRESHOLDS.contended_pace.value
        or chance >= THRESHOLDS.contended_chance.value
    ):
        return judged.finding(severity="info", note="pace", saving_ms=None, **fields)
    high = judged.verdict.effect_ms * (1 - 1 / max(pace, 1.0))
    return judged.finding(saving_ms=Saving(high=high), **fields)


def _facts_of_pace(contention: Contention) -> tuple[Fact, ...]:
    busy, quiet = contention.busy_pace_ps, contention.quiet_pace_ps
    return (
        *_ITEM.facts(cores=contention.cores),
        _ITEM.fact(
            "busy_pace",
            None if busy is None else busy / PS_PER_US,
            busy_launches=contention.busy_launches,
        ),
        _ITEM.fact(
            "quiet_pace",
            None if quiet is None else quiet / PS_PER_US,
            quiet_launches=contention.quiet_launches,
        ),
        *_ITEM.facts(
            pace=None if contention.pace is None else round(contention.pace, 1)
        ),
    )
