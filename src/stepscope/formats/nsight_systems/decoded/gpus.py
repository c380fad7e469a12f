"""Which device the ordinals of several processes mean."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import polars as pl

from stepscope.formats.nsight_systems.decoded.events import changes
from stepscope.frozen import Frozen

if TYPE_CHECKING:
    from stepscope.formats.nsight_systems.database.rows import Export

#: Real machines have a few devices; a larger ordinal is damage.
_MOST_DEVICES: Final = 2**16


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
