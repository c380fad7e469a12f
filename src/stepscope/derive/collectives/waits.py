"""How long each worker waited in a collective, and for whom.

All devices leave together, so the one that comes last spends the least time in it: the
time of the transfer. What the others spend beyond that is waiting. Comparing durations
needs no common clock.

A thread leaves when it gets a core, some milliseconds after the others where cores are
scarce. It has waited no longer than until the last one came.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from stepscope.derive.columns.arrays import ints
from stepscope.derive.intervals.spans import Spans

#: Columns that are added to matched calls.
WAIT_COLUMNS: Final[dict[str, pl.DataType]] = {
    "wait_ps": pl.Int64(),  # before the last member came; null if it is not matched
    "waited_for_ps": pl.Int64(),  # what the others waited for this one, added up
}


def collective_waits(matched: pl.DataFrame) -> pl.DataFrame:
    """Split each matched call into waiting and transfer.

    Of devices the last is the one that spent least time in a collective, of threads the
    one that came last by the common clock. So it is of devices that spent equally
    little, or without a common clock the first in the table.

    Args:
        matched: The result of `matched_collectives`, with `device`, null of a thread,
            and `shift_ps`.

    Returns:
        The calls in their order with the columns `WAIT_COLUMNS`.
    """
    is_matched = pl.col("instance") >= 0
    least = pl.col("dur_ps").min().over("instance")
    longer = pl.col("dur_ps") - least
    is_thread = pl.col("device").is_null()
    came = (pl.col("start_ps") + pl.col("shift_ps")).fill_null(0)
    before_last = pl.col("came").max().over("instance") - pl.col("came")
    return (
        matched.with_row_index("row")
        .with_columns(
            came=came,
            spent=pl.when(is_thread).then(0).otherwise("dur_ps"),
        )
        .with_columns(
            wait_ps=pl.when(is_matched & is_thread)
            .then(pl.min_horizontal(longer, before_last))
            .when(is_matched)
            .then(longer),
            last=(
                pl.col("row")
                .sort_by("spent", "came", "row", descending=[False, True, False])
                .first()
                .over("instance")
                == pl.col("row")
            ),
        )
        .with_columns(all_waits=pl.col("wait_ps").sum().over("instance"))
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
