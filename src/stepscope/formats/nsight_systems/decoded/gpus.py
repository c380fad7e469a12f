"""Which device the ordinals of several processes mean, and metrics of whole GPUs.

Nsight Systems samples the metrics many thousand times a second.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from stepscope.formats.nsight_systems.decoded.events import Said, changes
from stepscope.frozen import Frozen

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Mapping

    from stepscope.formats.nsight_systems.database.rows import Export
    from stepscope.formats.nsight_systems.decoded.events import Names

#: The lowest bits of a type say which GPU of the list is meant.
_GPU: Final = 0xFF
#: So many values of a metric are kept: each is the mean of a period.
_MOST_VALUES: Final = 2**12
#: `SMs Active [Throughput %]`: a metric's name, and its unit.
_WITH_UNIT: Final = re.compile(r"(?P<name>.+?) \[(?P<unit>[^\[\]]+)\]\Z")
_PERCENT: Final = re.compile(r"(?:Throughput )?%\Z")
_LOST: Final = "of metrics without a time, a value or a name"
#: Real machines have a few devices; a larger ordinal is damage.
_MOST_DEVICES: Final = 2**16


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


class Gpus(Frozen, frozen=True, kw_only=True, eq=True):
    """The devices of a file.

    Attributes:
        listed: Device → the row of the file about it.
        by_id: Number in the file's list → device.
        ordinals: (process, its ordinal) → device, for ordinals that mean another one.
        ambiguous: Ordinals of several processes of which the file does not say whether
            they mean one device.
    """

    listed: dict[int, dict[str, Any]]
    by_id: dict[int, int]
    ordinals: dict[tuple[int, int], int]
    ambiguous: frozenset[int]

    def renumbered(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return rows with `process` and `device` whose devices are those of a file."""
        if not self.ordinals:
            return frame
        table = pl.DataFrame(
            [(process, own, of) for (process, own), of in self.ordinals.items()],
            schema={"process": pl.Int64, "device": pl.Int32, "meant": pl.Int32},
            orient="row",
        )
        joined = frame.join(
            table, on=["process", "device"], how="left", maintain_order="left"
        )
        meant = pl.coalesce("meant", "device").alias("device")
        return joined.with_columns(meant).drop("meant")


def find_gpus(export: Export, work: pl.DataFrame) -> Gpus:
    """Return the devices, and what the ordinals of the processes mean.

    CUDA_VISIBLE_DEVICES gives each process ordinals of its own: where two processes use
    the same one, the table of their devices decides.

    Args:
        export: The file.
        work: What ran on devices, with `process` and the process's ordinal.
    """
    by_id: dict[int, int] = {}
    listed: dict[int, dict[str, Any]] = {}
    for row in export.frame("TARGET_INFO_GPU").iter_rows(named=True):
        # Of an adapter that CUDA cannot use, or a file of 2020, not all are known. The
        # orders of `id` and of the ordinals differ.
        number = next(
            (row[it] for it in ("cuDevice", "deviceId", "id") if row[it] is not None),
            None,
        )
        if number is None or not 0 <= number < _MOST_DEVICES:
            continue
        # Where each process sees one GPU, all of them are its number 0: what they have
        # in common is known.
        before = listed.get(number, row)
        listed[number] = {it: row[it] if row[it] == before[it] else None for it in row}
        if row["id"] is not None:
            by_id[row["id"]] = number
    pairs = work.select("process", "device").filter(changes(["process", "device"]))
    used = pairs.unique().drop_nulls()
    counts = used["device"].value_counts().filter(pl.col("count") > 1)
    shared = frozenset(counts["device"].to_list())
    if not shared:
        return Gpus(listed=listed, by_id=by_id, ordinals={}, ambiguous=frozenset())
    table = {
        (row["pid"], row["cudaId"]): by_id.get(row["gpuId"])
        for row in export.frame("TARGET_INFO_CUDA_DEVICE").iter_rows(named=True)
    }
    meant = {pair: table.get(pair) for pair in used.iter_rows()}
    known = {pair: device for pair, device in meant.items() if device is not None}
    if len(known) < len(meant):
        return Gpus(listed=listed, by_id=by_id, ordinals={}, ambiguous=shared)
    return Gpus(listed=listed, by_id=by_id, ordinals=known, ambiguous=frozenset())
