"""`amp.cast`: time goes into changing element types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from stepscope.advice.catalogue import rule_item
from stepscope.advice.finding import Finding
from stepscope.advice.judging.worked import (
    WORKED_READS,
    Worked,
    faster,
    judge_kernels,
    kernels_of,
)
from stepscope.advice.rule import Rule
from stepscope.frozen import Frozen

if TYPE_CHECKING:
    from stepscope.advice.signals import Signals
    from stepscope.derive.facts.devices.kernel_work import KernelWork
    from stepscope.thresholds import Thresholds

_ITEM: Final = rule_item("amp.cast")

_GAIN: Final = (0.5, 0.9)


def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
    work = kernels_of(_ITEM, signals, thresholds)
    if isinstance(work, Finding):
        return work
    looked = _look(work, thresholds)
    computing, is_wide = looked.computing, looked.is_wide
    if not computing["op"].count() and not computing["converts"].any():
        return _ITEM.cannot_tell("no_ops")
    doubles = work.share(looked.doubles)
    return judge_kernels(
        _ITEM,
        signals,
        thresholds,
        work,
        looked.worked,
        warn=thresholds.doubles_warn if is_wide else thresholds.cast_warn,
        critical=thresholds.cast_critical,
        note="doubles" if is_wide else None,
        facts=_ITEM.facts(doubles=doubles or None),
        actions=_ITEM.actions_for("doubles" if is_wide else "any"),
    )


class _Looked(Frozen, frozen=True):
    """What the rule looks at.

    Attributes:
        computing: All kernels that do not exchange.
        doubles: Those in 64 bit.
        is_wide: Whether work in 64 bit is the matter, and not conversions.
        worked: The kernels that only convert, or else those in 64 bit.
    """

    computing: pl.DataFrame
    doubles: pl.DataFrame
    is_wide: bool
    worked: Worked


def _look(work: KernelWork, thresholds: Thresholds) -> _Looked:
    computing = work.rows.filter(~pl.col("collective"))
    doubles = computing.filter(pl.col("told") & (pl.col("precision") == "64"))
    casts = computing.filter("converts")
    limit = thresholds.doubles_warn.value
    is_wide = work.share(doubles) >= limit > work.share(casts)
    unknown = computing.filter(pl.col("converts").is_null())
    worked = Worked(doubles if is_wide else casts, _GAIN, unknown)
    return _Looked(computing, doubles, is_wide, worked)


def _worked(work: KernelWork, thresholds: Thresholds) -> Worked:
    return _look(work, thresholds).worked


RULE: Final = Rule(_ITEM, evaluate, WORKED_READS, faster(_worked))
