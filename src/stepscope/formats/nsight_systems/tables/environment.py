"""Build the tables `environment` (the capture) and `devices` (the hardware)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from stepscope.formats.assemble import environment_frame
from stepscope.formats.declared_texts import why_absent
from stepscope.trace.reading.texts import shorten_text
from stepscope.trace.tables import DEVICES
from stepscope.units import PS_PER_NS

if TYPE_CHECKING:
    from stepscope.formats.assemble import DeviceTables
    from stepscope.formats.nsight_systems.decoded.recording import Recording
    from stepscope.unavailable import Unavailable

FORMAT: Final = "Nsight Systems SQLite"
_MAX_NAME_CHARS: Final = 200
_COLUMNS: Final = {
    "cores": "smCount",
    "clock_hz": "clockRate",
    "memory_bandwidth": "memoryBandwidth",
    "memory_bytes": "totalMemory",
}


def environment_table(recording: Recording) -> pl.DataFrame:
    """Return the single row that describes the capture.

    The names of hosts and users in the database are never read.
    """
    session = recording.first("TARGET_INFO_SESSION_START_TIME", "utcEpochNs")
    duration = recording.first("ANALYSIS_DETAILS", "duration")
    start = None if session is None else session + recording.timeline.base_ns
    stop = None if session is None or duration is None else session + duration
    analysed = recording.timeline.time_range(
        [row for row, track in enumerate(recording.tracks) if track.kind != "overhead"]
    )
    fields = {
        "start_unix_ns": _in_64_bits(start),
        "stop_unix_ns": _in_64_bits(stop),
        "begin_ps": analysed and analysed[0],
        "end_ps": analysed and analysed[1],
    }
    return environment_frame([recording.export.path], FORMAT, fields)


def devices_table(
    recording: Recording, activity: DeviceTables
) -> pl.DataFrame | Unavailable:
    """Return every GPU that was listed or used, sorted by ordinal."""
    counts = dict(activity.frame["device"].value_counts().iter_rows())
    used = {track.device for track in recording.tracks if track.device is not None}
    listed = recording.gpus.listed
    if not used and not listed:
        return why_absent("nsight.none_listed")
    rows = []
    for device in sorted(used | listed.keys()):
        gpu = listed.get(device, {})
        name = gpu.get("name")
        major, minor = (
            _number_in_range(gpu.get(field), 2**10)
            for field in ("computeMajor", "computeMinor")
        )
        rows.append(
            {
                "device": device,
                "plane": f"/device:GPU:{device}",
                "type": "GPU",
                "name": shorten_text(name, _MAX_NAME_CHARS) if name else None,
                "vendor": "Nvidia",
                # A compute capability of 0 belongs to an adapter that cannot compute.
                "cc_major": major or None,
                "cc_minor": minor if major else None,
                **{
                    column: _number_in_range(
                        gpu.get(source), 2**31 if column == "cores" else 2**62
                    )
                    or None
                    for column, source in _COLUMNS.items()
                },
                "activities": counts.get(device, 0),
            }
        )
    return pl.DataFrame(rows, schema=DEVICES.dtypes())


def _number_in_range(value: int | None, end: int) -> int | None:
    return value if value is not None and 0 <= value < end else None


def _in_64_bits(ns: int | None) -> int | None:
    return ns if ns is not None and 0 < ns < 2**63 // PS_PER_NS * PS_PER_NS else None
