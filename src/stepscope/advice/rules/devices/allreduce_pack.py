"""`allreduce.pack`: gradients are put together and taken apart around an exchange."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
import polars as pl

from stepscope.advice.catalogue import rule_item
from stepscope.advice.finding import Finding
from stepscope.advice.judging.exchanged import (
    EXCHANGE_READS,
    exchanges_of,
    without_sizes,
)
from stepscope.advice.judging.worked import WORKED_READS, kernels_of
from stepscope.advice.rule import Rule
from stepscope.advice.verdict import judge
from stepscope.derive.facts.devices.kernel_work import kernel_work
from stepscope.derive.facts.evidence import SHOWN, Fact, Part, Saving
from stepscope.derive.facts.recording import record_grade
from stepscope.derive.facts.replaying.edits import Faster
from stepscope.derive.judging.effect_status import StepSeries
from stepscope.unavailable import Unavailable
from stepscope.units import MIB

if TYPE_CHECKING:
    from stepscope.advice.signals import Signals
    from stepscope.derive.facts.devices.exchanges import ExchangeSignals
    from stepscope.derive.facts.devices.kernel_work import KernelWork
    from stepscope.derive.facts.replaying.edits import Change
    from stepscope.thresholds import Thresholds

_ITEM: Final = rule_item("allreduce.pack")

#: Kernels, and types of ops, that put tensors together or take them apart.
_PACKING: Final = (
    r"(?i)concat|catarray|(?:^|[:_])cat(?:$|_)|split|(?:^|[:/])(?:un)?pack(?:$|_)"
    r"|chunk_cat|direct_copy_kernel|(?:^|::)copy_?$|_foreach_copy"
)
#: So many activities of the device at most lie between the kernel and the exchange.
_NEAR: Final = 5
#: The part of its time that goes; the bytes themselves may have to be moved once.
_GAIN: Final = 0.7


def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
    exchanges = exchanges_of(_ITEM, signals)
    if isinstance(exchanges, Finding):
        return exchanges
    if exchanges.bytes is None:
        return _ITEM.cannot_tell(without_sizes(exchanges))
    work = kernels_of(_ITEM, signals, thresholds)
    if isinstance(work, Finding):
        return work
    found = _packing(work)
    time = int(found["dur"].sum())
    warn = thresholds.packing_warn
    verdict = judge(
        # All steps are taken to be as the typical one that was looked at.
        StepSeries(
            step_source=exchanges.step_source,
            step_confidence=exchanges.step_confidence,
            window_ps=(work.step_ps,) * work.steps,
            parts_ps={"packing": (time,) * work.steps},
        ),
        warn=warn,
        critical=thresholds.packing_critical,
        thresholds=thresholds,
    )
    made = _ITEM.judged(
        verdict,
        grade=signals.of(record_grade),
        threshold=warn,
        smallest=thresholds.smallest_effect,
        stepped=work.stepped,
        devices=(work.label,),
        parts=_parts(work, found),
        evidence=work.evidence(found, SHOWN),
        facts=_facts(exchanges, len(found)),
        inputs=("kernels", "collective_calls"),
    )
    if made.saving_ms is None:
        return made
    high = _GAIN * made.saving_ms.high
    return msgspec.structs.replace(made, saving_ms=Saving(low=high / 2, high=high))


def changes(signals: Signals, _: Thresholds) -> tuple[Change, ...]:
    """Let the packing kernels take a part of their time."""
    work = signals.of(kernel_work)
    if isinstance(work, Unavailable):
        return ()
    classes = _packing(work)["class"].unique().to_list()
    return (Faster(classes, (1 - _GAIN / 2, 1 - _GAIN)),)


def _packing(work: KernelWork) -> pl.DataFrame:
    """Return the packing kernels of the typical step that are next to an exchange."""
    named = work.rows.select(
        pl.col("class").cast(pl.Int64),
        "op",
        "kernel",
        "collective",
        packs=pl.col("full_name").str.contains(_PACKING)
        | pl.col("op_type").fill_null("").str.contains(_PACKING),
    )
    ordered = (
        work.shown.with_columns(pl.col("class").cast(pl.Int64))
        .join(named, on="class", how="left", maintain_order="left")
        .with_row_index("at")
        .with_columns(
            pl.col("at").cast(pl.Int64),
            pl.col("collective", "packs").fill_null(value=False),
            dur=pl.col("end_ps") - pl.col("start_ps"),
        )
    )
    exchange = pl.when("collective").then("at")
    return ordered.with_columns(
        before=pl.col("at") - exchange.forward_fill(),
        after=exchange.backward_fill() - pl.col("at"),
    ).filter(
        pl.col("packs")
        & ~pl.col("collective")
        & (pl.min_horizontal("before", "after") <= _NEAR)
    )


def _parts(work: KernelWork, found: pl.DataFrame) -> tuple[Part, ...]:
    largest = (
        found.group_by(pl.coalesce("op", "kernel").alias("name"), maintain_order=True)
        .agg(pl.col("dur").sum())
        .sort("dur", "name", descending=[True, False])
        .head(SHOWN)
    )
    return tuple(
        Part(name=name, share_percent=100 * dur / max(work.step_ps, 1))
        for name, dur in largest.iter_rows()
    )


def _facts(exchanges: ExchangeSignals, kernels: int) -> tuple[Fact, ...]:
    return _ITEM.facts(
        kernels=kernels,
        exchanges=exchanges.count,
        mebibytes=None if exchanges.bytes is None else exchanges.bytes / MIB,
    )


RULE: Final = Rule(
    _ITEM, evaluate, tuple(dict.fromkeys((*EXCHANGE_READS, *WORKED_READS))), changes
)
