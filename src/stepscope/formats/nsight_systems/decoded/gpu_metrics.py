"""Metrics of whole GPUs, which Nsight Systems samples many thousand times a second."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import polars as pl

from stepscope.formats.nsight_systems.decoded.events import Said

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Mapping

    from stepscope.formats.nsight_systems.database.rows import Export
    from stepscope.formats.nsight_systems.decoded.names import Names

#: The lowest bits of a type say which GPU of the list is meant.
_GPU: Final = 0xFF
#: So many values of a metric are kept: each is the mean of a period.
_MOST_VALUES: Final = 2**12
#: `SMs Active [Throughput %]`: a metric's name, and its unit.
_WITH_UNIT: Final = re.compile(r"(?P<name>.+?) \[(?P<unit>[^\[\]]+)\]\Z")
_PERCENT: Final = re.compile(r"(?:Throughput )?%\Z")
_LOST: Final = "of metrics without a time, a value or a name"


def gpu_metrics(
    export: Export, names: Names, refused: Counter[str], *, gpus: Mapping[int, int]
) -> pl.DataFrame:
    """Return the means of every metric over short periods, as events with `value`.

    Args:
        export: The file.
        names: Numbers of names.
        refused: Why rows were left out → how many; is added to.
        gpus: Number of a GPU in the file's list → device.
    """
    rows = export.frame("GPU_METRICS")
    given = export.frame("TARGET_INFO_GPU_METRICS").drop_nulls()
    distinct = given.unique(["typeId", "metricId"], keep="first", maintain_order=True)
    numbers = [
        names.number(_shown(gpus.get(type_ & _GPU, type_ & _GPU), text))
        for type_, text in distinct.select("typeId", "metricName").iter_rows()
    ]
    table = distinct.with_columns(name=pl.Series(numbers, dtype=pl.Int32))
    longest = 2**62
    known = rows.drop_nulls().filter(
        pl.col("timestamp").is_between(-longest, longest - 1),
        pl.col("value").is_finite(),
    )
    named = known.join(
        table.select("typeId", "metricId", "name"), on=["typeId", "metricId"]
    )
    if lost := rows.height - named.height:
        refused[_LOST] += lost
    return _means(named).with_columns(
        dur=pl.lit(0, pl.Int64),
        process=pl.lit(None, pl.Int64),
        device=pl.lit(None, pl.Int32),
        id=pl.lit(1, pl.Int64),
        said=pl.lit(Said.NEITHER.value, pl.UInt8),
    )


def _means(named: pl.DataFrame) -> pl.DataFrame:
    if named.is_empty():
        schema = {"start": pl.Int64, "name": pl.Int32, "value": pl.Float64}
        return pl.DataFrame(schema=schema)
    first, last = named.select(
        pl.col("timestamp").min(), pl.col("timestamp").max().alias("last")
    ).row(0)
    period = max(1, -(-(last - first + 1) // _MOST_VALUES))
    return (
        named.group_by("name", (pl.col("timestamp") - first) // period)
        .agg(start=pl.col("timestamp").max(), value=pl.col("value").mean())
        # A reading is what held since the one before it.
        .sort("start", "name")
        .select("start", "name", "value")
    )


def _shown(device: int, text: str) -> str:
    """Return the name of a counter: `GPU 0 SMs Active (percent)`."""
    match = _WITH_UNIT.match(text.strip())
    if match is None:
        return f"GPU {device} {text.strip()}"
    unit = "percent" if _PERCENT.match(match["unit"]) else match["unit"]
    return f"GPU {device} {match['name']} ({unit})"
