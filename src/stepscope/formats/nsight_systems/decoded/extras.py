"""Events other than device activity: waits, driver memory, and profiler overhead.

If a stream waits for a CUDA event, the wait also gets the record of the CUDA event.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import polars as pl

from stepscope.formats.assemble import MAX_DEVICES
from stepscope.formats.nsight_systems.database.rows import OVERHEADS
from stepscope.formats.nsight_systems.decoded.events import (
    process_expr,
    row_changes,
    timed_rows,
)
from stepscope.frozen import Frozen

if TYPE_CHECKING:
    from stepscope.formats.nsight_systems.database.rows import Export
    from stepscope.formats.nsight_systems.decoded.events import Names

#: Number that CUPTI writes for "no stream" and "no event".
NO_NUMBER: Final = 2**32 - 1
_STREAM_WAITS: Final = 2
#: Columns that identify a CUDA event, which belongs to one context of a process.
_OWNER: Final = ("process", "contextId", "eventId")
#: Recorded operation → name of its event.
_OPERATIONS: Final = {0: "Memory allocation", 1: "Memory deallocation"}
ALLOCATED: Final = 0
_LOST: Final = "of memory without a time, a size or an operation"
#: Recorded type of a synchronisation → its name, as Kineto names it.
_SYNCS: Final = {
    1: "Event Synchronize",
    2: "Stream Wait Event",
    3: "Stream Synchronize",
    4: "Context Synchronize",
}
_BACKWARD: Final = "of waits and overhead without a time, or that end before they begin"


def records_waited_for(export: Export, waits: pl.DataFrame) -> pl.DataFrame:
    """Return waits with the stream and the call that recorded the awaited CUDA event.

    A stream waits for the last record of a CUDA event before the wait call. The calls
    of a process are numbered in time order. Newer releases of Nsight Systems also
    number the records (`eventSyncId`) and store the number with each wait.

    Args:
        waits: Synchronisations, with their `process`.

    Returns:
        The rows in their order, with `on_stream` and `recorded`. The two columns are
        null if no record is known or the row is not a wait for a CUDA event.
    """
    records = (
        export.frame("CUPTI_ACTIVITY_KIND_CUDA_EVENT")
        .select(
            "contextId",
            "eventId",
            process=process_expr("globalPid", machines=export.machines),
            on_stream="streamId",
            recorded="correlationId",
            sync=_number_or_null("eventSyncId"),
        )
        .filter(pl.col("recorded") > 0, pl.col("on_stream") < NO_NUMBER)
    )
    waits_by_index = waits.with_row_index("wait").with_columns(
        sync=_number_or_null("eventSyncId")
    )
    of_streams = waits_by_index.filter(
        pl.col("syncType") == _STREAM_WAITS, pl.col("correlationId") > 0
    )
    last = of_streams.sort("correlationId").join_asof(
        records.drop("sync").sort("recorded"),
        left_on="correlationId",
        right_on="recorded",
        by=list(_OWNER),
        coalesce=False,
        check_sortedness=False,
    )
    numbered = records.filter(pl.col("sync").is_not_null()).unique(
        ["process", "sync"], keep="last", maintain_order=True
    )
    by_sync = of_streams.join(
        numbered.select("process", "sync", "on_stream", "recorded"),
        on=["process", "sync"],
        how="left",
    )
    candidates = last.select("wait", "on_stream", "recorded").join(
        by_sync.select("wait", by_number="on_stream", by_call="recorded"), on="wait"
    )
    # Take stream and call from the same source, so that they are of the same record.
    numbered_wait = pl.col("by_call").is_not_null()
    chosen = candidates.select(
        "wait",
        on_stream=pl.when(numbered_wait).then("by_number").otherwise("on_stream"),
        recorded=pl.when(numbered_wait).then("by_call").otherwise("recorded"),
    )
    return waits_by_index.join(
        chosen, on="wait", how="left", maintain_order="left"
    ).drop("wait", "sync")


def _number_or_null(column: str) -> pl.Expr:
    """Return the number of a record; null for 0 and for `NO_NUMBER`."""
    number = pl.col(column)
    return pl.when(number.is_between(1, NO_NUMBER - 1)).then(number)


def driver_memory(export: Export, names: Names, refused: Counter[str]) -> pl.DataFrame:
    """Return allocations and deallocations; `device` is the ordinal in the process.

    The frame has the columns of events, and `operation`, `address`, `bytes` and
    `memory`, the recorded kind of memory.

    Args:
        refused: Reason → number of refused rows; this function adds to the counts.
    """
    rows = export.frame("CUDA_GPU_MEMORY_USAGE_EVENTS")
    known = pl.col("memoryOperationType").is_in(list(_OPERATIONS))
    usable = rows.filter(known & pl.col("start").is_not_null() & (pl.col("bytes") > 0))
    if lost := rows.height - usable.height:
        refused[_LOST] += lost
    texts = usable["memoryOperationType"].replace_strict(
        list(_OPERATIONS), list(_OPERATIONS.values()), return_dtype=pl.String
    )
    device = pl.col("deviceId")
    return usable.select(
        "start",
        "address",
        "bytes",
        process=process_expr("globalPid", machines=export.machines),
        device=pl.when(device.is_between(0, MAX_DEVICES - 1))
        .then(device)
        .cast(pl.Int32),
        id=pl.lit(-1, pl.Int64),
        name=names.number_texts(texts),
        operation="memoryOperationType",
        memory="memKind",
    )


class Extras(Frozen, frozen=True, kw_only=True, eq=True):
    """Synchronisations and profiler overhead, which are not work of the program.

    Attributes:
        syncs: Waits for devices; `device` is the ordinal in the process. `on_stream`
            and `recorded` are null if no record of the awaited CUDA event is known.
    """

    syncs: pl.DataFrame
    overheads: pl.DataFrame
    refused: Counter[str]


def other_events(export: Export, names: Names, work: pl.DataFrame) -> Extras:
    """Return the synchronisations and the profiler overhead of a file.

    Args:
        work: Device activity, which shows the device of each context.
    """
    refused: Counter[str] = Counter()
    rows = pl.concat([export.frame(table) for table in OVERHEADS])
    rows = timed_rows(rows, _BACKWARD, refused)
    overheads = rows.with_columns(
        id=pl.lit(0, pl.Int64), name=names.number_ids(rows["nameId"])
    )
    rows = export.frame("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION")
    rows = timed_rows(rows, _BACKWARD, refused).with_columns(
        process=process_expr("globalPid", machines=export.machines)
    )
    # Releases until 2026 write device 0 for every context.
    owner = ["process", "context"]
    contexts = (
        work.select(*owner, on="device")
        .filter(row_changes(owner))
        .unique(owner, keep="first", maintain_order=True)
    )
    rows = records_waited_for(export, rows)
    with_contexts = rows.join(
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
    syncs = with_contexts.with_columns(
        name=names.number_texts(texts.cast(pl.String)),
        device=pl.when(device.is_in(work["device"].unique().to_list())).then(device),
        id=pl.when(stream != NO_NUMBER).then(stream).fill_null(-1),
    ).filter(pl.col("device").is_not_null())
    return Extras(syncs=syncs, overheads=overheads, refused=refused)
