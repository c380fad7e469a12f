"""`collectives`: what devices exchanged with each other, by kind of exchange."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import polars as pl

from stepscope.trace.device_activity import ACTIVITY_KINDS

if TYPE_CHECKING:
    from stepscope.derive.device.activity_classes import ActivityClasses
    from stepscope.derive.device.attribution import ActivityOps
    from stepscope.derive.device.class_totals import ClassTotals

__all__ = ["COLLECTIVE_ROWS", "collectives", "exchange_kind"]

_COLLECTIVE: Final = ACTIVITY_KINDS.categories.to_list().index("collective")

COLLECTIVE_ROWS: Final[dict[str, pl.DataType]] = {
    "kind": pl.String(),
    "device": pl.Int32(),
    "count": pl.Int64(),
    "total_ps": pl.Int64(),
    "min_ps": pl.Int64(),
    "max_ps": pl.Int64(),
    "exposed_ps": pl.Int64(),  # nothing else ran on the device
}

#: What a lower-case name, op type or opcode calls the exchange; the first that fits.
_KINDS: Final = (
    ("all-reduce", re.compile(r"all_?-?reduce|cross_device_reduce|collectivereduce")),
    ("reduce-scatter", re.compile(r"reduce_?-?scatter")),
    ("all-gather", re.compile(r"all_?-?gather|collectivegather")),
    ("all-to-all", re.compile(r"all_?-?to_?-?all")),
    ("broadcast", re.compile(r"broad_?cast|bcast")),
    ("send-receive", re.compile(r"send_?-?recv|collective-permute|sendrecv|permute")),
    ("reduce", re.compile(r"reduce")),
)


def collectives(
    *,
    activity_classes: ActivityClasses,
    class_totals: ClassTotals,
    activity_ops: ActivityOps,
    event_types: pl.DataFrame,
) -> pl.DataFrame:
    """Sum collectives by kind and device.

    Definition: docs/definitions/device-work.md#collectives.

    Returns:
        Columns `COLLECTIVE_ROWS`, by kind and device; no rows where there were none.
        A collective whose name shows no kind is `other`.
    """
    ops = activity_ops.ops
    rows = activity_classes.rows
    described = rows.select(
        "kind",
        "device",
        said=event_types["name"][rows["type"]]
        + " "
        + ops["type"].fill_null("")[rows["op"]]
        + " "
        + ops["opcode"].fill_null("")[rows["op"]],
    ).with_columns(
        count=class_totals.all.count,
        total_ps=class_totals.all.total,
        min_ps=class_totals.all.least,
        max_ps=class_totals.all.greatest,
        exposed_ps=class_totals.alone_ps,
    )
    found = described.filter(pl.col("kind") == _COLLECTIVE)
    kinds = [exchange_kind(text) for text in found["said"].to_list()]
    return (
        found.with_columns(pl.Series("kind", kinds, dtype=pl.String))
        .group_by("kind", "device")
        .agg(
            *(pl.col(name).sum() for name in ("count", "total_ps", "exposed_ps")),
            pl.col("min_ps").min(),
            pl.col("max_ps").max(),
        )
        .select(*COLLECTIVE_ROWS)
        .sort("kind", "device")
    )


def exchange_kind(text: str) -> str:
    """Return the kind of exchange in a name, op type or opcode, else `other`."""
    lowered = text.lower()
    return next((kind for kind, found in _KINDS if found.search(lowered)), "other")
