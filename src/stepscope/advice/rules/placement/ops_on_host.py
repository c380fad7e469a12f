"""Rules about ops that run on the host while a device waits for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from stepscope.advice.catalogue import rule_item
from stepscope.advice.finding import Finding
from stepscope.advice.item import Rule
from stepscope.advice.judging.owned import OWNED_READS, Owned, shares_of
from stepscope.advice.verdict import judge
from stepscope.derive.facts.devices.op_sides import placement_signals
from stepscope.derive.facts.evidence import Part, Saving
from stepscope.derive.facts.recording import record_grade
from stepscope.derive.judging.effect_status import StepSeries
from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_MS, PS_PER_US

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stepscope.advice.item import Item
    from stepscope.advice.signals import Signals
    from stepscope.derive.facts.devices.op_sides import HostPlaced
    from stepscope.derive.facts.step_shares import StepShares
    from stepscope.derive.run_derivation import RunDerivation
    from stepscope.thresholds import Thresholds

_WORK_ON_HOST_ITEM: Final = rule_item("place.host")

_WORK_ON_HOST_KINDS: Final = {"products": "heavy", "callbacks": "callback"}


def judge_work_on_host(signals: Signals, thresholds: Thresholds) -> Finding:
    return judge_placed(_WORK_ON_HOST_ITEM, _WORK_ON_HOST_KINDS, signals, thresholds)


#: The signals that rules about ops on the host ask for.
PLACED_READS: Final[tuple[RunDerivation[Any], ...]] = (*OWNED_READS, placement_signals)
_OWNED: Final = Owned(
    parts={"host_ops": ("host_compute",)}, device=True, seen=("host_compute",)
)
#: Ops that are named.
_SHOWN: Final = 3


def judge_placed(
    item: Item, kinds: Mapping[str, str], signals: Signals, thresholds: Thresholds
) -> Finding:
    """Judge the time that a device waits for the host's ops of some kinds.

    Args:
        kinds: Cause → kind of its ops.
    """
    shares = shares_of(item, _OWNED, signals, thresholds)
    if isinstance(shares, Finding):
        return shares
    devices = signals.of(placement_signals)
    if isinstance(devices, Unavailable):
        return item.cannot_tell(devices)
    placed = devices.get(shares.label, ())
    dark = thresholds.unexplained_warn.value
    series = _series(shares, placed, kinds, unknown_from=dark)
    warn = thresholds.placed_warn
    verdict = judge(
        series, warn=warn, critical=thresholds.placed_critical, thresholds=thresholds
    )
    if verdict.status == "cannot_tell":
        why = verdict.unavailable
        return item.finding("cannot_tell", unavailable=why)
    effect, stepped = verdict.effect_ms, shares.step_source is not None
    failed = verdict.status == "fail"
    mine = [one for one in placed if one.kind in kinds.values()]
    return item.finding(
        verdict.status,
        severity=verdict.severity,
        note=verdict.note,
        confidence=min(verdict.confidence, signals.of(record_grade)),
        value=verdict.share_percent,
        # A part of what the host's own work has: the account names no such owner.
        share_percent=verdict.share_percent,
        threshold=warn,
        devices=(shares.label,),
        causes=verdict.causes,
        pattern=verdict.pattern if failed and stepped else None,
        ms_per_step=effect if stepped else None,
        steps_clean=len(shares.window_ps) if stepped else None,
        parts=tuple(
            Part(name=one.name, share_percent=100 * one.time_ps / shares.total_ps)
            for one in mine[:_SHOWN]
            if shares.total_ps
        ),
        facts=_WORK_ON_HOST_ITEM.facts(
            ops=len(mine),
            effect=effect * PS_PER_MS / PS_PER_US,
            smallest_effect=thresholds.smallest_effect.value / PS_PER_US,
        ),
        evidence=shares.evidence("host_compute"),
        inputs=("account_parts", "host_op_events", "device_ops"),
        saving_ms=Saving(low=effect / 2, high=effect) if failed and stepped else None,
    )


def _series(
    shares: StepShares,
    placed: tuple[HostPlaced, ...],
    kinds: Mapping[str, str],
    *,
    unknown_from: float,
) -> StepSeries:
    """Divide the host's work in each step as its parts by name are in all of them."""
    work = shares.times("host_compute")
    total = max(sum(work), 1)
    of_kind = {
        kind: sum(one.time_ps for one in placed if one.kind == kind)
        for kind in kinds.values()
    }
    whole = shares.series(_OWNED.parts, unknown_from=unknown_from)
    return StepSeries(
        step_source=whole.step_source,
        step_confidence=whole.step_confidence,
        closed=whole.closed,
        window_ps=whole.window_ps,
        parts_ps={
            cause: tuple(time * of_kind[kind] // total for time in work)
            for cause, kind in kinds.items()
        },
        unknown_ps=whole.unknown_ps,
    )


WORK_ON_HOST: Final = Rule(_WORK_ON_HOST_ITEM, judge_work_on_host, PLACED_READS)


_OVERRIDDEN_OPS_ITEM: Final = rule_item("place.override")

_OVERRIDDEN_OPS_KINDS: Final = {"overridden": "model"}


def judge_overridden_ops(signals: Signals, thresholds: Thresholds) -> Finding:
    return judge_placed(
        _OVERRIDDEN_OPS_ITEM, _OVERRIDDEN_OPS_KINDS, signals, thresholds
    )


OVERRIDDEN_OPS: Final = Rule(_OVERRIDDEN_OPS_ITEM, judge_overridden_ops, PLACED_READS)
