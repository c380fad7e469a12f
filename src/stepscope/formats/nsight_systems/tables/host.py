"""Calls that carry a correlation id, and calls of a DataLoader."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.formats.nsight_systems.decoded.events import Origin
from stepscope.trace.iterators import is_loader_call
from stepscope.trace.tables import ITERATORS, LAUNCHES
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.formats.nsight_systems.decoded.recording import Recording

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
