"""What ran on devices, or why nothing did: whether the program used any listed one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.formats.assemble import (
    NO_CALL_GIVES_WORK,
    DeviceTables,
    as_declared,
    gives_work,
    idle_devices,
)
from stepscope.formats.declared_words import why_absent
from stepscope.formats.launch_shapes import number_shapes
from stepscope.formats.nsight_systems.decoded.events import Origin, select_rows
from stepscope.trace.reading.activity_names import NOT_ACTIVITY
from stepscope.trace.reading.nullable import nullable_series
from stepscope.trace.tables import ACTIVITY_KINDS, DEVICE_ACTIVITY

if TYPE_CHECKING:
    from stepscope.formats.nsight_systems.decoded.recording import Recording
    from stepscope.unavailable import Unavailable


#: Nsight Systems lists the GPUs of the machine, whatever the program does.
_NEVER_CALLED: Final = why_absent("nsight.never_called")
_CALLS_LOST: Final = why_absent("nsight.calls_lost")
#: Why there is no work of a device that the program certainly called.
CALLS_SEEN: Final = why_absent("nsight.calls_seen")
#: How samples name a call of CUDA or HIP.
_SAMPLED: Final = r"^\$<[^>]*>!((?:cu|hip)\w*)$"
#: Why there is no work of a device of which nothing says whether it was used.
IN_DOUBT: Final = (_NEVER_CALLED, _CALLS_LOST)
#: What Nsight Systems notes, whatever the severity, where calls may be missing.
_LOST: Final = (
    r"(?i)not all CUDA events|CUPTI events might be missing|CUDA profiling might"
)


def why_no_activity(recording: Recording, work: DeviceTables) -> Unavailable | None:
    """Return the reason that there is no device activity, None where there is some."""
    if work.frame.height:
        return None
    return unused_devices(recording) or why_absent("nsight.no_activity")


def why_unused(recording: Recording, work: DeviceTables) -> Unavailable | None:
    """Return why no device worked, where none is listed or calls ask none to."""
    return None if work.frame.height else unused_devices(recording)


def unused_devices(recording: Recording) -> Unavailable | None:
    """Return why devices have no work where none has; None where they were used.

    That the program gave them none needs calls that were recorded whole.
    """
    calls = recording.host.calls
    texts = pl.Series(recording.names.texts(), dtype=pl.String)
    if gives_work(texts.gather(calls["name"].unique().sort())):
        return None
    if gives_work(texts.str.extract(_SAMPLED).drop_nulls()):
        return CALLS_SEEN
    if calls.is_empty():
        return _NEVER_CALLED if recording.gpus.listed else why_absent("nsight.no_gpu")
    notes = recording.export.frame("DIAGNOSTIC_EVENT")["text"].drop_nulls()
    if recording.gpus.listed and notes.str.contains(_LOST).any():
        return _CALLS_LOST
    return idle_devices(NO_CALL_GIVES_WORK)


def collect_activity(recording: Recording) -> DeviceTables:
    """Everything that ran on the devices of a file, in the order of `events`."""
    places, rows = recording.rows_of(Origin.WORK)
    events = recording.timeline.events[rows].select(
        "track", "type", "start_ps", "dur_ps"
    )
    work = recording.work[places].with_columns(event=pl.Series(rows))
    whole = work.select(pl.exclude("start", "dur", "name", "said")).hstack(events)
    # A copy within the host is no work of a device.
    whole = select_rows(whole, pl.col("kind") != NOT_ACTIVITY)
    # By row, the recorded shape that it has; null for none.
    launched = whole["launched"]
    known = launched.drop_nulls()
    # The first that a row has comes first.
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
    given = whole.with_columns(
        pl.col("kind").cast(ACTIVITY_KINDS),
        geometry=nullable_series("geometry", geometry, geometry >= 0),
        stream=pl.col("id"),
    )
    return DeviceTables(
        frame=as_declared(given, DEVICE_ACTIVITY.dtypes()),
        geometries=geometries,
        refused=refused,
        undirected=recording.undirected,
    )
