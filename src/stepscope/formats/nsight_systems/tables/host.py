"""Build the tables of the host: launches, DataLoader calls, memory, and event values.

The event values are return values of calls, values of counters, and values that PyTorch
writes into range names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.formats.assemble import EventValues, as_declared, is_loader_call
from stepscope.formats.declared_texts import why_absent
from stepscope.formats.nsight_systems.decoded.events import Origin
from stepscope.formats.nsight_systems.decoded.extras import ALLOCATED
from stepscope.trace.reading.stat_keys import StatKey
from stepscope.trace.reading.texts import Shortening
from stepscope.trace.tables import (
    ALLOCATIONS,
    DOUBLE,
    INT,
    ITERATORS,
    LAUNCHES,
    REF,
    STATS,
)

if TYPE_CHECKING:
    from stepscope.array_types import Int32s
    from stepscope.formats.nsight_systems.decoded.recording import Recording
    from stepscope.unavailable import Unavailable

#: Column → name of its value in `stats`.
_OF_RANGES: Final = {"op_id": "op_id", "seq": "seq"}
_OF_CALLS: Final = {"returned": "return value"}
_OF_WAITS: Final = {
    "id": StatKey.STREAM,
    "correlationId": StatKey.CORRELATION,
    "on_stream": StatKey.WAIT_ON_STREAM,
    "recorded": StatKey.WAIT_ON_RECORD,
}
#: Recorded kinds of memory on a device; recorded kind of other memory → its name.
_ON_DEVICE: Final = (2, 3, 5)
_OFF_DEVICE: Final = {
    0: "pageable host memory",
    1: "pinned host memory",
    4: "managed memory",
    6: "managed memory",
}


def collect_arguments(recording: Recording) -> EventValues:
    """Return every value of every event, sorted by event."""
    handles: dict[str, int] = {}
    parts = []
    syncs = recording.syncs
    # The replay uses only waits for a CUDA event whose record is known.
    is_known = pl.col("recorded").is_not_null()
    waits = syncs.with_columns(
        pl.when(is_known).then(column).alias(column) for column in _OF_WAITS
    )
    for origin, frame, columns in (
        (Origin.RANGE, recording.host.ranges, _OF_RANGES),
        (Origin.CALL, recording.host.calls, _OF_CALLS),
        (Origin.SYNC, waits, _OF_WAITS),
    ):
        positions, rows = recording.timeline.rows[origin]
        for column, name in columns.items():
            key = handles.setdefault(name, len(handles))
            parts.append(_value_rows(rows, frame[column].gather(positions), key, INT))
    positions, rows = recording.timeline.rows[Origin.COUNTER]
    counted = recording.counters["value"].gather(positions).to_numpy().view(np.int64)
    key = handles.setdefault(StatKey.COUNTER_VALUE, len(handles))
    parts.append(_value_rows(rows, pl.Series(counted), key, DOUBLE))
    positions, rows = recording.timeline.rows[Origin.RANGE]
    sizes = recording.host.ranges["sizes"].gather(positions)
    key = handles.setdefault("sizes", len(handles))
    texts, shortening = sizes.drop_nulls().unique(maintain_order=True), Shortening()
    numbers = [
        handles.setdefault(shortening.text(text), len(handles))
        for text in texts.to_list()
    ]
    refs = sizes.replace_strict(
        texts, pl.Series(numbers, dtype=pl.Int64), default=None, return_dtype=pl.Int64
    )
    parts.append(_value_rows(rows, refs, key, REF))
    frame = pl.concat(parts).sort("event", maintain_order=True)
    return EventValues(frame=frame, strings=tuple(handles))


def _value_rows(rows: Int32s, values: pl.Series, key: int, kind: int) -> pl.DataFrame:
    known = values.is_not_null()
    count = int(known.sum())
    return pl.DataFrame(
        {
            "event": pl.Series(rows).filter(known),
            "key": np.full(count, key, np.int32),
            "kind": np.full(count, kind, np.uint8),
            "value": values.filter(known),
            "length": np.zeros(count, np.int32),
        },
        schema=STATS.dtypes(),
    )


def allocations_table(recording: Recording) -> pl.DataFrame | Unavailable:
    """Return the allocations and deallocations of the CUDA driver, in time order.

    A framework requests large pieces from the driver and divides them itself. The bytes
    are therefore those that the program reserves, not the size of its tensors.
    """
    positions, rows = recording.timeline.rows[Origin.MEMORY]
    if not len(positions):
        return why_absent("nsight.no_memory")
    allocations = (
        recording.memory[positions]
        .hstack(recording.timeline.events[rows].select("start_ps"))
        .with_columns(
            event=pl.Series(rows),
            place=pl.Series(positions),
            allocator=_memory_name(recording.main_process),
        )
    )
    sizes = {
        device: properties["totalMemory"]
        for device, properties in recording.gpus.listed.items()
        if properties["totalMemory"] is not None and properties["totalMemory"] > 0
    }
    size = pl.col("device").replace_strict(sizes, default=None, return_dtype=pl.Int64)
    frame = allocations.sort("start_ps", "place").select(
        "event",
        "start_ps",
        "allocator",
        kind=pl.when(pl.col("operation") == ALLOCATED)
        .then(pl.lit("allocate"))
        .otherwise(pl.lit("deallocate")),
        # An address has 64 bits; SQLite stores it as a signed integer.
        address=pl.col("address").reinterpret(signed=False),
        allocated_bytes="bytes",
        capacity_bytes=pl.when(pl.col("memory").is_in(_ON_DEVICE)).then(size),
    )
    return as_declared(frame, ALLOCATIONS.dtypes())


def _memory_name(main: int | None) -> pl.Expr:
    """Return the name of the allocator, such as `GPU_0_driver of process 7`."""
    number = pl.col("device")
    known = pl.col("memory").is_in(_ON_DEVICE) | pl.col("memory").is_null()
    on_device = pl.concat_str(pl.lit("GPU_"), number, pl.lit("_driver"))
    off_device = pl.col("memory").replace_strict(
        _OFF_DEVICE, default=None, return_dtype=pl.String
    )
    name = pl.coalesce(
        pl.when(known).then(on_device), off_device, pl.lit("memory of unknown kind")
    )
    is_other = (pl.col("process") != main).fill_null(value=False)
    return (
        pl.when(is_other)
        .then(pl.concat_str(name, pl.lit(" of process "), pl.col("process")))
        .otherwise(name)
    )


def launches_table(recording: Recording) -> pl.DataFrame | Unavailable:
    """Return every call with a correlation id, in the order of `events`."""
    positions, rows = recording.timeline.rows[Origin.CALL]
    calls = recording.host.calls.select("correlation", "process")[positions]
    events = recording.timeline.events[rows]
    launches = calls.hstack(events).with_columns(event=pl.Series(rows))
    launches = launches.filter(pl.col("correlation").is_not_null())
    if launches.is_empty():
        return why_absent("nsight.no_calls")
    return as_declared(launches, LAUNCHES.dtypes())


def iterators_table(recording: Recording) -> pl.DataFrame | Unavailable:
    """Return every `next()` call of a DataLoader, in the order of `events`."""
    names = recording.timeline.event_types["name"]
    is_call = np.array([is_loader_call(name) for name in names.to_list()], np.bool_)
    _, rows = recording.timeline.rows[Origin.RANGE]
    events = recording.timeline.events[rows].with_columns(event=pl.Series(rows))
    calls = events.filter(pl.col("type").is_in(np.flatnonzero(is_call).tolist()))
    if calls.is_empty():
        return why_absent("nsight.no_loader")
    named = calls.with_columns(long_name=names.gather(calls["type"]))
    return as_declared(named, ITERATORS.dtypes())
