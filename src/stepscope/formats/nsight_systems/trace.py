"""Read a database into the tables of a trace, and group the databases of one session.

Only `nsys` can read its reports (`.nsys-rep`, `.qdrep`); it exports them to databases.
"""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np

from stepscope.errors import BadInput
from stepscope.formats.assemble import (
    assemble_trace,
    compute_once,
    only_file,
    tracks_frame,
)
from stepscope.formats.declared_texts import why_absent
from stepscope.formats.nsight_systems.database.rows import read_export, read_tables
from stepscope.formats.nsight_systems.decoded.recording import Recording
from stepscope.formats.nsight_systems.tables.device_activity import (
    collect_activity,
    why_no_activity,
    why_unused,
)
from stepscope.formats.nsight_systems.tables.environment import (
    devices_table,
    environment_table,
)
from stepscope.formats.nsight_systems.tables.host import (
    allocations_table,
    collect_arguments,
    iterators_table,
    launches_table,
)
from stepscope.formats.nsight_systems.tables.quality import quality_table
from stepscope.formats.vendor_tool import run_vendor_tool
from stepscope.formats.workers import grouped_by_name, grouped_by_time
from stepscope.nvidia import find_tool

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from stepscope.formats.nsight_systems.database.rows import Export
    from stepscope.rundir import HostFiles
    from stepscope.trace.model import TraceData

#: Maximum duration of `nsys` for one report, in seconds; large reports take long.
_TIMEOUT_S: Final = 1800
_SESSION: Final = "TARGET_INFO_SESSION_START_TIME"
_ANALYSIS: Final = "ANALYSIS_DETAILS"
_PACKED: Final = ".gz"


def export_report(path: Path, limit_bytes: int) -> Export:
    """Export a report to a database with the local `nsys`, and read the database.

    The database is in a temporary folder; no file is left next to the report.

    Args:
        limit_bytes: Maximum size of a decompressed file, in bytes.

    Raises:
        BadInput: This machine has no `nsys`, or `nsys` cannot read the report.
    """
    tool = find_tool("nsys")
    if tool is None:
        raise BadInput.at(
            path,
            "an Nsight Systems report, which only `nsys` can read; this machine has no "
            "`nsys`",
            f"Elsewhere, run `nsys export --type sqlite {path}`, and give the "
            "database.",
        )
    with tempfile.TemporaryDirectory(prefix="stepscope-") as folder:
        database = Path(folder, "report.sqlite")
        report = str(path.resolve())
        run_vendor_tool(
            [tool, "export", "--type=sqlite", f"--output={database}", report],
            path,
            product="Nsight Systems",
            longest_s=_TIMEOUT_S,
            by_hand=f"`{tool} export --type sqlite {report}`, and give the database.",
            output_file=database,
        )
        return msgspec.structs.replace(read_export(database, limit_bytes), path=path)


def recorded_together(files: Sequence[Path]) -> list[tuple[Path, ...]]:
    """Group databases whose sessions overlap, or whose names differ only in the rank.

    Compressed databases are grouped by their names, without decompression.
    """
    recorded = {
        file: span
        for file in files
        if file.suffix != _PACKED and (span := _session_ns(file)) is not None
    }
    other_files = [file for file in files if file not in recorded]
    return [*grouped_by_time(recorded), *grouped_by_name(other_files)]


def _session_ns(file: Path) -> tuple[int, int] | None:
    try:
        frames = read_tables(file, (_SESSION, _ANALYSIS))
    except BadInput:
        return None
    session, analysis = (frames.get(name) for name in (_SESSION, _ANALYSIS))
    if session is None or analysis is None or not len(session) or not len(analysis):
        return None
    start, duration = session["utcEpochNs"][0], analysis["duration"][0]
    return None if start is None or duration is None else (start, start + duration)


def read(source: HostFiles) -> TraceData:
    """Read the database of one report; raise `BadInput` if nothing can be read."""
    return _read_database(source, read_export)


def read_report(source: HostFiles) -> TraceData:
    """Read a report, which the local `nsys` exports to a database.

    Raises:
        BadInput: This machine has no `nsys`, or `nsys` cannot read the report.
    """
    return _read_database(source, export_report)


def _read_database(source: HostFiles, read: Callable[[Path, int], Export]) -> TraceData:
    path = only_file(source, "database")
    recording = Recording(partial(read, path, source.limit_bytes))
    activity = compute_once(partial(collect_activity, recording))
    arguments = collect_arguments(recording)
    line = recording.timeline
    return assemble_trace(
        source.host,
        {
            "tracks": lambda: tracks_frame(
                recording.tracks, line.tracks["event_begin"], line.tracks["event_end"]
            ),
            "events": lambda: line.events,
            "event_types": lambda: line.event_types,
            "stats": lambda: arguments.frame,
            "launches": lambda: (
                why_unused(recording, activity()) or launches_table(recording)
            ),
            "allocations": lambda: allocations_table(recording),
            "iterators": lambda: iterators_table(recording),
            "parameters": why_absent("nsight.no_parameters"),
            "hlo_ops": why_absent("nsight.no_hlo"),
            "devices": lambda: devices_table(recording, activity()),
            "environment": lambda: environment_table(recording),
            "quality": lambda: quality_table(recording, activity()),
        },
        work=activity,
        why_no_work=lambda: why_no_activity(recording, activity()),
        no_geometries=why_absent("nsight.no_geometries"),
        strings=arguments.strings,
        # Empty: texts of this format are interned, not read at offsets of the file.
        data=np.zeros(0, np.uint8),
        recorder="nsight",
    )
