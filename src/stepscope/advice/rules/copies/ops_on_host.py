"""Rules about ops that run on the host while a device waits for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from stepscope.advice.catalogue import rule_item
from stepscope.advice.item import rule
from stepscope.advice.judging.judged_series import judge_series
from stepscope.advice.judging.owned import OWNED_READS, Owned, owned_shares
from stepscope.derive.facts.devices.op_sides import placement_signals
from stepscope.derive.facts.evidence import Part, Saving

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stepscope.advice.finding import Finding
    from stepscope.advice.item import Item
    from stepscope.advice.signals import Signals
    from stepscope.derive.facts.devices.op_sides import HostPlaced
    from stepscope.derive.facts.step_shares import StepShares
    from stepscope.derive.run_derivation import RunDerivation
    from stepscope.derive.verdicts.effect_status import StepSeries
    from stepscope.thresholds import Thresholds

_WORK_ON_HOST_ITEM: Final = rule_item("place.host")


#: The signals that rules about ops on the host read.
PLACED_READS: Final[tuple[RunDerivation[Any], ...]] = (*OWNED_READS, placement_signals)
_OWNED: Final = Owned(
    parts={"host_ops": ("host_compute",)}, device=True, seen=("host_compute",)
)
#: Maximum number of ops to name.
_MAX_OPS_NAMED: Final = 3


@rule(_WORK_ON_HOST_ITEM, *PLACED_READS)
def judge_work_on_host(signals: Signals, thresholds: Thresholds) -> Finding:
    return judge_placed(
        _WORK_ON_HOST_ITEM,
        {"products": "heavy", "callbacks": "callback"},
        signals,
        thresholds,
    )


def judge_placed(
    item: Item, kinds: Mapping[str, str], signals: Signals, thresholds: Thresholds
) -> Finding:
    """Judge the time that a device waits for the host's ops of some kinds.

    Args:
        kinds: Kind of the ops by cause.
    """
    shares = owned_shares(_OWNED, signals, thresholds)
    placed = signals.needed(placement_signals).get(shares.label, ())
    max_unexplained = thresholds.unexplained_warn.value
    series = _divide_by_kind(shares, placed, kinds, unknown_from=max_unexplained)
    judged = judge_series(item, signals, thresholds, series)
    verdict = judged.verdict
    if verdict.unavailable is not None:
        return item.cannot_tell(verdict.unavailable)
    ops = [op for op in placed if op.kind in kinds.values()]
    fails_in_steps = judged.failed and judged.has_steps
    effect = verdict.effect_ms
    return judged.finding(
        devices=(shares.label,),
        pattern=verdict.pattern if fails_in_steps else None,
        steps_hit=None,
        parts=tuple(
            Part(name=op.name, share_percent=100 * op.time_ps / shares.total_ps)
            for op in ops[:_MAX_OPS_NAMED]
            if shares.total_ps
        ),
        facts=item.facts(ops=len(ops)),
        evidence=shares.evidence("host_compute"),
        inputs=("account_parts", "host_op_events", "device_ops"),
        saving_ms=Saving(low=effect / 2, high=effect) if fails_in_steps else None,
    )


def _divide_by_kind(
    shares: StepShares,
    placed: tuple[HostPlaced, ...],
    kinds: Mapping[str, str],
    *,
    unknown_from: float,
) -> StepSeries:
    """Divide the host's work in each step by kind, in the proportions of all steps."""
    work = shares.times("host_compute")
    total = max(sum(work), 1)
    of_kind = {
        kind: sum(op.time_ps for op in placed if op.kind == kind)
        for kind in kinds.values()
    }
    undivided = shares.series(_OWNED.parts, unknown_from=unknown_from)
    return shares.lost_time(
        {
            cause: tuple(time * of_kind[kind] // total for time in work)
            for cause, kind in kinds.items()
        },
        unknown_ps=undivided.unknown_ps,
    )


_OVERRIDDEN_ITEM: Final = rule_item("place.override")


@rule(_OVERRIDDEN_ITEM, *PLACED_READS)
def judge_overridden_ops(signals: Signals, thresholds: Thresholds) -> Finding:
    return judge_placed(_OVERRIDDEN_ITEM, {"overridden": "model"}, signals, thresholds)
