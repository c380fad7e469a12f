"""Rules about ops that run on the host while a device waits for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from stepscope.advice.catalogue import rule_item
from stepscope.advice.item import rule
from stepscope.advice.judging.lost_time import (
    OWNED_READS,
    Owned,
    judge_series,
    owned_shares,
)
from stepscope.derive.facts.devices.op_sides import placement_signals
from stepscope.derive.facts.evidence import Part

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stepscope.advice.finding import Finding
    from stepscope.advice.item import Item
    from stepscope.advice.signals import Signals
    from stepscope.derive.facts.devices.op_sides import HostPlaced
    from stepscope.derive.run_derivation import RunDerivation

_WORK_ON_HOST_ITEM: Final = rule_item("place.host")


#: The signals that rules about ops on the host read.
PLACED_READS: Final[tuple[RunDerivation[Any], ...]] = (*OWNED_READS, placement_signals)
_OWNED: Final = Owned(
    parts={"host_ops": ("host_compute",)}, device=True, seen=("host_compute",)
)
#: Maximum number of ops to name.
_MAX_OPS_NAMED: Final = 3


@rule(_WORK_ON_HOST_ITEM, *PLACED_READS)
def judge_work_on_host(signals: Signals) -> Finding:
    return judge_placed(
        _WORK_ON_HOST_ITEM, {"products": "heavy", "callbacks": "callback"}, signals
    )


def judge_placed(item: Item, kinds: Mapping[str, str], signals: Signals) -> Finding:
    """Judge the time that a device waits for the host's ops of some kinds.

    Args:
        kinds: Kind of the ops by cause.
    """
    shares = owned_shares(_OWNED, signals)
    placed = signals.needed(placement_signals).get(shares.label, ())
    parts_ps = _divide_by_kind(shares.times("host_compute"), placed, kinds)
    series = replace(_OWNED.series(shares), parts_ps=parts_ps)
    judged = judge_series(item, signals, series)
    verdict = judged.verdict
    if verdict.unavailable is not None:
        return item.cannot_tell(verdict.unavailable)
    ops = [op for op in placed if op.kind in kinds.values()]
    return judged.finding(
        devices=(shares.label,),
        pattern=verdict.pattern if judged.failed and judged.has_steps else None,
        steps_hit=None,
        parts=tuple(
            Part(name=op.name, share_percent=100 * op.time_ps / shares.total_ps)
            for op in ops[:_MAX_OPS_NAMED]
            if shares.total_ps
        ),
        facts=item.facts(ops=len(ops)),
        evidence=shares.evidence("host_compute"),
        inputs=("account_parts", "host_op_events", "device_ops"),
    )


def _divide_by_kind(
    work_ps: tuple[int, ...], placed: tuple[HostPlaced, ...], kinds: Mapping[str, str]
) -> dict[str, tuple[int, ...]]:
    """Divide the host's work in each step by cause, in the proportions of all steps."""
    total = max(sum(work_ps), 1)
    of_kind = {
        kind: sum(op.time_ps for op in placed if op.kind == kind)
        for kind in kinds.values()
    }
    return {
        cause: tuple(time * of_kind[kind] // total for time in work_ps)
        for cause, kind in kinds.items()
    }


_OVERRIDDEN_ITEM: Final = rule_item("place.override")


@rule(_OVERRIDDEN_ITEM, *PLACED_READS)
def judge_overridden_ops(signals: Signals) -> Finding:
    return judge_placed(_OVERRIDDEN_ITEM, {"overridden": "model"}, signals)
