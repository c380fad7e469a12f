"""How long each worker waited in a collective, and for whom.

All members leave together, so the one that comes last spends the least time in it: the
time of the transfer. What the others spend beyond that is waiting. Comparing durations
needs no common clock.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from stepscope.derive.columns.arrays import ints
from stepscope.derive.intervals.spans import Spans

__all__ = ["WAIT_COLUMNS", "collective_waits", "waiting_spans"]

#: Columns that are added to matched calls.
WAIT_COLUMNS: Final[dict[str, pl.DataType]] = {
    "wait_ps": pl.Int64(),  # before the last member came; null if it is not matched
    "waited_for_ps": pl.Int64(),  # what the others waited for this one, added up
}


def collective_waits(matched: pl.DataFrame) -> pl.DataFrame:
    """Split each matched call into waiting and transfer.

    Of members that spent equally little time in a collective, the last is the one that
    came last by the common clock, or without one the first in the table.

    Args:
        matched: The result of `matched_collectives`, with `shift_ps`.

    Returns:
        The calls in their order with the columns `WAIT_COLUMNS`.
    """
    is_matched = pl.col("instance") >= 0
    least = pl.col("dur_ps").min().over("instance")
    came = (pl.col("start_ps") + pl.col("shift_ps")).fill_null(0)
    return (
        matched.with_row_index("row")
        .with_columns(
            wait_ps=pl.when(is_matched).then(pl.col("dur_ps") - least),
            came=came,
        )
        .with_columns(
            last=(
                pl.col("row")
                .sort_by("dur_ps", "came", "row", descending=[False, True, False])
                .first()
                .over("instance")
                == pl.col("row")
            ),
            all_waits=pl.col("wait_ps").sum().over("instance"),
        )
        .with_columns(
            waited_for_ps=pl.when(is_matched & pl.col("last"))
            .then("all_waits")
            .when(is_matched)
            .then(0)
        )
        .select(*matched.columns, *WAIT_COLUMNS)
    )


def waiting_spans(calls: pl.DataFrame) -> tuple[Spans, Spans, Spans]:
    """Return when a device waited in collectives, transferred, or did one of the two.

    The third set holds the calls of which the split is unknown. The three do not
    overlap: where several calls run at once, a transfer outweighs the unknown, and the
    unknown outweighs waiting.

    Args:
        calls: The calls of one device with `start_ps`, `dur_ps` and `wait_ps`.
    """
    start, dur = ints(calls, "start_ps"), ints(calls, "dur_ps")
    known = calls["wait_ps"].is_not_null().to_numpy()
    wait = np.where(known, calls["wait_ps"].fill_null(0).to_numpy(), 0)
    transfer = Spans.from_events((start + wait)[known], (dur - wait)[known])
    unknown = Spans.from_events(start[~known], dur[~known]) - transfer
    waiting = Spans.from_events(start[known], wait[known]) - transfer - unknown
    return waiting, transfer, unknown
