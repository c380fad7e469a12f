"""`comm.exposed`: devices run collectives while they compute nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.advice.catalogue import rule_item
from stepscope.advice.item import rule
from stepscope.advice.judging.lost_time import (
    OWNED_READS,
    Owned,
    judge_owned,
    owned_shares,
)
from stepscope.advice.judging.program_facts import program_facts
from stepscope.derive.facts.devices.all_reduces import communication_signals
from stepscope.derive.facts.evidence import MAX_RANGES_SHOWN, Part
from stepscope.derive.facts.program_traits import program_traits

if TYPE_CHECKING:
    from stepscope.advice.finding import Finding
    from stepscope.advice.signals import Signals

_ITEM: Final = rule_item("comm.exposed")

_OWNED: Final = Owned(
    parts={"collective": ("collective",), "peer": ("peer",)},
    device=True,
    seen=("collective",),
)
_ALL_TO_ALL: Final = "all-to-all"
#: Minimum share of all-to-alls in the collectives' time from which the collectives
#: count as not transferring gradients.
_MIN_ALL_TO_ALL_PART: Final = 0.8


@rule(_ITEM, *OWNED_READS, communication_signals, program_traits)
def evaluate(signals: Signals) -> Finding:
    shares = owned_shares(_OWNED, signals)
    collectives = signals.needed(communication_signals)
    if not any(collectives.count.values()):
        return _ITEM.not_applicable("no_exchange")
    judged = judge_owned(_ITEM, _OWNED, signals, shares=shares)
    # Divide the share among the kinds in proportion to their exposed times.
    exposed_ps = collectives.exposed_ps.get(shares.label, {})
    share, total = judged.verdict.share_percent, sum(exposed_ps.values())
    kinds = tuple(
        Part(name=kind, share_percent=share * time / total)
        for kind, time in exposed_ps.items()
        if time
    )
    all_to_all = sum(
        part.share_percent for part in kinds if part.name.endswith(_ALL_TO_ALL)
    )
    total_percent = sum(part.share_percent for part in kinds)
    # An all-to-all does not transfer gradients, and neither does inference.
    forward = "forward" in program_facts(signals)
    other = all_to_all < _MIN_ALL_TO_ALL_PART * total_percent or not total_percent
    carried = {
        "rows": bool(all_to_all),
        "gradients": other and not forward,
        "activations": other and forward,
    }
    waits = (*collectives.longest.get(shares.label, ()), *shares.evidence("peer"))
    by_length = sorted(waits, key=lambda wait: wait.start_ps - wait.end_ps)
    return judged.finding(
        parts=kinds,
        facts=_ITEM.facts(collectives=collectives.count.get(shares.label, 0)),
        evidence=tuple(by_length[:MAX_RANGES_SHOWN]),
        inputs=("account", "collectives"),
        actions=_ITEM.actions_for(*(data for data, holds in carried.items() if holds)),
    )
