"""Read a host's XSpace files into the tables of a trace."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from stepscope.formats.assemble import (
    assemble_trace,
    columns_frame,
    compute_once,
    tracks_frame,
)
from stepscope.formats.declared_texts import why_absent
from stepscope.formats.xplane.decoded.recording import Recording
from stepscope.formats.xplane.tables.device_activity import collect_activity
from stepscope.formats.xplane.tables.environment import devices_table, environment_table
from stepscope.formats.xplane.tables.host import (
    allocations_table,
    iterators_table,
    launches_table,
)
from stepscope.formats.xplane.tables.missing_devices import why_no_activity, why_unused
from stepscope.formats.xplane.tables.programs import (
    parameters_table,
    program_runs,
    read_programs,
)
from stepscope.formats.xplane.tables.quality import quality_table
from stepscope.rundir import is_spool
from stepscope.trace.reading.nullable import nullable_series
from stepscope.trace.tables import EVENT_TYPES, STATS, TABLES, TYPE_STATS
from stepscope.xspace.reading.decode import decode_bytes, decode_file
from stepscope.xspace.reading.source import open_bytes
from stepscope.xspace.vocabulary import ANNOTATION_CATEGORY, CATEGORY, OP_CATEGORY

if TYPE_CHECKING:
    from stepscope.rundir import HostFiles
    from stepscope.trace.model import TraceData


def read(source: HostFiles) -> TraceData:
    """Read the profile of one host; several files are parts of one message.

    Raises:
        BadInput: Nothing can be read; the message names the problem and a remedy.
    """
    first, *other_paths = source.paths
    if not other_paths and is_spool(first.name):
        # Imported only for unfinished recordings, which are rare.
        from stepscope.formats.xplane.decoded.spool import read_spool  # noqa: PLC0415

        space = read_spool(first, limit_bytes=source.limit_bytes)
    elif not other_paths:
        space = decode_file(first, limit_bytes=source.limit_bytes, mapped=source.mapped)
    else:
        # Concatenated protobuf messages of one type are one message.
        parts = [
            open_bytes(path, limit_bytes=source.limit_bytes, mapped=source.mapped)[0]
            for path in source.paths
        ]
        name = " + ".join(str(path) for path in source.paths)
        space = decode_bytes(np.concatenate(parts).tobytes(), name)
        del parts
    return _trace_of_recording(Recording(source.host, source.paths, space))


def read_timeline(source: HostFiles) -> TraceData:
    """Read a host's JSON timeline; raise `BadInput` if nothing can be read."""
    # Imported only for JSON timelines, because it imports the profile writer.
    from stepscope.formats.xplane.trace_json import profile_message  # noqa: PLC0415

    space = decode_bytes(profile_message(source), str(source.paths[0]))
    return _trace_of_recording(Recording(source.host, source.paths, space))


def _trace_of_recording(recording: Recording) -> TraceData:
    runs = compute_once(partial(program_runs, recording))
    activity = compute_once(lambda: collect_activity(recording, runs()))
    calls = compute_once(
        lambda: why_unused(recording, activity()) or launches_table(recording, runs())
    )
    programs = compute_once(partial(read_programs, recording))
    line = recording.timeline
    return assemble_trace(
        recording.host,
        {
            "tracks": lambda: tracks_frame(
                recording.tracks, line.event_begin, line.event_end
            ),
            "events": lambda: columns_frame(line, TABLES["events"].dtypes()),
            "event_types": lambda: _event_types(recording),
            "aggregates": line.aggregates_table,
            "stats": lambda: columns_frame(recording.stats, STATS.dtypes()),
            "type_stats": lambda: columns_frame(
                recording.space.type_stats, TYPE_STATS.dtypes()
            ),
            "launches": calls,
            "allocations": lambda: allocations_table(recording),
            "iterators": lambda: iterators_table(recording),
            "parameters": lambda: parameters_table(recording),
            "hlo_ops": lambda: programs()[0],
            "devices": lambda: devices_table(recording, activity()),
            "environment": lambda: environment_table(recording),
            "quality": lambda: quality_table(
                recording, activity(), calls(), malformed_programs=programs()[1]
            ),
        },
        work=activity,
        why_no_work=lambda: why_no_activity(recording, activity()),
        no_geometries=why_absent("xplane.no_geometries"),
        strings=recording.strings,
        data=recording.space.data,
    )


def _event_types(recording: Recording) -> pl.DataFrame:
    types = recording.space.event_types
    return pl.DataFrame(
        {
            "name": pl.Series(recording.type_names.tolist(), dtype=pl.String),
            "display_name": recording.texts().series(
                "display_name", types.display_name
            ),
            "known": ~types.unknown,
            "op": _holds_category(recording, "op", OP_CATEGORY),
            "annotation": _holds_category(recording, "annotation", ANNOTATION_CATEGORY),
        },
        schema=EVENT_TYPES.dtypes(),
    )


def _holds_category(recording: Recording, name: str, category: str) -> pl.Series:
    texts = recording.texts()
    handles = texts.numbers(recording.type_values([CATEGORY])[CATEGORY])
    return nullable_series(name, handles == texts.find(category), handles >= 0)
