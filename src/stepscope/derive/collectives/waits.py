"""Which calls of different workers are one collective, and how long each waited in it.

A worker is one device of one host. All members of a group call its collectives in one
order, so the n-th of a kind in a step is the n-th of that kind on every other member.

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
from stepscope.units import PS_PER_US

#: Columns that matching adds.
MATCHED_COLUMNS: Final[dict[str, pl.DataType]] = {
    "instance": pl.Int64(),  # equal for calls that are one collective; -1 for none
    "members": pl.Int64(),  # calls that are this collective; 0 for none
}
#: Members of one collective are one set of calls in one step.
_SET: Final = ("step", "group", "kind")

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


def matched_collectives(calls: pl.DataFrame) -> pl.DataFrame:
    """Number the collectives that several workers took part in.

    Without a recorded group every worker that has calls in the step is taken for a
    member. Where members made different numbers of calls of a kind, none of these is
    matched.

    Args:
        calls: `host`, `device`, `step` (equal for the same step on all hosts; null
            where no other worker has the step), `kind`, `group`, `start_ps`,
            `dur_ps`.

    Returns:
        The calls in their order with the columns `MATCHED_COLUMNS`.
    """
    worker = ("host", "device")
    numbered = calls.with_columns(
        place=pl.col("start_ps").rank("ordinal").over(*_SET, *worker),
    ).with_columns(
        workers=pl.struct(worker).n_unique().over(_SET),
        members=pl.len().over(*_SET, "place").cast(pl.Int64),
        places=pl.col("place").max().over(_SET),
        total=pl.len().over(_SET),
    )
    agreed = (
        pl.col("step").is_not_null()
        & (pl.col("workers") > 1)
        & (pl.col("total") == pl.col("workers") * pl.col("places"))
    )
    instance = pl.struct(*_SET, "place").rank("dense").cast(pl.Int64) - 1
    return numbered.with_columns(
        instance=pl.when(agreed).then(instance).otherwise(-1),
        members=pl.when(agreed).then("members").otherwise(0),
    ).select(*calls.columns, *MATCHED_COLUMNS)


def without_contradictions(matched: pl.DataFrame) -> pl.DataFrame:
    """Undo the matches that cannot be one collective.

    No member leaves before all have come. Then all leave within the time of the
    transfer, which is the duration of the last member's call. Calls that contradict
    this are different collectives (of groups that were not recorded), or of kinds in
    which a sender need not wait. Calls of hosts whose clocks no constant shift aligns
    are different collectives, too.

    Args:
        matched: The result of `matched_collectives`, with `shift_ps` to a common
            clock, null where collectives do not tie the host to the others, and
            `doubt_ps`, the error of that shift.
    """
    begin = pl.col("start_ps") + pl.col("shift_ps").fill_null(0)
    end = begin + pl.col("dur_ps")
    # Some recordings round times to microseconds.
    spare = pl.col("doubt_ps").fill_null(0).max() * 2 + PS_PER_US
    transfer = pl.col("dur_ps").min()
    early = begin.max() - end.min() > spare
    apart = (early | (end.max() - end.min() > transfer + spare)).over("instance")
    several_hosts = (pl.col("host").n_unique() > 1).over("instance")
    untied = pl.col("shift_ps").is_null().any().over("instance")
    keep = ~(apart | (several_hosts & untied))
    return matched.with_columns(
        pl.when(keep).then("instance").otherwise(-1).alias("instance"),
        pl.when(keep).then("members").otherwise(0).alias("members"),
    )
