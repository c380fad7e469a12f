"""What lies beside the program's work: waits for devices, and the profiler's own."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import polars as pl

from stepscope.formats.nsight_systems.database.declared import OVERHEADS
from stepscope.formats.nsight_systems.decoded.event_waits import (
    NO_NUMBER,
    records_waited_for,
)
from stepscope.formats.nsight_systems.decoded.events import (
    Said,
    changes,
    process_of,
    timed,
)
from stepscope.frozen import Frozen

if TYPE_CHECKING:
    from stepscope.formats.nsight_systems.database.rows import Export
    from stepscope.formats.nsight_systems.decoded.names import Names

#: Number of a synchronisation → its name, in Kineto's words.
_SYNCS: Final = {
    1: "Event Synchronize",
    2: "Stream Wait Event",
    3: "Stream Synchronize",
    4: "Context Synchronize",
}
_BACKWARD: Final = "beside the work without a time, or that end before they begin"


class Beside(Frozen, frozen=True, kw_only=True, eq=True):
    """Events that are no work.

    Attributes:
        syncs: What each device was waited for; `device` is the process's ordinal. Also
            `on_stream` and `recorded`, null where no record of an event is known.
        overheads: The profiler's own work.
        refused: Why rows were left out → how many.
    """

    syncs: pl.DataFrame
    overheads: pl.DataFrame
    refused: Counter[str]


def beside(
    export: Export, names: Names, work: pl.DataFrame, *, machines: int
) -> Beside:
    """Return the synchronisations and the overhead of a file.

    Args:
        export: The file.
        names: Numbers of names.
        work: What ran on devices, which says on which one a context is.
        machines: Number of machines in the file.
    """
    refused: Counter[str] = Counter()
    return Beside(
        syncs=_syncs(export, names, work, refused, machines=machines),
        overheads=_overheads(export, names, refused),
        refused=refused,
    )


def _syncs(
    export: Export,
    names: Names,
    work: pl.DataFrame,
    refused: Counter[str],
    *,
    machines: int,
) -> pl.DataFrame:
    rows = export.frame("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION")
    rows = timed(rows, _BACKWARD, refused).with_columns(
        process=process_of("globalPid", machines=machines)
    )
    # Releases until 2026 write device 0 for every context.
    owner = ["process", "context"]
    contexts = (
        work.select(*owner, on="device")
        .filter(changes(owner))
        .unique(owner, keep="first", maintain_order=True)
    )
    rows = records_waited_for(export, rows, machines=machines)
    found = rows.join(
        contexts,
        left_on=["process", "contextId"],
        right_on=owner,
        how="left",
        maintain_order="left",
    )
    device = pl.coalesce("on", pl.col("deviceId").cast(pl.Int32, strict=False))
    stream = pl.col("streamId")
    texts = rows["syncType"].replace_strict(
        list(_SYNCS), list(_SYNCS.values()), default="Synchronize"
    )
    return found.with_columns(
        name=names.of_texts(texts.cast(pl.String)),
        said=pl.lit(Said.NEITHER.value, pl.UInt8),
        device=pl.when(device.is_in(work["device"].unique().to_list())).then(device),
        id=pl.when(stream != NO_NUMBER).then(stream).fill_null(-1),
    ).filter(pl.col("device").is_not_null())


def _overheads(export: Export, names: Names, refused: Counter[str]) -> pl.DataFrame:
    rows = pl.concat([export.frame(table) for table in OVERHEADS])
    rows = timed(rows, _BACKWARD, refused)
    return rows.with_columns(
        process=pl.lit(None, pl.Int64),
        device=pl.lit(None, pl.Int32),
        id=pl.lit(0, pl.Int64),
        name=names.of_ids(rows["nameId"]),
        said=pl.lit(Said.NEITHER.value, pl.UInt8),
    )
