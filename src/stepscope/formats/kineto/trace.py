"""A Kineto file becomes the tables of a trace."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import polars as pl

from stepscope.errors import BadInput
from stepscope.formats.kineto.decoded.recording import Recording
from stepscope.formats.kineto.decoded.tracks import tracks_frame
from stepscope.formats.kineto.json.document import open_document
from stepscope.formats.kineto.strings import Strings
from stepscope.formats.kineto.tables.allocations import allocations
from stepscope.formats.kineto.tables.device_activity import collect_activity
from stepscope.formats.kineto.tables.environment import devices, environment, pairing
from stepscope.formats.kineto.tables.foreign import foreign_work
from stepscope.formats.kineto.tables.iterators import iterators
from stepscope.formats.kineto.tables.launches import launches
from stepscope.formats.kineto.tables.quality import quality
from stepscope.formats.kineto.tables.stats import read_arguments
from stepscope.formats.kineto.tables.unused import unused_devices
from stepscope.formats.lost import or_lost
from stepscope.formats.once import once
from stepscope.trace.model import TraceData
from stepscope.trace.tables import AGGREGATES, EVENT_TYPES, TYPE_STATS
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.formats.kineto.tables.device_activity import Activity
    from stepscope.rundir import HostFiles

_NO_PARAMETERS: Final = Unavailable(
    code="FORMAT",
    reason="This format does not record the variables of the model.",
    remedy="Count the parameters in the program itself.",
)
_NO_HLO: Final = Unavailable(
    code="NO_HLO",
    reason="PyTorch traces hold no HLO module.",
    remedy="Ops are named by the framework's own records.",
)
_NO_DEVICE: Final = Unavailable(
    code="NO_DEVICE_PLANE",
    reason="The trace holds no device: the program ran on the CPU, or the device was "
    "not recorded.",
    remedy="If the program used an accelerator, record with ProfilerActivity.CUDA and "
    "check that CUPTI or roctracer can be loaded.",
)
_NO_ACTIVITY: Final = Unavailable(
    code="NO_DEVICE_EVENTS",
    reason="A device is listed, but none of its activity was recorded.",
    remedy="Record with ProfilerActivity.CUDA while the device works, and check that "
    "CUPTI or roctracer can be loaded and that users may profile.",
)
_NO_GEOMETRIES: Final = Unavailable(
    code="NO_KERNEL_DETAILS",
    reason="No kernel carries launch details.",
    remedy="Record on an NVIDIA GPU; other tracers do not report them.",
)


def read(source: HostFiles) -> TraceData:
    """Read one process's trace.

    Raises:
        BadInput: Nothing can be read; the message names the file, what was wrong and
            the way out.
    """
    if len(source.paths) != 1:
        raise BadInput.at(
            source.paths[0],
            f"is one of {len(source.paths)} files given as parts of one trace, which "
            "this format does not have",
            "Give each file as a worker of its own.",
        )
    (path,) = source.paths
    document = open_document(path, limit_bytes=source.limit_bytes, mapped=source.mapped)
    return _trace(source.host, Recording(path, document))


def _trace(host: str, recording: Recording) -> TraceData:
    activity = once(partial(collect_activity, recording))
    arguments = once(partial(read_arguments, recording))
    return TraceData(
        host,
        {
            "tracks": lambda: _tracks(recording),
            "events": recording.timeline.frame,
            "event_types": lambda: _event_types(recording),
            "aggregates": lambda: pl.DataFrame(schema=AGGREGATES.dtypes()),
            "stats": lambda: arguments().frame,
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
        strings=Strings(recording.texts.strings, lambda: arguments().strings),
        data=recording.document.data,
        recorder="kineto",
    )


def _tracks(recording: Recording) -> pl.DataFrame:
    line = recording.timeline
    return tracks_frame(recording.tracks, line.event_begin, line.event_end)


def _event_types(recording: Recording) -> pl.DataFrame:
    names = recording.type_names
    return pl.DataFrame(
        {
            "name": names,
            "display_name": [None] * len(names),
            "known": [
                recording.columns.names[number] is not None
                for number in recording.types.name.tolist()
            ],
            "op": recording.types.op,
            "annotation": recording.types.annotation,
        },
        schema=EVENT_TYPES.dtypes(),
    )


def _device_activity(
    recording: Recording, activity: Activity
) -> pl.DataFrame | Unavailable:
    return _why_no_activity(recording, activity) or activity.frame


def _launches(recording: Recording, activity: Activity) -> pl.DataFrame | Unavailable:
    return _unused(recording, activity) or launches(recording, activity)


def _geometries(recording: Recording, activity: Activity) -> pl.DataFrame | Unavailable:
    absent = _why_no_activity(recording, activity)
    if absent is not None:
        return absent
    return _NO_GEOMETRIES if activity.geometries.is_empty() else activity.geometries


def _why_no_activity(recording: Recording, activity: Activity) -> Unavailable | None:
    """Return the reason that there is no device activity, None where there is some."""
    if activity.frame.height:
        return None
    absent = foreign_work(recording) or _unused(recording, activity)
    if absent is None:
        absent = _NO_ACTIVITY if pairing(recording) else _NO_DEVICE
    return or_lost(absent, recording.damaged_at)


def _unused(recording: Recording, activity: Activity) -> Unavailable | None:
    """Return why no listed device worked; None where one did, or may have."""
    if activity.frame.height or not pairing(recording):
        return None
    return unused_devices(recording)
