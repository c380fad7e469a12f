"""`[memory]` events become the table `allocations`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.formats.lost import or_lost
from stepscope.formats.torch_allocations import allocation_rows
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.formats.kineto.decoded.recording import Recording

_NONE_RECORDED: Final = Unavailable(
    code="NO_ALLOCATOR_EVENTS",
    reason="The trace holds no [memory] event.",
    remedy="Record with torch.profiler.profile(profile_memory=True).",
)


def allocations(recording: Recording) -> pl.DataFrame | Unavailable:
    """Return every allocation and deallocation in order of time, ties in file order."""
    memory = recording.columns.memory
    row = recording.timeline.row[memory.place]
    known = memory.frame["bytes"].is_not_null() & (memory.frame["bytes"] != 0)
    entries = np.flatnonzero((row >= 0) & known.to_numpy())
    if not len(entries):
        return or_lost(_NONE_RECORDED, recording.damaged_at)
    # Entries are in file order; tracks follow each other in the table of events.
    start = recording.timeline.start_ps[row[entries]]
    entries = entries[np.argsort(start, kind="stable")]
    given = memory.frame[entries].with_columns(
        event=pl.Series(row[entries]),
        start_ps=pl.Series(recording.timeline.start_ps[row[entries]]),
        asked_by=_ops(recording, entries),
    )
    # Programs number devices as the file lists them.
    sizes = {
        it.id: it.total_memory
        for it in reversed(recording.device_properties)
        if it.id is not None and it.total_memory is not None
    }
    return allocation_rows(given, device_bytes=sizes)


def _ops(recording: Recording, entries: NDArray[np.int64]) -> pl.Series:
    """Return the name of the operator around each allocation; null if there is none."""
    columns = recording.columns
    op = recording.links.of_memory[entries]
    name = np.append(columns.events.name[columns.ops.place], 0)[op]
    names = pl.Series(recording.names, dtype=pl.String)
    number = pl.Series(np.where(op >= 0, name, -1)).cast(pl.Int64)
    return names.gather(number.replace(-1, None)).alias("asked_by")
