"""`collectives`: what devices exchanged with each other, by kind of exchange."""

from __future__ import annotations

from typing import Final

import polars as pl

from stepscope.derive.collectives.calls import NO_COLLECTIVES
from stepscope.unavailable import Unavailable

COLLECTIVE_ROWS: Final[dict[str, pl.DataType]] = {
    "kind": pl.String(),
    "device": pl.Int32(),
    "count": pl.Int64(),
    "total_ps": pl.Int64(),
    "min_ps": pl.Int64(),
    "max_ps": pl.Int64(),
    "exposed_ps": pl.Int64(),  # nothing else ran on the device
    "sized": pl.Int64(),  # collectives whose bytes are known
    "bytes": pl.Int64(),  # of these; null where there are none
    "sized_ps": pl.Int64(),  # time of these
    "bus_bytes": pl.Int64(),  # what a link carried; null where that is never known
    "bus_ps": pl.Int64(),  # time of the collectives of which that is known
}


def collectives(
    *,
    device_activity: pl.DataFrame,
    collective_calls: pl.DataFrame | Unavailable,
) -> pl.DataFrame | Unavailable:
    """Sum collectives by kind and device.

    Definition: docs/definitions/device-work.md#collectives.

    Returns:
        Columns `COLLECTIVE_ROWS`, by kind and device; no rows where there were none.
        A collective whose kind nothing shows is `other`.
    """
    del device_activity  # without it nothing is known, rather than that there was none
    if isinstance(collective_calls, Unavailable):
        if collective_calls == NO_COLLECTIVES:
            return pl.DataFrame(schema=COLLECTIVE_ROWS)
        return collective_calls
    dur = pl.col("dur_ps")
    return (
        collective_calls.group_by("kind", "device")
        .agg(
            count=pl.len(),
            total_ps=dur.sum(),
            min_ps=dur.min(),
            max_ps=dur.max(),
            exposed_ps=pl.col("exposed_ps").sum(),
            sized=pl.col("bytes").count(),
            bytes=_sum_of_known("bytes"),
            sized_ps=dur.filter(pl.col("bytes").is_not_null()).sum(),
            bus_bytes=_sum_of_known("bus_bytes"),
            bus_ps=dur.filter(pl.col("bus_bytes").is_not_null()).sum(),
        )
        .select(pl.col(name).cast(dtype) for name, dtype in COLLECTIVE_ROWS.items())
        .sort("kind", "device")
    )


def _sum_of_known(name: str) -> pl.Expr:
    values = pl.col(name)
    return pl.when(values.is_not_null().any()).then(values.sum())
