"""What Nsight Compute measured of kernels alone, in one sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from stepscope.report.page import cut_middle
from stepscope.report.words.names import percent, plain_name
from stepscope.unavailable import Unavailable
from stepscope.units import duration_text

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Names of kernels may fill a page.
_LONGEST_NAME: Final = 60


def measured_sentence(tables: Sequence[pl.DataFrame | Unavailable]) -> str | None:
    """Write which kernel takes most of the measured time, and what bounds its longest.

    Args:
        tables: The table `kernel_metrics` of each host.

    Returns:
        None where no duration was measured.
    """
    known = [one for one in tables if not isinstance(one, Unavailable)]
    rows = pl.concat(known).filter(pl.col("duration_ps") > 0) if known else None
    if rows is None or rows.is_empty():
        return None
    whole = int(rows["duration_ps"].sum())
    by_name = rows.group_by("kernel_name", maintain_order=True).agg(
        pl.len(), pl.col("duration_ps").sum()
    )
    most = by_name.sort("duration_ps", descending=True).row(0, named=True)
    name = most["kernel_name"]
    mine = rows.filter(pl.col("kernel_name") == name)
    longest = mine.sort("duration_ps", descending=True).row(0, named=True)
    which = "it" if len(mine) == 1 else "the longest launch of it"
    told = "" if len(mine) == 1 else f" ({duration_text(longest['duration_ps'])})"
    reached = [
        f"{percent(value)} of the peak of {what}"
        for column, what in (
            ("compute_percent", "computing"),
            ("memory_percent", "the memory"),
        )
        if (value := longest[column]) is not None
    ]
    so = f"; {which}{told} reaches {' and '.join(reached)}" if reached else ""
    return (
        f"Of the {duration_text(whole)} of {_launches(rows.height)} that were "
        f"measured, {percent(100 * most['duration_ps'] / whole)} are of "
        f"{cut_middle(plain_name(name), _LONGEST_NAME)}{so}."
    )


def _launches(count: int) -> str:
    return f"{count:,} {'launch' if count == 1 else 'launches'}"
