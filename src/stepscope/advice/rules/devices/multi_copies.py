"""`multi.copies`: copies between the host and several devices delay the devices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from stepscope.advice.catalogue import rule_item
from stepscope.advice.item import rule
from stepscope.advice.judging.compared import (
    ONE_EACH,
    has_pipeline_stages,
    worker_words,
)
from stepscope.advice.judging.judged_series import judge_series
from stepscope.advice.judging.owned import OWNED_READS, Owned, owned_shares
from stepscope.derive.facts.devices.exchanges import communication_signals
from stepscope.derive.facts.devices.moved_data import moved_data
from stepscope.derive.facts.evidence import Part, Saving
from stepscope.derive.judging.effect_status import StepSeries
from stepscope.derive.judging.recorded_devices import device_signals
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
#: Certain part of the gain, because the link may not transfer several copies at a time.
_SURE: Final = 0.3


@rule(_ITEM, *OWNED_READS, communication_signals, moved_data)
def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
    found = signals.of(moved_data)
    if found is None and signals.of(device_signals).recorded == "recorded":
        return _ITEM.not_applicable(ONE_EACH)
    owned_shares(_COPIES, signals, thresholds)
    if found is None or isinstance(found, Unavailable) or not found.window_ps:
        why = found if isinstance(found, Unavailable) else _ITEM.reason("no_steps")
        return _ITEM.cannot_tell(why)
    parts = {"in_turn": found.in_turn_ps, "gathered": found.gathered_ps}
    # Stages of a pipeline send results to each other by design.
    if not has_pipeline_stages(signals):
        parts["between"] = found.between_ps
    series = StepSeries(
        step_source=found.step_source,
        step_confidence=found.step_confidence,
        window_ps=found.window_ps,
        parts_ps=parts,
    )
    judged = judge_series(_ITEM, signals, thresholds, series)
    if judged.verdict.status == "pass" and found.step_source is None:
        # Without steps it is unknown whether each step feeds the devices one by one.
        return _ITEM.cannot_tell("unknown_steps")
    causes = judged.verdict.causes
    words = {
        "devices": len(found.devices),
        "last": worker_words(found.devices[0], found.devices),
        "gathering": worker_words(found.gathering or "", found.devices),
    }
    largest = sorted(found.bytes.items(), key=lambda it: (-it[1], it[0]))
    made = judged.finding(
        devices=found.devices,
        # Name each cause by the place where it is visible.
        parts=tuple(
            Part(name=_ITEM.note(one.cause, **words), share_percent=one.share_percent)
            for one in causes
        ),
        facts=tuple(
            _ITEM.fact("mebibytes", moved / MIB, source=source, target=target)
            for (source, target), moved in largest[:_SHOWN]
        ),
        inputs=("account", "exposure", "windows"),
        actions=_ITEM.actions_for(*(cause.cause for cause in causes)),
    )
    if made.saving_ms is None:
        return made
    high = made.saving_ms.high
    return msgspec.structs.replace(made, saving_ms=Saving(low=_SURE * high, high=high))


_SHOWN: Final = 8
