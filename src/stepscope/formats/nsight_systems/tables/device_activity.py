"""Build the table of device activity, or the reason why there is none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.formats.assemble import (
    NO_LAUNCH,
    DeviceTables,
    as_declared,
    launches_work,
)
from stepscope.formats.declared_texts import why_absent
from stepscope.formats.launch_shapes import number_shapes
from stepscope.formats.nsight_systems.decoded.events import Origin, select_rows
from stepscope.trace.reading.activity_names import NOT_ACTIVITY
from stepscope.trace.reading.nullable import nullable_series
from stepscope.trace.tables import ACTIVITY_KINDS, DEVICE_ACTIVITY

if TYPE_CHECKING:
    from stepscope.formats.nsight_systems.decoded.recording import Recording
    from stepscope.unavailable import Unavailable


#: Nsight Systems lists all GPUs of the machine, even if the program uses none of them.
_NEVER_CALLED: Final = why_absent("nsight.never_called")
_CALLS_LOST: Final = why_absent("nsight.calls_lost")
#: Reason for missing activity of a device that the program certainly called.
CALLS_RECORDED: Final = why_absent("nsight.calls_seen")
#: Matches the name of a CUDA or HIP call in CPU samples.
_SAMPLED: Final = r"^\$<[^>]*>!((?:cu|hip)\w*)$"
#: Reasons for missing activity of devices that may or may not have been used.
IN_DOUBT: Final = (_NEVER_CALLED, _CALLS_LOST)
#: Matches messages, of any severity, in which Nsight Systems reports missing calls.
_LOST: Final = (
    r"(?i)not all CUDA events|CUPTI events might be missing|CUDA profiling might"
)


def why_no_activity(recording: Recording, work: DeviceTables) -> Unavailable | None:
    """Return why there is no device activity; None if there is activity."""
    if work.frame.height:
        return None
    return why_unused(recording, work) or why_absent("nsight.no_activity")


def why_unused(recording: Recording, work: DeviceTables) -> Unavailable | None:
    """Return why no device was used; None if one was or may have been used.

    Only if all calls were recorded is it certain that the program did not use devices.
    """
    if work.frame.height:
        return None
    calls = recording.host.calls
    texts = pl.Series(recording.names.texts(), dtype=pl.String)
    if launches_work(texts.gather(calls["name"].unique().sort())):
        return None
    if launches_work(texts.str.extract(_SAMPLED).drop_nulls()):
        return CALLS_RECORDED
    if calls.is_empty():
        return _NEVER_CALLED if recording.gpus.listed else why_absent("nsight.no_gpu")
    notes = recording.export.frame("DIAGNOSTIC_EVENT")["text"].drop_nulls()
    if recording.gpus.listed and notes.str.contains(_LOST).any():
        return _CALLS_LOST
    return NO_LAUNCH


def collect_activity(recording: Recording) -> DeviceTables:
    """Collect the activity of all devices of a file, in the order of `events`."""
    positions, rows = recording.timeline.rows[Origin.WORK]
    events = recording.timeline.events[rows].select(
        "track", "type", "start_ps", "dur_ps"
    )
    work = recording.work[positions].with_columns(event=pl.Series(rows))
    joined = work.select(pl.exclude("start", "dur", "name", "said")).hstack(events)
    # A copy within the host is not device activity.
    joined = select_rows(joined, pl.col("kind") != NOT_ACTIVITY)
    # Row of the activity's recorded launch shape; null for none.
    launched = joined["launched"]
    known = launched.drop_nulls()
    # Order the shapes by their first activities.
    used = known.unique(maintain_order=True).to_numpy()
    recorded = recording.shapes
    counts = np.bincount(known.to_numpy(), minlength=recorded.height)[used]
    shapes = recorded[used].select(
        *(f"{of}_{axis}" for of in ("block", "grid") for axis in "xyz"),
        registers="registers",
        static_shared_memory_bytes="static",
        dynamic_shared_memory_bytes="dynamic",
        shared_memory_bytes=pl.col("static") + pl.col("dynamic"),
    )
    geometries, number, refused = number_shapes(shapes, counts)
    of_shape = np.full(recorded.height + 1, -1, np.int32)
    of_shape[used] = number
    geometry = of_shape[launched.fill_null(recorded.height).to_numpy()]
    activities = joined.with_columns(
        pl.col("kind").cast(ACTIVITY_KINDS),
        geometry=nullable_series("geometry", geometry, geometry >= 0),
        stream=pl.col("id"),
    )
    return DeviceTables(
        frame=as_declared(activities, DEVICE_ACTIVITY.dtypes()),
        geometries=geometries,
        refused=refused,
        undirected=recording.undirected,
    )
