"""Host events that put work on a device: those with an id that the work has, too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.formats.lost import or_lost
from stepscope.remedies import Remedy
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.formats.xplane.decoded.recording import Recording
    from stepscope.formats.xplane.tables.program_runs import ProgramRuns

_NO_DEVICE: Final = Unavailable(
    code="NO_DEVICE_PLANE",
    reason="The profile holds no device, so nothing was launched on one.",
    remedy="Run on a machine with a GPU or TPU to see launches.",
)
_NO_CALLS: Final = Unavailable(
    code="NOT_RECORDED",
    reason="No host event carries a correlation id, so launch calls are unknown.",
    remedy=Remedy.RECORD_LAUNCHES,
)


def launches(recording: Recording, runs: ProgramRuns) -> pl.DataFrame | Unavailable:
    """List launch calls in the order of `events`, found by their id, never by name."""
    rows, values = recording.host_values("correlation_id")
    number, present = values.integers()
    if not present.all():
        rows, number = rows[present], number[present]
    if not len(rows):
        number = np.argsort(runs.call, kind="stable")
        rows = runs.call[number]
    if not len(rows):
        return _absent(recording)
    line = recording.timeline
    track = line.track[rows]
    columns: dict[str, NDArray[np.generic] | pl.Series] = {
        "event": rows.astype(np.int32),
        "track": track,
        "type": line.type[rows],
        "start_ps": line.start_ps[rows],
        "dur_ps": line.dur_ps[rows],
        "correlation": number,
    }
    processes = [it.role.process for it in recording.tracks]
    if any(it is not None for it in processes):
        process = pl.Series("process", processes, dtype=pl.Int64)
        columns["process"] = process.gather(track)
    else:
        unknown = pl.Series("process", [None], dtype=pl.Int64)
        columns["process"] = unknown.new_from_index(0, len(rows))
    return pl.DataFrame(columns)


def _absent(recording: Recording) -> Unavailable:
    if not recording.activity_tracks:
        return or_lost(_NO_DEVICE, recording.damaged_at)
    return or_lost(_NO_CALLS, recording.damaged_at)
