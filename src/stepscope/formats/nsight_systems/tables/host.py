"""Tables of the host: launches, calls of a DataLoader, memory of the CUDA driver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.formats.assemble import as_declared
from stepscope.formats.nsight_systems.decoded.beside import ALLOCATED
from stepscope.formats.nsight_systems.decoded.events import Origin
from stepscope.trace.iterators import is_loader_call
from stepscope.trace.tables import ALLOCATIONS, ITERATORS, LAUNCHES
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.formats.nsight_systems.decoded.recording import Recording

#: Kinds of memory, as recorded: what lies on a device, and the others by name.
_ON_DEVICE: Final = (2, 3, 5)
_ELSEWHERE: Final = {
    0: "pageable host memory",
    1: "pinned host memory",
    4: "managed memory",
    6: "managed memory",
}
_NONE_RECORDED: Final = Unavailable(
    code="NO_ALLOCATOR_EVENTS",
    reason="The database holds no memory events of the CUDA driver.",
    remedy="Record with `nsys profile --trace=cuda --cuda-memory-usage=true`; what the "
    "framework's allocator does with the memory, its own profiler records.",
)
_NO_CALLS: Final = Unavailable(
    code="NOT_RECORDED",
    reason="No call of CUDA was recorded, so it is unknown what launched the device's "
    "work.",
    remedy="Record with `nsys profile --trace=cuda,nvtx`.",
)
_NO_LOADER: Final = Unavailable(
    code="NO_TFDATA_EVENTS",
    reason="No range in the database is a call of a DataLoader.",
    remedy="Run the steps inside of torch.autograd.profiler.emit_nvtx(), which names "
    "these calls.",
)


def allocations(recording: Recording) -> pl.DataFrame | Unavailable:
    """Return what the CUDA driver gave and took back, in order of time.

    A framework asks the driver for large pieces and divides them itself: this memory is
    what the program holds, not what its tensors fill.
    """
    places, rows = recording.rows_of(Origin.MEMORY)
    if not len(places):
        return _NONE_RECORDED
    events = recording.timeline.events[rows].select("start_ps")
    given = (
        recording.memory[places]
        .hstack(events)
        .with_columns(
            event=pl.Series(rows),
            place=pl.Series(places),
            allocator=_memory(recording.main_process),
        )
    )
    sizes = {
        device: said["totalMemory"]
        for device, said in recording.gpus.listed.items()
        if said["totalMemory"] is not None and said["totalMemory"] > 0
    }
    of_device = pl.col("device").replace_strict(
        sizes, default=None, return_dtype=pl.Int64
    )
    frame = given.sort("start_ps", "place").select(
        "event",
        "start_ps",
        "allocator",
        kind=pl.when(pl.col("operation") == ALLOCATED)
        .then(pl.lit("allocate"))
        .otherwise(pl.lit("deallocate")),
        # An address has 64 bits, of which SQLite keeps the first as the sign.
        address=pl.col("address").reinterpret(signed=False),
        allocated_bytes="bytes",
        capacity_bytes=pl.when(pl.col("memory").is_in(_ON_DEVICE)).then(of_device),
    )
    return as_declared(frame, ALLOCATIONS.dtypes())


def _memory(main: int | None) -> pl.Expr:
    """Return the name of the memory: `GPU_0 (driver)`; of another process, with it."""
    number = pl.col("device")
    known = pl.col("memory").is_in(_ON_DEVICE) | pl.col("memory").is_null()
    on_device = pl.concat_str(pl.lit("GPU_"), number, pl.lit("_driver"))
    elsewhere = pl.col("memory").replace_strict(
        _ELSEWHERE, default=None, return_dtype=pl.String
    )
    name = pl.coalesce(
        pl.when(known).then(on_device), elsewhere, pl.lit("memory of unknown kind")
    )
    other = (pl.col("process") != main).fill_null(value=False)
    return (
        pl.when(other)
        .then(pl.concat_str(name, pl.lit(" of process "), pl.col("process")))
        .otherwise(name)
    )


def launches(recording: Recording) -> pl.DataFrame | Unavailable:
    """Return every call with a correlation id, in the order of `events`."""
    places, rows = recording.rows_of(Origin.CALL)
    calls = recording.host.calls.select("correlation", "process")[places]
    events = recording.timeline.events[rows].select(pl.all())
    whole = calls.hstack(events).with_columns(event=pl.Series(rows))
    whole = whole.filter(pl.col("correlation").is_not_null())
    if whole.is_empty():
        return _NO_CALLS
    return whole.select(
        pl.col(name).cast(dtype) for name, dtype in LAUNCHES.dtypes().items()
    )


def iterators(recording: Recording) -> pl.DataFrame | Unavailable:
    """Return every call of a DataLoader's iterator, in the order of `events`."""
    names = recording.timeline.event_types["name"]
    is_call = np.array([is_loader_call(name) for name in names.to_list()], np.bool_)
    _, rows = recording.rows_of(Origin.RANGE)
    events = recording.timeline.events[rows].with_columns(event=pl.Series(rows))
    types = np.flatnonzero(is_call).tolist()
    calls = events.filter(pl.col("type").is_in(types))
    if calls.is_empty():
        return _NO_LOADER
    return calls.select(
        *("event", "track", "start_ps", "dur_ps"),
        long_name=names.gather(calls["type"]),
        id=pl.lit(None, pl.Int64),
        parent_id=pl.lit(None, pl.Int64),
    ).select(pl.col(name).cast(dtype) for name, dtype in ITERATORS.dtypes().items())
