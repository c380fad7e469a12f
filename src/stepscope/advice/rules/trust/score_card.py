"""`score.card`: how far a step is from the ideal one, in numbers and without a verdict.

Definition: docs/advice/score_card.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.advice.finding import Finding
from stepscope.advice.item import Item
from stepscope.advice.judging.owned import OWNED_READS, Owned, shares_of
from stepscope.advice.rule import Rule
from stepscope.advice.words import Words
from stepscope.derive.facts.devices.kernel_precision import precision_signals
from stepscope.derive.facts.devices.op_sides import ops_on_sides
from stepscope.derive.facts.evidence import Fact
from stepscope.derive.facts.recording import record_grade
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.advice.signals import Signals
    from stepscope.derive.facts.step_shares import StepShares
    from stepscope.thresholds import Thresholds

_OWNED: Final = Owned(parts={"compute": ("compute_16",)}, device=True, unknown=False)
_WORDS: Final = Words(
    texts={
        # It never fails; each rule has both texts.
        ("fail", None): (("{computing} of the time the device computes.",),),
        ("pass", None): (
            (
                (
                    "The device computes {computing} of the time (ideally 90 % or "
                    "more), copies {copies} with nothing beside it (5 % or less) and "
                    "idles {between} between steps (3 % or less)."
                ),
            ),
            (
                "{narrow_eligible} of the time that could be 16-bit is.",
                "{narrow} of the kernels' time is 16-bit.",
            ),
            ("{ops} of the ops run on the device, {ops_time} of their time.",),
        ),
    },
)
_ITEM: Final = Item(
    id="score.card",
    stage=0,
    title="how far the step is from the ideal one",
    words=_WORDS,
    pages=("overview_page", "kernel_stats"),
)


def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
    """Collect the numbers by which the guides measure a step; none of them fails."""
    shares = shares_of(_ITEM, _OWNED, signals, thresholds)
    if isinstance(shares, Finding):
        return shares
    return _ITEM.finding(
        "pass",
        confidence=min(signals.of(record_grade), shares.step_confidence or 0.5),
        devices=(shares.label,),
        facts=(*_of_time(shares), *_of_precision(signals), *_of_ops(signals)),
        inputs=("account", "precision", "op_placement"),
    )


def _of_time(shares: StepShares) -> tuple[Fact, ...]:
    computing = shares.percent(*_COMPUTE)
    copies = shares.percent(*_COPIES)
    between = sum(shares.percent(one, place="between") for one in shares.between_ps)
    return (
        Fact(
            name="computing", value=computing, unit="percent", note="ideally 90 or more"
        ),
        Fact(name="copies", value=copies, unit="percent", note="ideally 5 or less"),
        Fact(name="between", value=between, unit="percent", note="ideally 3 or less"),
    )


def _of_precision(signals: Signals) -> tuple[Fact, ...]:
    found = signals.of(precision_signals)
    if isinstance(found, Unavailable):
        return (
            Fact(name="narrow", value=None, unit="percent", note=found.reason),
            Fact(name="narrow_eligible", value=None, unit="percent", note=found.reason),
            Fact(name="narrow_kernels", value=None, unit="percent", note=found.reason),
        )
    shares = (
        ("narrow", found.narrow_ps, found.compute_ps, "of the kernels' time"),
        (
            "narrow_eligible",
            found.eligible_narrow_ps,
            found.eligible_ps,
            "of the kernels' time that could be 16-bit",
        ),
        ("narrow_kernels", found.narrow_kernels, found.kernels, "of the kernels"),
    )
    return tuple(
        Fact(
            name=name,
            value=100 * part / whole if whole else None,
            unit="percent",
            note=note,
        )
        for name, part, whole, note in shares
    )


def _of_ops(signals: Signals) -> tuple[Fact, ...]:
    found = signals.of(ops_on_sides)
    absent = isinstance(found, Unavailable)
    return (
        Fact(
            name="ops",
            value=None if isinstance(found, Unavailable) else found.count_percent,
            unit="percent",
            note=found.reason if isinstance(found, Unavailable) else "by number",
        ),
        Fact(
            name="ops_time",
            value=None if isinstance(found, Unavailable) else found.time_percent,
            unit="percent",
            note=None if absent else "by their own time",
        ),
    )


_COMPUTE: Final = ("compute_16", "compute_tf32", "compute_32", "compute_64")
_COPIES: Final = ("copy_in", "copy_out", "copy_within", "transfer_wait")


RULE: Final = Rule(_ITEM, evaluate, (*OWNED_READS, ops_on_sides, precision_signals))
