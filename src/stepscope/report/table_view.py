"""A table as a reader arranges it: filtered by a text, sorted by a column."""

from __future__ import annotations

import polars as pl

from stepscope.errors import BadUsage
from stepscope.report.tables import flat


def arranged(
    frame: pl.DataFrame,
    *,
    holding: str = "",
    sort: str | None = None,
    descending: bool = False,
) -> pl.DataFrame:
    """Return the flat table with the rows that hold a text, sorted by a column.

    Unknown values come last in both orders; equal ones keep the table's own order.

    Args:
        frame: A table of a result.
        holding: Text that a cell of the row must hold, in upper or lower case; empty
            for all rows.
        sort: Name of a column of the flat table; None for the table's own order.
        descending: Largest first.

    Raises:
        BadUsage: There is no such column.
    """
    shown = flat(frame)
    if holding:
        texts = [name for name in shown.columns if shown.schema[name] == pl.String]
        wanted = holding.lower()
        found = [
            pl.col(name).str.to_lowercase().str.contains(wanted, literal=True)
            for name in texts
        ]
        shown = shown.filter(pl.any_horizontal(found)) if found else shown.clear()
    if sort is None:
        return shown
    if sort not in shown.columns:
        raise BadUsage.unknown_name("column", sort, shown.columns)
    return shown.sort(sort, descending=descending, nulls_last=True, maintain_order=True)
