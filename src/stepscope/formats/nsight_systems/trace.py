"""A database becomes the tables of a trace."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.errors import BadInput
from stepscope.formats.nsight_systems.database.rows import read_export
from stepscope.formats.nsight_systems.decoded.recording import Recording, Track
from stepscope.formats.nsight_systems.report_file import export_report
from stepscope.formats.nsight_systems.tables.allocations import allocations
from stepscope.formats.nsight_systems.tables.device_activity import collect_activity
from stepscope.formats.nsight_systems.tables.environment import devices, environment
from stepscope.formats.nsight_systems.tables.host import iterators, launches
from stepscope.formats.nsight_systems.tables.quality import quality
from stepscope.formats.nsight_systems.tables.stats import collect_arguments
from stepscope.formats.nsight_systems.tables.unused import unused_devices
from stepscope.formats.once import once
from stepscope.trace.model import TraceData
from stepscope.trace.tables import AGGREGATES, TRACKS, TYPE_STATS
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from stepscope.formats.nsight_systems.database.rows import Export
    from stepscope.formats.nsight_systems.tables.device_activity import Activity
    from stepscope.rundir import HostFiles

_NO_PARAMETERS: Final = Unavailable(
    code="FORMAT",
    reason="Nsight Systems does not record the variables of the model.",
    remedy="Count the parameters in the program itself.",
)
_NO_HLO: Final = Unavailable(
    code="NO_HLO",
    reason="Nsight Systems databases hold no HLO module.",
    remedy="Ops are named by the ranges of the program.",
)
_NO_ACTIVITY: Final = Unavailable(
    code="NO_DEVICE_EVENTS",
    reason="The database holds no kernel, copy or memset.",
    remedy="Record with `nsys profile --trace=cuda,nvtx` while the device works.",
)
_NO_GEOMETRIES: Final = Unavailable(
    code="NO_KERNEL_DETAILS",
    reason="No kernel in the database carries launch details.",
    remedy="Record with `nsys profile --trace=cuda,nvtx`.",
)


def read(source: HostFiles) -> TraceData:
    """Read the database of one report.

    Raises:
        BadInput: Nothing can be read; the message names the file, what was wrong and
            the way out.
    """
    return _trace(source, read_export)


def read_report(source: HostFiles) -> TraceData:
    """Read a report, which the `nsys` of this machine turns into a database.

    Raises:
        BadInput: There is no `nsys`, or it cannot read the report.
    """
    return _trace(source, export_report)


def _one_of(source: HostFiles) -> Path:
    if len(source.paths) != 1:
        raise BadInput.at(
            source.paths[0],
            f"is one of {len(source.paths)} databases given as parts of one",
            "Give each database as a worker of its own.",
        )
    return source.paths[0]


def _trace(source: HostFiles, read: Callable[[Path, int], Export]) -> TraceData:
    recording = Recording(partial(read, _one_of(source), source.limit_bytes))
    activity = once(partial(collect_activity, recording))
    arguments = collect_arguments(recording)
    line = recording.timeline
    return TraceData(
        source.host,
        {
            "tracks": lambda: _tracks(recording),
            "events": lambda: line.events,
            "event_types": lambda: line.event_types,
            "aggregates": lambda: pl.DataFrame(schema=AGGREGATES.dtypes()),
            "stats": lambda: arguments.frame,
            "type_stats": lambda: pl.DataFrame(schema=TYPE_STATS.dtypes()),
            "device_activity": lambda: _device_activity(recording, activity()),
            "geometries": lambda: _geometries(recording, activity()),
            "launches": lambda: _launches(recording, activity()),
            "allocations": lambda: allocations(recording),
            "iterators": lambda: iterators(recording),
            "parameters": lambda: _NO_PARAMETERS,
            "hlo_ops": lambda: _NO_HLO,
            "devices": lambda: devices(recording, activity()),
            "environment": lambda: environment(recording),
            "quality": lambda: quality(recording, activity()),
        },
        strings=arguments.strings,
        # No value of this format is a place in the file.
        data=np.zeros(0, np.uint8),
        recorder="nsight",
    )


def _tracks(recording: Recording) -> pl.DataFrame:
    columns = {
        field: [getattr(track, field) for track in recording.tracks]
        for field in Track._fields
    }
    rows = recording.timeline.tracks
    return pl.DataFrame(
        {**columns, **{it: rows[it] for it in ("event_begin", "event_end")}},
        schema=TRACKS.dtypes(),
    )


def _device_activity(
    recording: Recording, activity: Activity
) -> pl.DataFrame | Unavailable:
    return _why_no_activity(recording, activity) or activity.frame


def _launches(recording: Recording, activity: Activity) -> pl.DataFrame | Unavailable:
    return _unused(recording, activity) or launches(recording)


def _geometries(recording: Recording, activity: Activity) -> pl.DataFrame | Unavailable:
    absent = _why_no_activity(recording, activity)
    return absent or _or_absent(activity.geometries, _NO_GEOMETRIES)


def _why_no_activity(recording: Recording, activity: Activity) -> Unavailable | None:
    """Return the reason that there is no device activity, None where there is some."""
    if activity.frame.height:
        return None
    return _unused(recording, activity) or _NO_ACTIVITY


def _unused(recording: Recording, activity: Activity) -> Unavailable | None:
    """Return why no device worked, where none is listed or calls ask none to."""
    return None if activity.frame.height else unused_devices(recording)


def _or_absent(frame: pl.DataFrame, absent: Unavailable) -> pl.DataFrame | Unavailable:
    return absent if frame.is_empty() else frame
