"""`score.card`: how far a step is from an ideal step, in numbers without a verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from stepscope.advice.catalogue import rule_item
from stepscope.advice.item import rule
from stepscope.advice.judging.lost_time import OWNED_READS, Owned, owned_shares
from stepscope.derive.facts.devices.kernel_precision import precision_signals
from stepscope.derive.facts.devices.op_sides import ops_on_sides
from stepscope.derive.facts.recording import record_grade
from stepscope.derive.step_time.owners import COMPUTE_OWNERS
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.advice.finding import Finding
    from stepscope.advice.signals import Signals
    from stepscope.derive.facts.evidence import Fact

_ITEM: Final = rule_item("score.card")

_OWNED: Final = Owned(parts={"compute": ("compute_16",)}, device=True, unknown=False)


@rule(_ITEM, *OWNED_READS, ops_on_sides, precision_signals)
def evaluate(signals: Signals) -> Finding:
    shares = owned_shares(_OWNED, signals)
    between = sum(shares.percent(owner, place="between") for owner in shares.between_ps)
    return _ITEM.finding(
        "pass",
        confidence=min(signals.of(record_grade), shares.step_confidence or 0.5),
        devices=(shares.label,),
        facts=(
            *_ITEM.facts(
                computing=shares.percent(*COMPUTE_OWNERS),
                copies=shares.percent(*_COPIES),
                between=between,
            ),
            *_facts_of_precision(signals),
            *_facts_of_ops(signals),
        ),
        inputs=("account", "precision", "op_placement"),
    )


def _facts_of_precision(signals: Signals) -> tuple[Fact, ...]:
    times = signals.of(precision_signals)
    if isinstance(times, Unavailable):
        unknown = _ITEM.facts(narrow=None, narrow_eligible=None, narrow_kernels=None)
        return tuple(replace(fact, note=times.reason) for fact in unknown)
    return _ITEM.facts(
        narrow=_known_percent(times.narrow_ps, times.compute_ps),
        narrow_eligible=_known_percent(times.eligible_narrow_ps, times.eligible_ps),
        narrow_kernels=_known_percent(times.narrow_kernels, times.kernels),
    )


def _known_percent(part: float, total: float) -> float | None:
    return 100 * part / total if total else None


def _facts_of_ops(signals: Signals) -> tuple[Fact, ...]:
    op_shares = signals.of(ops_on_sides)
    if isinstance(op_shares, Unavailable):
        count, time = _ITEM.facts(ops=None, ops_time=None)
        return (replace(count, note=op_shares.reason), replace(time, note=None))
    return _ITEM.facts(ops=op_shares.count_percent, ops_time=op_shares.time_percent)


_COPIES: Final = ("copy_in", "copy_out", "copy_within", "transfer_wait")
