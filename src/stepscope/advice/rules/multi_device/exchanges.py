"""Rules about collectives and copies between devices that delay the devices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.advice.catalogue import rule_item
from stepscope.advice.item import rule
from stepscope.advice.judging.lost_time import (
    OWNED_READS,
    Owned,
    judge_owned,
    judge_series,
    owned_shares,
)
from stepscope.advice.judging.program_facts import program_facts
from stepscope.advice.judging.worker_comparison import (
    ONE_EACH,
    has_pipeline_stages,
    short_worker_name,
)
from stepscope.derive.facts.devices.all_reduces import communication_signals
from stepscope.derive.facts.devices.moved_data import moved_data
from stepscope.derive.facts.evidence import MAX_RANGES_SHOWN, Part
from stepscope.derive.facts.program_traits import program_traits
from stepscope.derive.verdicts.recorded_devices import device_signals
from stepscope.unavailable import Unavailable
from stepscope.units import MIB

if TYPE_CHECKING:
    from stepscope.advice.finding import Finding
    from stepscope.advice.signals import Signals

_COLLECTIVES_ITEM: Final = rule_item("comm.exposed")

_COLLECTIVES_OWNED: Final = Owned(
    parts={"collective": ("collective",), "peer": ("peer",)},
    device=True,
    seen=("collective",),
)
_ALL_TO_ALL: Final = "all-to-all"
#: Minimum share of all-to-alls in the collectives' time from which the collectives
#: count as not transferring gradients.
_MIN_ALL_TO_ALL_PART: Final = 0.8


@rule(_COLLECTIVES_ITEM, *OWNED_READS, communication_signals, program_traits)
def judge_collectives(signals: Signals) -> Finding:
    shares = owned_shares(_COLLECTIVES_OWNED, signals)
    collectives = signals.needed(communication_signals)
    if not any(collectives.count.values()):
        return _COLLECTIVES_ITEM.not_applicable("no_exchange")
    judged = judge_owned(_COLLECTIVES_ITEM, _COLLECTIVES_OWNED, signals, shares=shares)
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
        facts=_COLLECTIVES_ITEM.facts(
            collectives=collectives.count.get(shares.label, 0)
        ),
        evidence=tuple(by_length[:MAX_RANGES_SHOWN]),
        inputs=("account", "collectives"),
        actions=_COLLECTIVES_ITEM.actions_for(
            *(data for data, holds in carried.items() if holds)
        ),
    )


_COPIES_ITEM: Final = rule_item("multi.copies")

_COPIES_OWNED: Final = Owned(
    parts={"copies": ("copy_in", "copy_out")},
    device=True,
    # Tracers of some devices do not record copies.
    seen=("copy_in", "copy_out"),
)


@rule(_COPIES_ITEM, *OWNED_READS, communication_signals, moved_data)
def judge_copies(signals: Signals) -> Finding:
    moves = signals.of(moved_data)
    if moves is None and signals.of(device_signals).recorded == "recorded":
        return _COPIES_ITEM.not_applicable(ONE_EACH)
    owned_shares(_COPIES_OWNED, signals)
    if moves is None or isinstance(moves, Unavailable) or not moves.window_ps:
        why = (
            moves if isinstance(moves, Unavailable) else _COPIES_ITEM.reason("no_steps")
        )
        return _COPIES_ITEM.cannot_tell(why)
    parts = {"in_turn": moves.in_turn_ps, "gathered": moves.gathered_ps}
    # Stages of a pipeline send results to each other by design.
    if not has_pipeline_stages(signals):
        parts["between"] = moves.between_ps
    judged = judge_series(_COPIES_ITEM, signals, moves.lost_time(parts))
    if judged.verdict.status == "pass" and moves.step_source is None:
        # Without steps it is unknown whether each step feeds the devices one by one.
        return _COPIES_ITEM.cannot_tell("unknown_steps")
    causes = judged.verdict.causes
    names = {
        "devices": len(moves.devices),
        "last": short_worker_name(moves.devices[0], moves.devices),
        "gathering": short_worker_name(moves.gathering or "", moves.devices),
    }
    largest = sorted(moves.bytes.items(), key=lambda pair: (-pair[1], pair[0]))
    return judged.finding(
        devices=moves.devices,
        # Each name describes a cause, with the devices that it concerns if known.
        parts=tuple(
            Part(
                name=_COPIES_ITEM.note(each.cause, **names),
                share_percent=each.share_percent,
            )
            for each in causes
        ),
        facts=tuple(
            _COPIES_ITEM.fact("mebibytes", moved / MIB, source=source, target=target)
            for (source, target), moved in largest[:_MAX_COPIES_NAMED]
        ),
        inputs=("account", "exposure", "windows"),
        actions=_COPIES_ITEM.actions_for(*(cause.cause for cause in causes)),
    )


_MAX_COPIES_NAMED: Final = 8
