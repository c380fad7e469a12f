"""Columns of a result that hold nothing, each with the reason that it must state."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stepscope.unavailable import Missing, Unavailable


def missing_columns(
    frame: pl.DataFrame,
    reasons: Mapping[str, Unavailable],
    *,
    prefix: str,
    where: pl.Expr | None = None,
) -> list[Missing]:
    """Return one entry per column that is null in every row, if there is a row at all.

    Args:
        frame: The rows of a result.
        reasons: Column → why it can be null as a whole.
        prefix: Text before the column's name in the entry.
        where: Rows that could hold a value; all where it is left out.
    """
    rows = frame if where is None else frame.filter(where)
    if not len(rows):
        return []
    return [
        why.for_field(f"{prefix}{column}")
        for column, why in reasons.items()
        if rows[column].null_count() == len(rows)
    ]


def other_slices(
    frame: pl.DataFrame, *, label: str, value: str, slices: int
) -> pl.DataFrame:
    """Return the largest slices of a whole and one for the rest (`other`).

    Returns:
        Columns `name`, the value's, and `percent`; null where the whole is zero.
    """
    # Rows of a result are few, and three steps over frames take longer to begin.
    sums: Counter[str] = Counter()
    for name, part in zip(frame[label], frame[value], strict=True):
        sums["(unknown)" if name is None else name] += part or 0
    ordered = sorted(sums.items(), key=lambda one: (-one[1], one[0]))
    schema = {"name": pl.String(), value: frame.schema[value]}
    largest = pl.DataFrame(ordered[:slices], schema=schema, orient="row")
    if len(ordered) > slices:
        rest = "other", sum(part for _, part in ordered[slices:])
        largest = pl.concat([largest, pl.DataFrame([rest], schema, orient="row")])
    return largest.with_columns(share(pl.col(value), sums.total()).alias("percent"))


def share(part: pl.Expr, whole: float) -> pl.Expr:
    """Return a part in percent of a whole; null of a whole that is zero."""
    return 100.0 * part / whole if whole else pl.lit(None, pl.Float64)
