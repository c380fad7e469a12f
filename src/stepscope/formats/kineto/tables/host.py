"""Build the tables of the host: launches, DataLoader calls, and allocations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from stepscope.formats.assemble import as_declared, is_loader_call, or_lost
from stepscope.formats.declared_texts import why_absent
from stepscope.formats.torch_allocations import allocation_rows
from stepscope.trace.reading.nullable import present_mask
from stepscope.trace.tables import ITERATORS, LAUNCHES

if TYPE_CHECKING:
    from stepscope.formats.kineto.decoded.recording import Recording
    from stepscope.formats.kineto.tables.device_activity import Activity
    from stepscope.unavailable import Unavailable


def launches_table(recording: Recording, work: Activity) -> pl.DataFrame | Unavailable:
    """Return every runtime call with a correlation id, in the order of `events`."""
    calls = recording.columns.calls
    row = recording.timeline.row[calls.place]
    correlation = calls.frame["correlation"]
    entries = np.flatnonzero((row >= 0) & present_mask(correlation))
    if not len(entries):
        key = "nothing_launched" if work.frame.is_empty() else "no_calls"
        return or_lost(why_absent(f"kineto.{key}"), recording.damaged_at)
    entries = entries[np.argsort(row[entries], kind="stable")]
    columns = recording.timeline.columns_at(row[entries])
    processes = pl.Series([track.process for track in recording.tracks], dtype=pl.Int64)
    return pl.DataFrame(
        {
            **columns,
            "correlation": correlation.gather(entries),
            "process": processes.gather(columns["track"]),
        },
        schema=LAUNCHES.dtypes(),
    )


def iterators_table(recording: Recording) -> pl.DataFrame | Unavailable:
    """Return every `next()` call of a DataLoader, in the order of `events`."""
    names = recording.type_names
    rows = recording.rows_named([is_loader_call(name) for name in names])
    line = recording.timeline
    kinds = pl.Series([track.kind for track in recording.tracks], dtype=pl.String)
    on_thread = (kinds == "thread").to_numpy()
    rows = rows[on_thread[line.track[rows]]] if len(rows) else rows
    if not len(rows):
        return or_lost(why_absent("kineto.no_loader"), recording.damaged_at)
    calls = pl.DataFrame(line.columns_at(rows))
    named = calls.with_columns(long_name=pl.Series(names).gather(calls["type"]))
    return as_declared(named, ITERATORS.dtypes())


def allocations_table(recording: Recording) -> pl.DataFrame | Unavailable:
    """Return every allocation and deallocation in order of time, ties in file order."""
    memory = recording.columns.memory
    row = recording.timeline.row[memory.place]
    known = memory.frame["bytes"].is_not_null() & (memory.frame["bytes"] != 0)
    entries = np.flatnonzero((row >= 0) & known.to_numpy())
    if not len(entries):
        return or_lost(why_absent("kineto.no_allocations"), recording.damaged_at)
    # Entries are in file order, but rows of `events` are grouped by track.
    start = recording.timeline.start_ps[row[entries]]
    entries = entries[np.argsort(start, kind="stable")]
    # Name of the operator that encloses each allocation; null if no operator does.
    columns = recording.columns
    op = recording.links.of_memory[entries]
    name = np.append(columns.events.name[columns.ops.place], 0)[op]
    names = pl.Series(recording.names, dtype=pl.String)
    number = pl.Series(np.where(op >= 0, name, -1)).cast(pl.Int64)
    allocations = memory.frame[entries].with_columns(
        event=pl.Series(row[entries]),
        start_ps=pl.Series(recording.timeline.start_ps[row[entries]]),
        asked_by=names.gather(number.replace(-1, None)).alias("asked_by"),
    )
    # Allocations use the device numbers that the file lists.
    sizes = {
        device.id: device.total_memory
        for device in reversed(recording.device_properties)
        if device.id is not None and device.total_memory is not None
    }
    return allocation_rows(allocations, device_bytes=sizes)
