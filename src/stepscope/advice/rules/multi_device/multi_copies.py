"""`multi.copies`: copies between the host and several devices delay the devices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.advice.catalogue import rule_item
from stepscope.advice.item import rule
from stepscope.advice.judging.judged_series import judge_series
from stepscope.advice.judging.owned import OWNED_READS, Owned, owned_shares
from stepscope.advice.judging.worker_comparison import (
    ONE_EACH,
    has_pipeline_stages,
    short_worker_name,
)
from stepscope.derive.facts.devices.all_reduces import communication_signals
from stepscope.derive.facts.devices.moved_data import moved_data
from stepscope.derive.facts.evidence import Part
from stepscope.derive.verdicts.recorded_devices import device_signals
from stepscope.unavailable import Unavailable
from stepscope.units import MIB

if TYPE_CHECKING:
    from stepscope.advice.finding import Finding
    from stepscope.advice.signals import Signals
    from stepscope.thresholds import Thresholds

_ITEM: Final = rule_item("multi.copies")

_COPIES: Final = Owned(
    parts={"copies": ("copy_in", "copy_out")},
    device=True,
    # Tracers of some devices do not record copies.
    seen=("copy_in", "copy_out"),
)


@rule(_ITEM, *OWNED_READS, communication_signals, moved_data)
def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
    moves = signals.of(moved_data)
    if moves is None and signals.of(device_signals).recorded == "recorded":
        return _ITEM.not_applicable(ONE_EACH)
    owned_shares(_COPIES, signals, thresholds)
    if moves is None or isinstance(moves, Unavailable) or not moves.window_ps:
        why = moves if isinstance(moves, Unavailable) else _ITEM.reason("no_steps")
        return _ITEM.cannot_tell(why)
    parts = {"in_turn": moves.in_turn_ps, "gathered": moves.gathered_ps}
    # Stages of a pipeline send results to each other by design.
    if not has_pipeline_stages(signals):
        parts["between"] = moves.between_ps
    judged = judge_series(_ITEM, signals, thresholds, moves.lost_time(parts))
    if judged.verdict.status == "pass" and moves.step_source is None:
        # Without steps it is unknown whether each step feeds the devices one by one.
        return _ITEM.cannot_tell("unknown_steps")
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
            Part(name=_ITEM.note(each.cause, **names), share_percent=each.share_percent)
            for each in causes
        ),
        facts=tuple(
            _ITEM.fact("mebibytes", moved / MIB, source=source, target=target)
            for (source, target), moved in largest[:_MAX_COPIES_NAMED]
        ),
        inputs=("account", "exposure", "windows"),
        actions=_ITEM.actions_for(*(cause.cause for cause in causes)),
    )


_MAX_COPIES_NAMED: Final = 8
