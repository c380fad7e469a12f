"""Rules about what was measured of kernels: what all ask, and how they judge."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import msgspec
import polars as pl

from stepscope.advice.catalogue import shared_texts
from stepscope.advice.finding import Finding
from stepscope.advice.judging.worked import (
    WORKED_READS,
    Worked,
    judge_kernels,
    kernels_of,
)
from stepscope.derive.facts.devices.kernel_limits import measured_work
from stepscope.derive.facts.evidence import Fact
from stepscope.frozen import Frozen
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stepscope.advice.item import Item
    from stepscope.advice.signals import Signals
    from stepscope.derive.run_derivation import RunDerivation
    from stepscope.thresholds import Threshold, Thresholds

_TEXTS: Final = shared_texts("measured")

#: The signals that these functions ask for.
MEASURED_READS: Final[tuple[RunDerivation[Any], ...]] = (*WORKED_READS, measured_work)


class Fault(Frozen, frozen=True, eq=True):
    """What a rule looks for in the rows of `measured_work`.

    Attributes:
        found: Whether a kernel has the fault; null where its metrics do not tell.
        saved: The share of such a kernel's time, 0 to 1, that a change saves at most:
            the bound of the gain is that of Amdahl's law, the rest takes what it took.
        because: The rule's stable word for why, by kernel; None where there is one
            cause only.
        shown: Name of a number → its column and unit, of the largest such kernel.
        added: Further columns for `shown`.
    """

    found: pl.Expr
    saved: pl.Expr
    because: pl.Expr | None = None
    shown: Mapping[str, tuple[str, str]] = MappingProxyType({})
    added: Mapping[str, pl.Expr] = MappingProxyType({})


def judge_measured(
    item: Item,
    signals: Signals,
    thresholds: Thresholds,
    fault: Fault,
    *,
    warn: Threshold | None = None,
    **fields: Any,
) -> Finding:
    """Judge the share of kernels with a fault in the time of all kernels.

    Kernels that were not measured may have it too: where they would turn the verdict,
    it cannot tell. `fields` go to the finding.
    """
    work = kernels_of(item, signals, thresholds)
    if isinstance(work, Finding):
        return work
    measured = signals.of(measured_work)
    if isinstance(measured, Unavailable):
        return item.cannot_tell(measured)
    judged = measured.with_columns(
        found=fault.found,
        saved=pl.col("time_ps") * fault.saved.clip(0, 1),
        because=pl.lit(None, pl.String) if fault.because is None else fault.because,
        **fault.added,
    )
    chosen = judged.filter("found")
    unknown = judged.filter(pl.col("found").is_null())
    because = tuple(chosen["because"].drop_nulls().head(1))
    time_ps = max(int(chosen["time_ps"].sum()), 1)
    most = float(chosen["saved"].fill_null(0).sum()) / time_ps
    share = work.share(unknown)
    finding = judge_kernels(
        item,
        signals,
        thresholds,
        work,
        # What the counters show may hide nothing: perhaps the kernel gains nothing.
        Worked(chosen, (0.0, most), unknown),
        warn=warn or thresholds.measured_warn,
        critical=thresholds.measured_critical,
        why_unknown=_unmeasured(work.share(chosen), share),
        facts=(*_shown(chosen, fault), _unknown_share(share)),
        inputs=("kernels", "measured_kernels"),
        because=because,
        **fields,
    )
    if finding.status != "fail":
        return finding
    # What is done about another cause would be of no use.
    fitting = (it for it in item.actions if it.cause in ("any", *because))
    return msgspec.structs.replace(
        finding,
        confidence=min(finding.confidence, *chosen["confidence"]),
        actions=tuple(fitting),
    )


def _shown(chosen: pl.DataFrame, fault: Fault) -> list[Fact]:
    """Return the numbers of the kernel with most time among those with the fault."""
    return [
        Fact(name=name, value=chosen[column][0] if chosen.height else None, unit=unit)
        for name, (column, unit) in fault.shown.items()
    ]


def _unknown_share(share: float) -> Fact:
    return _TEXTS.fact("unmeasured", share)


def _unmeasured(share: float, unknown: float) -> Unavailable:
    return _TEXTS.reason("unmeasured", share=share, unknown=unknown)
