"""`multi.batch`: a larger batch fits, and spreads fixed costs over more samples."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Final

from stepscope.advice.catalogue import rule_item
from stepscope.advice.item import rule
from stepscope.advice.judging.lost_time import OWNED_READS, Owned, owned_shares
from stepscope.advice.lost_time_verdict import judge
from stepscope.derive.facts.devices.device_fill import fill_signals
from stepscope.derive.facts.evidence import CauseShare
from stepscope.derive.facts.memory_use import memory_signals
from stepscope.derive.facts.recording import record_grade
from stepscope.thresholds import THRESHOLDS
from stepscope.unavailable import Unavailable
from stepscope.units import GIB

if TYPE_CHECKING:
    from stepscope.advice.finding import Finding
    from stepscope.advice.signals import Signals
    from stepscope.derive.facts.step_shares import StepShares

_ITEM: Final = rule_item("multi.batch")

_OWNED: Final = Owned(parts={"launching": ("launch",)}, device=True, steps=True)
#: Causes of time between steps that does not depend on the batch size.
_BETWEEN: Final = ("sync", "between")
_EXCHANGING: Final = ("collective", "peer")


#: Maximum growth factor of the batch size for which the memory estimate is reliable.
_MAX_RELIABLE_RATIO: Final = 10
#: Maximum growth factor for which the gain is estimated, since fixed costs may grow.
_MAX_ESTIMATED_RATIO: Final = 2


@rule(_ITEM, *OWNED_READS, fill_signals, memory_signals)
def evaluate(signals: Signals) -> Finding:
    shares = owned_shares(_OWNED, signals)
    memories = signals.of(memory_signals)
    known = (
        memory
        for memory in memories.memories
        if memory.of_device
        and memory.counted
        and memory.used is not None
        and memory.least_bytes
    )
    memory = max(known, key=attrgetter("used"), default=None)
    if memory is None:
        return _ITEM.cannot_tell(memories.absent or _ITEM.reason("unknown"))
    peak, capacity = memory.peak_bytes or 0, memory.capacity_bytes or 0
    steady = min(memory.least_bytes)
    full = THRESHOLDS.batch_fill.value * capacity
    if peak <= steady or full <= steady:
        return _ITEM.cannot_tell("still")
    growth_factor = (full - steady) / (peak - steady)
    costs, causes, why_unknown = _fixed_costs(signals, shares)
    fits = growth_factor >= THRESHOLDS.batch_room.value
    if fits and not causes and why_unknown is not None:
        return _ITEM.cannot_tell(why_unknown)
    failed = fits and bool(causes)
    # Time of kernels that only partly use the device also grows less than the batch
    # size, but by an unknown amount.
    fixed = sum(costs[cost] for cost in _FIXED)
    note = None if fits else "full"
    if failed and growth_factor > _MAX_RELIABLE_RATIO:
        note = "much"
    sizes = {"peak_gib": peak, "least_gib": steady, "capacity_gib": capacity}
    return _ITEM.finding(
        "fail" if failed else "pass",
        note=note,
        confidence=min(signals.of(record_grade), shares.step_confidence),
        value=growth_factor,
        unit="ratio",
        threshold=THRESHOLDS.batch_room,
        devices=(shares.label,),
        because=causes if failed else (),
        causes=tuple(
            CauseShare(cause=name, share_percent=share)
            for name, share in sorted(
                costs.items(), key=lambda cause_share: -cause_share[1]
            )
            if share
        ),
        facts=(
            *_ITEM.facts(
                room=round(growth_factor, 1),
                fixed=fixed,
                tried=round(min(growth_factor, _MAX_ESTIMATED_RATIO), 1),
                per_sample=fixed * (1 - 1 / min(growth_factor, _MAX_ESTIMATED_RATIO)),
            ),
            *(
                _ITEM.fact(name, float(f"{size / GIB:.3g}"))
                for name, size in sizes.items()
            ),
        ),
        inputs=("allocations", "memory_replay", "account", "kernels"),
        actions=_ITEM.actions_for(*causes),
    )


def _fixed_costs(
    signals: Signals, shares: StepShares
) -> tuple[dict[str, float], tuple[str, ...], Unavailable | None]:
    """Return costs of a step that do not depend on the batch size, as percentages.

    The other results are the costs that are large enough to matter, and why one of the
    costs is unknown; None if all are known.
    """
    fills = signals.of(fill_signals)
    fill = None if isinstance(fills, Unavailable) else fills.get(shares.label)
    fixed_percent = {
        "launching": shares.percent("launch"),
        "between": shares.percent(*_BETWEEN, place="between"),
        "exchanging": shares.percent(*_EXCHANGING),
        "filling": (0.0 if fill is None else fill.unfilled_percent(shares)),
    }
    limits = {
        "launching": THRESHOLDS.launch_warn,
        "between": THRESHOLDS.between_warn,
        "exchanging": THRESHOLDS.exposed_warn,
        "filling": THRESHOLDS.fill_warn,
    }
    # Launches seem late where records of earlier kernels were lost.
    launching = judge(
        shares.series({"launch": ("launch",)}, lost=True),
        (THRESHOLDS.launch_warn, THRESHOLDS.launch_critical),
    )
    doubtful = {"launching"} if launching.status == "cannot_tell" else set()
    unknown = shares.missing.get("launch") or shares.missing.get("collective")
    if unknown is None and doubtful:
        unknown = launching.unavailable
    if unknown is None and isinstance(fills, Unavailable):
        unknown = fills
    return (
        fixed_percent,
        tuple(
            name
            for name, share in fixed_percent.items()
            if share >= limits[name].value and name not in doubtful
        ),
        unknown,
    )


_FIXED: Final = ("launching", "between", "exchanging")
