"""Calls of runtimes and drivers that carry a correlation id."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.formats.lost import or_lost
from stepscope.trace.reading.nullable import held
from stepscope.trace.tables import LAUNCHES
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.formats.kineto.decoded.recording import Recording
    from stepscope.formats.kineto.tables.device_activity import Activity

_NO_DEVICE: Final = Unavailable(
    code="NO_DEVICE_PLANE",
    reason="The trace holds no device, so nothing was launched on one.",
    remedy="Record on a machine with a GPU, with ProfilerActivity.CUDA.",
)
_NO_CALLS: Final = Unavailable(
    code="NOT_RECORDED",
    reason="No call of the runtime or the driver was recorded, so it is unknown what "
    "launched the device's work.",
    remedy="Record with ProfilerActivity.CUDA and without filtering the trace.",
)


def launches(recording: Recording, activity: Activity) -> pl.DataFrame | Unavailable:
    """Return every call with a correlation id, in the order of `events`."""
    calls = recording.columns.calls
    row = recording.timeline.row[calls.place]
    correlation = calls.frame["correlation"]
    entries = np.flatnonzero((row >= 0) & held(correlation))
    if not len(entries):
        without = activity.frame.is_empty()
        return or_lost(_NO_DEVICE if without else _NO_CALLS, recording.damaged_at)
    entries = entries[np.argsort(row[entries], kind="stable")]
    event = row[entries]
    line = recording.timeline
    track = line.track[event]
    processes = pl.Series([it.process for it in recording.tracks], dtype=pl.Int64)
    return pl.DataFrame(
        {
            "event": event,
            "track": track,
            "type": line.type[event],
            "start_ps": line.start_ps[event],
            "dur_ps": line.dur_ps[event],
            "correlation": correlation.gather(entries),
            "process": processes.gather(track),
        },
        schema=LAUNCHES.dtypes(),
    )
