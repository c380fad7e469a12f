"""Build the tables `environment` (the capture) and `devices` (the hardware)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import polars as pl

from stepscope.formats.assemble import environment_frame, or_lost
from stepscope.formats.declared_texts import why_absent
from stepscope.formats.kineto.columns.categories import EventClass
from stepscope.formats.kineto.tables.missing_devices import foreign_work, pair_devices
from stepscope.patterns import Pattern
from stepscope.trace.tables import DEVICES
from stepscope.units import PS_PER_S

if TYPE_CHECKING:
    from stepscope.formats.kineto.decoded.recording import Recording
    from stepscope.formats.kineto.json.messages import DeviceProperties
    from stepscope.formats.kineto.tables.device_activity import Activity
    from stepscope.unavailable import Unavailable

FORMAT: Final = "Kineto JSON"

#: A recording is mostly idle if its length exceeds the time range of its work by this
#: factor, and by the time in ps that the recorder takes to start and stop.
_SILENT_RATIO: Final = 2
_STARTING_PS: Final = PS_PER_S
#: Kinds of tracks that contain no work of the program.
_NO_WORK: Final = ("overhead", "counters")
_AMD: Final = Pattern(r"\bAMD\b|Instinct|Radeon|gfx\d", re.IGNORECASE)
_NVIDIA: Final = Pattern(
    r"NVIDIA|Tesla|GeForce|Quadro|TITAN|\bRTX\b|\b[AHBVPTL]\d{1,3}\b", re.IGNORECASE
)

#: Threads per warp (wavefront) of AMD's GPUs; other vendors' warps have 32.
_AMD_WARP: Final = 64


def environment_table(recording: Recording) -> pl.DataFrame:
    """Return the single row that describes the capture."""
    start = recording.start_unix_ns
    window = recording.timeline.time_range(_recorder_tracks(recording))
    # Analyse only the time range of the work, but a mostly idle recording as a whole.
    work = recording.timeline.time_range(work_tracks(recording))
    analysed = work
    if window is not None and work is not None:
        full_range = min(window[0], work[0]), max(window[1], work[1])
        worked_ps, recorded_ps = work[1] - work[0], full_range[1] - full_range[0]
        silent = recorded_ps > max(_SILENT_RATIO * worked_ps, worked_ps + _STARTING_PS)
        analysed = full_range if silent else work
    host = recording.field("host_name")
    nccl = recording.distributed.nccl_version
    row = {
        "hostname": host if isinstance(host, str) and host else None,
        "start_unix_ns": start,
        "stop_unix_ns": None
        if start is None or window is None
        else start + window[1] // 1000,
        "processes": recording.distributed.world_size,
        "rank": recording.distributed.rank,
        "cuda_runtime": _recorded_version(recording, "cuda_runtime_version"),
        "cuda_driver": _recorded_version(recording, "cuda_driver_version"),
        "libraries": nccl and f"nccl {nccl}",
        "begin_ps": analysed and analysed[0],
        "end_ps": analysed and analysed[1],
    }
    return environment_frame([recording.path], FORMAT, row)


def _recorded_version(recording: Recording, name: str) -> int | None:
    version = recording.field(name)
    return version if isinstance(version, int) and version > 0 else None


def work_tracks(recording: Recording) -> list[int]:
    """Return rows of the tracks with work: all but recorder and overhead tracks."""
    recorder = set(_recorder_tracks(recording))
    return [
        row
        for row, track in enumerate(recording.tracks)
        if track.kind not in _NO_WORK and row not in recorder
    ]


def devices_table(recording: Recording, work: Activity) -> pl.DataFrame | Unavailable:
    """Return every accelerator that was listed or used, sorted by ordinal."""
    properties = pair_devices(recording)
    if not properties:
        absent = foreign_work(recording) or why_absent("kineto.none_listed")
        return or_lost(absent, recording.damaged_at)
    counts = dict(work.frame["device"].value_counts().iter_rows())
    rows = [
        {
            "device": device,
            "plane": f"/device:GPU:{device}",
            "type": "GPU",
            "name": listed.name or None,
            "vendor": recorded_vendor(recording, listed),
            "cc_major": listed.major,
            "cc_minor": listed.minor,
            "cores": listed.multiprocessors or None,
            "memory_bytes": listed.total_memory or None,
            "activities": counts.get(device, 0),
        }
        for device, listed in sorted(properties.items())
    ]
    return pl.DataFrame(rows, schema=DEVICES.dtypes())


def recorded_vendor(recording: Recording, properties: DeviceProperties) -> str | None:
    """Derive a device's vendor from the file's version fields, else from its name."""
    fields = recording.document.fields
    if any(name.startswith(("hip_", "roctracer_", "rocprof")) for name in fields):
        return "AMD"
    if any(name.startswith(("cuda_", "cupti_")) for name in fields):
        return "Nvidia"
    name = properties.name or ""
    if _AMD.search(name) or properties.warp_size == _AMD_WARP:
        return "AMD"
    return "Nvidia" if _NVIDIA.search(name) else None


def _recorder_tracks(recording: Recording) -> list[int]:
    line = recording.timeline
    return [
        row
        for row in range(len(recording.tracks))
        if line.event_end[row] > line.event_begin[row]
        and line.kind[line.event_begin[row]] == EventClass.RECORDING
    ]
