"""Which record of a CUDA event each wait of a stream is for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from stepscope.formats.nsight_systems.decoded.events import process_of

if TYPE_CHECKING:
    from stepscope.formats.nsight_systems.database.rows import Export

#: What CUPTI writes for "no stream" and "no event".
NO_NUMBER: Final = 2**32 - 1
_STREAM_WAITS: Final = 2
#: An event belongs to a context of a process.
_OWNER: Final = ("process", "contextId", "eventId")


def records_waited_for(
    export: Export, waits: pl.DataFrame, *, machines: int
) -> pl.DataFrame:
    """Return waits with the stream and the call that recorded what they wait for.

    A stream waits for the last record of an event before the call that says so; calls
    of a process are numbered in their order. Releases that number the records
    themselves (`eventSyncId`) say which one it is.

    Args:
        export: The file.
        waits: Synchronisations, with their `process`.
        machines: Number of machines in the file.

    Returns:
        The rows, in their order, with `on_stream` and `recorded`; both are null where
        no record is known, and for synchronisations of other kinds.
    """
    records = (
        export.frame("CUPTI_ACTIVITY_KIND_CUDA_EVENT")
        .select(
            "contextId",
            "eventId",
            process=process_of("globalPid", machines=machines),
            on_stream="streamId",
            recorded="correlationId",
            sync=_numbered("eventSyncId"),
        )
        .filter(pl.col("recorded") > 0, pl.col("on_stream") < NO_NUMBER)
    )
    kept = waits.with_row_index("wait").with_columns(sync=_numbered("eventSyncId"))
    of_streams = kept.filter(
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
    told = of_streams.join(
        numbered.select("process", "sync", "on_stream", "recorded"),
        on=["process", "sync"],
        how="left",
    )
    found = last.select("wait", "on_stream", "recorded").join(
        told.select("wait", by_number="on_stream", by_call="recorded"), on="wait"
    )
    # Both come from one of the two, so that they say the same record.
    numbered_wait = pl.col("by_call").is_not_null()
    chosen = found.select(
        "wait",
        on_stream=pl.when(numbered_wait).then("by_number").otherwise("on_stream"),
        recorded=pl.when(numbered_wait).then("by_call").otherwise("recorded"),
    )
    return kept.join(chosen, on="wait", how="left", maintain_order="left").drop(
        "wait", "sync"
    )


def _numbered(column: str) -> pl.Expr:
    """Return the number of a record; 0 and what stands for none are no number."""
    number = pl.col(column)
    return pl.when(number.is_between(1, NO_NUMBER - 1)).then(number)
