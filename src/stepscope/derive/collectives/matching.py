"""Which collective calls of different workers are one collective.

A worker is one device of one host. All members of a group call its collectives in one
order, so the n-th of a kind in a step is the n-th of that kind on every other member.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from stepscope.units import PS_PER_US

#: Columns that matching adds.
MATCHED_COLUMNS: Final[dict[str, pl.DataType]] = {
    "instance": pl.Int64(),  # equal for calls that are one collective; -1 for none
    "members": pl.Int64(),  # calls that are this collective; 0 for none
}
#: Members of one collective are one set of calls in one step.
_SET: Final = ("step", "group", "kind")


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
