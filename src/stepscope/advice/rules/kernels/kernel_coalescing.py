"""`kernel.coalescing`: kernels move bytes that they do not use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from stepscope.advice.catalogue import rule_item
from stepscope.advice.judging.measured import MEASURED_READS, Fault, judge_measured
from stepscope.advice.rule import Rule

if TYPE_CHECKING:
    from stepscope.advice.finding import Finding
    from stepscope.advice.signals import Signals
    from stepscope.thresholds import Thresholds

_ITEM: Final = rule_item("kernel.coalescing")

_SECTOR_BYTES: Final = 32
#: Sectors that 32 threads need for 4 bytes each, and for the 16 that one thread reads
#: at most; that many are touched only where threads read far apart.
_LEAST_SECTORS: Final = 4
_MOST_SECTORS: Final = 16
_SCATTERED: Final = 24


def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
    loads, stores = _wasted("load"), _wasted("store")
    weights = [pl.col(f"global_{it}_sectors").fill_null(1) for it in ("load", "store")]
    known = pl.sum_horizontal(
        pl.when(it.is_not_null()).then(weight)
        for it, weight in zip((loads, stores), weights, strict=True)
    )
    wasted = pl.sum_horizontal(loads * weights[0], stores * weights[1]) / known
    # Neither is known: 0 of 0.
    wasted = pl.when(known > 0).then(wasted)
    least = thresholds.wasted_sectors.value / 100
    partly = (loads.is_null() & _touched("load")) | (
        stores.is_null() & _touched("store")
    )
    found = (
        pl.when(pl.col("bound") == "compute")
        .then(pl.lit(value=False))
        .when(wasted >= least)
        .then(pl.lit(value=True))
        .when(wasted.is_not_null() & ~partly)
        .then(pl.lit(value=False))
    )
    fault = Fault(
        found=found,
        saved=wasted,
        shown={
            "wasted": ("wasted_percent", "percent"),
            "load_sectors": ("load_sectors_per_request", "count"),
            "store_sectors": ("store_sectors_per_request", "count"),
        },
        added={"wasted_percent": 100 * wasted},
    )
    return judge_measured(_ITEM, signals, thresholds, fault)


def _touched(what: str) -> pl.Expr:
    """Return whether a kernel does this at all, as far as is known."""
    return (pl.col(f"global_{what}_requests") != 0).fill_null(value=True)


def _wasted(what: str) -> pl.Expr:
    """Return the share of bytes that nobody asked for; null where nothing tells.

    Of some more sectors than 4 a thread may read 4 bytes or 16: only the bytes that
    were asked for tell.
    """
    used = pl.col(f"{what}_bytes_per_sector")
    sectors = pl.col(f"{what}_sectors_per_request")
    return (
        pl.when(used.is_not_null())
        .then((1 - used / _SECTOR_BYTES).clip(0, 1))
        .when(sectors >= _SCATTERED)
        .then(1 - _MOST_SECTORS / sectors)
        .when(sectors <= _LEAST_SECTORS)
        .then(pl.lit(0.0))
        .when(pl.col(f"global_{what}_requests") == 0)
        .then(pl.lit(0.0))
    )


RULE: Final = Rule(_ITEM, evaluate, MEASURED_READS)
