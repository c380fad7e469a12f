"""Build the table of device activity: kernels, collectives, copies and memsets.

On a GPU stream, every event is one activity; its kind follows from its details and
name, not from its line. On a TPU, ops are nested in one line: only the innermost ops
are activities, so that no time counts twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.formats.assemble import DeviceTables, as_declared
from stepscope.formats.xplane.decoded.columns import distinct_handles, handle_series
from stepscope.formats.xplane.decoded.shown_texts import (
    ANNOTATION,
    outermost_annotation,
)
from stepscope.formats.xplane.decoded.tracks import line_types
from stepscope.formats.xplane.tables.activity_rows import COPY, gather_rows, no_handles
from stepscope.formats.xplane.tables.details import CopyTable, number_geometries
from stepscope.formats.xplane.tables.programs import program_modules
from stepscope.trace.reading.activity_names import (
    NOT_ACTIVITY,
    SOME_COPY,
    is_collective_category,
    is_collective_op,
    kind_of_line_type,
    kind_of_name,
    kind_of_wait,
)
from stepscope.trace.reading.by_row import values_by_row
from stepscope.trace.reading.nullable import nullable_series
from stepscope.trace.tables import ACTIVITY_KINDS, DEVICE_ACTIVITY

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.array_types import Int32s, Int64s, UInt8s
    from stepscope.formats.xplane.decoded.recording import Recording
    from stepscope.formats.xplane.tables.activity_rows import ActivityRows
    from stepscope.formats.xplane.tables.programs import ProgramRuns

_CODES: Final = {
    **{kind: code for code, kind in enumerate(ACTIVITY_KINDS.categories)},
    SOME_COPY: 254,
    NOT_ACTIVITY: 255,
}
_KERNEL: Final = _CODES["kernel"]
_NONE: Final = _CODES[NOT_ACTIVITY]


class Activity(DeviceTables, frozen=True, kw_only=True, eq=True):
    """Tables of device activity, with the range of rows of each track."""

    by_track: dict[int, tuple[int, int]]


def collect_activity(recording: Recording, runs: ProgramRuns) -> Activity:
    """Collect the activity of all devices of a file, track by track."""
    rows = gather_rows(recording)
    if not recording.activity_tracks or not len(rows.event):
        return _no_activity(recording)
    code = _kind_codes(recording, rows)
    ops = _op_handles(recording, rows)
    _mark_collectives(rows, code, ops)
    _mark_waits(recording, rows, code)
    copies = CopyTable(rows.handles.get(COPY), rows.texts.strings)
    devices = [recording.tracks[row].role.device for row in recording.activity_tracks]
    # Per track: the code of the only copy kind that its name shows, or of `SOME_COPY`.
    codes = []
    for number in recording.activity_tracks:
        names = line_types(recording.tracks[number].name)
        kinds = {kind_of_line_type(word) for word in names} - {"kernel", NOT_ACTIVITY}
        only = kinds.pop() if len(kinds) == 1 else None
        codes.append(_CODES[only or SOME_COPY])
    undirected = copies.resolve(
        code,
        codes=_CODES,
        track=rows.position,
        device=np.array(devices, dtype=np.int64),
        fallback=np.array(codes, dtype=np.uint8),
    )
    details = rows.handles.get("kernel_details")
    geometry, geometries, refused = number_geometries(
        no_handles(len(code)) if details is None else details,
        rows.occupancy,
        rows.texts.strings,
    )
    is_activity = code != _NONE
    if not is_activity.any():
        return _no_activity(recording)
    # Usually all rows are kept; a slice then avoids copying the columns.
    chosen = slice(None) if is_activity.all() else np.flatnonzero(is_activity)
    kind_names = pl.Series("kind", ACTIVITY_KINDS.categories, dtype=ACTIVITY_KINDS)
    columns = {
        "kind": kind_names.gather(pl.Series(code[chosen])),
        "geometry": handle_series("geometry", geometry[chosen]),
        "op": handle_series("op", ops[chosen]),
    }
    sizes = copies.sizes()
    if sizes is not None:
        size, known = sizes
        columns["bytes"] = nullable_series("bytes", size[chosen], known[chosen])
    frame = _activity_frame(recording, rows, chosen, columns, runs)
    numbers = np.arange(len(recording.activity_tracks), dtype=np.int32)
    begins = np.searchsorted(rows.position[chosen], numbers, side="left").tolist()
    ends = np.searchsorted(rows.position[chosen], numbers, side="right").tolist()
    return Activity(
        frame=frame,
        geometries=geometries,
        refused=refused,
        undirected=undirected,
        by_track={
            track: (begins[index], ends[index])
            for index, track in enumerate(recording.activity_tracks)
        },
    )


def _kind_codes(recording: Recording, rows: ActivityRows) -> UInt8s:
    types = values_by_row(recording.timeline.type, rows.event)
    used = np.zeros(len(recording.type_names), dtype=np.bool_)
    used[types] = True
    plain = np.full(len(used), _KERNEL, dtype=np.uint8)
    launched = plain.copy()
    # Several planes have the same names, so each name is classified once.
    known: dict[str, tuple[int, int]] = {}
    for number in np.flatnonzero(used).tolist():
        name = recording.type_names[number]
        if name not in known:
            kinds = kind_of_name(name), kind_of_name(name, launched=True)
            known[name] = _CODES[kinds[0]], _CODES[kinds[1]]
        plain[number], launched[number] = known[name]
    code = values_by_row(plain, types)
    details = rows.handles.get("kernel_details")
    if details is not None and not np.array_equal(plain, launched):
        code = np.where(details >= 0, values_by_row(launched, types), code)
    if rows.passive is not None:
        code[rows.passive] = _NONE
    # Leave out streams with only allocations or overhead, and ops that enclose ops.
    first_row = 0
    for number in recording.activity_tracks:
        track = recording.tracks[number]
        ((begin, end),) = recording.ranges([number])
        track_rows = slice(first_row, first_row + end - begin)
        first_row = track_rows.stop
        names = line_types(track.name)
        if names and all(kind_of_line_type(word) == NOT_ACTIVITY for word in names):
            code[track_rows] = _NONE
        if track.kind == "core":
            # An event that encloses another event with a duration is not an activity.
            line = recording.timeline
            leaves = np.ones(end - begin, dtype=np.bool_)
            # An instant inside an op does not split the op.
            lasting = np.flatnonzero(line.dur_ps[begin:end] > 0)
            start = line.start_ps[begin:end][lasting]
            stop = start + line.dur_ps[begin:end][lasting]
            holds = (start[1:] < stop[:-1]) & (stop[1:] <= stop[:-1])
            leaves[lasting[:-1][holds]] = False
            code[track_rows] = np.where(leaves, _KERNEL, _NONE)
    return code


def _op_handles(recording: Recording, rows: ActivityRows) -> Int32s:
    """Return the handle of the framework op of each event, or -1.

    The outermost annotation of a stack is the op. Older producers record each level of
    the stack in a separate stat. Other files store the stack as one text.
    """
    ops: Int32s | None = None
    for key in ("tf_op", "level 0", ANNOTATION):
        column = rows.handles.get(key)
        if column is None:
            continue
        lacking = None if ops is None else np.flatnonzero(ops < 0)
        if lacking is not None and not len(lacking):
            break
        texts = column if lacking is None else column[lacking]
        if key == ANNOTATION:
            # Handles of the first level of annotations; each distinct text is cut once.
            distinct = distinct_handles(texts, len(rows.texts.strings)).tolist()
            cut_handles = no_handles(len(rows.texts.strings) + 1)
            cut_handles[distinct] = [
                recording.handle(outermost_annotation(rows.texts.strings[text]))
                for text in distinct
            ]
            texts = cut_handles[texts]
        texts = _without_unknown(recording, texts)
        if ops is None or lacking is None:
            # Change the gathered column in place, because nothing else reads it.
            ops = texts
        else:
            ops[lacking] = texts
    return no_handles(len(rows.event)) if ops is None else ops


def _mark_collectives(rows: ActivityRows, code: UInt8s, ops: Int32s) -> None:
    """Mark kernels of a collective op or HLO category as collectives."""
    for handles, is_collective in (
        (ops, is_collective_op),
        (rows.handles.get("hlo_category"), is_collective_category),
    ):
        if handles is None:
            continue
        strings = rows.texts.strings
        wanted = np.zeros(len(strings), dtype=np.bool_)
        for handle in distinct_handles(handles, len(strings)).tolist():
            wanted[handle] = is_collective(strings[handle])
        if wanted.any():
            is_marked = values_by_row(wanted, handles, none=False)
            code[is_marked & (code == _KERNEL)] = _CODES["collective"]


def _mark_waits(recording: Recording, rows: ActivityRows, code: UInt8s) -> None:
    """Mark ends of asynchronous work as waits, but of collectives as collectives."""
    named = [rows.handles.get(key) for key in ("hlo_category", "hlo_op")]
    if any(recording.tracks[row].kind == "core" for row in recording.activity_tracks):
        types = recording.timeline.type[rows.event]
        named.append(recording.space.event_types.display_name[types])
    strings = rows.texts.strings
    for handles in named:
        if handles is None:
            continue
        kinds = np.full(len(strings) + 1, _KERNEL, dtype=np.uint8)
        for handle in distinct_handles(handles, len(strings)).tolist():
            kind = kind_of_wait(strings[handle])
            kinds[handle] = _KERNEL if kind is None else _CODES[kind]
        if (kinds != _KERNEL).any():
            np.copyto(code, kinds[handles], where=code == _KERNEL)


def _activity_frame(
    recording: Recording,
    rows: ActivityRows,
    chosen: slice | Int64s,
    columns: dict[str, pl.Series],
    runs: ProgramRuns,
) -> pl.DataFrame:
    event, position = rows.event[chosen], rows.position[chosen]
    event_rows: slice | Int32s = event
    if int(event[-1]) - int(event[0]) + 1 == len(event):
        # The rows are contiguous, so their columns can be sliced without copying.
        event_rows = slice(int(event[0]), int(event[-1]) + 1)
    line = recording.timeline
    tracks = np.array(recording.activity_tracks, dtype=np.int32)
    roles = [recording.tracks[track].role for track in tracks]
    ids = [recording.tracks[track].id for track in tracks]
    values: dict[str, pl.Series | NDArray[np.generic]] = {
        "event": event,
        "track": values_by_row(tracks, position),
        "device": values_by_row(
            np.array([role.device for role in roles], np.int32), position
        ),
        "stream": values_by_row(np.array(ids, np.int64), position),
        "type": line.type[event_rows],
        "start_ps": line.start_ps[event_rows],
        "dur_ps": line.dur_ps[event_rows],
        **columns,
        **_name_columns(recording, rows, chosen),
    }
    if any(role.process is not None for role in roles):
        process = pl.Series("process", [role.process for role in roles], dtype=pl.Int64)
        values["process"] = process.gather(position)
    for column, key in (
        ("correlation", "correlation_id"),
        ("program", "program_id"),
        ("group", "group_id"),
    ):
        if key in rows.numbers:
            number, present = rows.numbers[key]
            values[column] = nullable_series(column, number[chosen], present[chosen])
    if "correlation" not in values and len(runs.call):
        run = np.full(len(rows.event), -1)
        all_starts_ps = line.start_ps[rows.event]
        for place, row in enumerate(recording.activity_tracks):
            track = recording.tracks[row]
            if track.kind == "core" and track.device is not None:
                on_track = rows.position == place
                run[on_track] = runs.at(track.device, all_starts_ps[on_track])
        run = run[chosen]
        values["correlation"] = nullable_series("correlation", run, run >= 0)
    return as_declared(pl.DataFrame(values), DEVICE_ACTIVITY.dtypes())


def _name_columns(
    recording: Recording, rows: ActivityRows, chosen: slice | Int64s
) -> dict[str, pl.Series]:
    """Return the columns of names; on TPU cores, some are those of event types."""
    names = {
        key: _without_unknown(recording, rows.handles[key])
        for key in ("hlo_op", "hlo_module", "shape", "equation")
        if key in rows.handles
    }
    kinds = [recording.tracks[track].kind for track in recording.activity_tracks]
    on_core = values_by_row(np.array([kind == "core" for kind in kinds]), rows.position)
    if on_core.any():
        types = recording.timeline.type[rows.event]
        none = no_handles(len(types))
        shown = recording.space.event_types.display_name[types]
        own = names.get("hlo_op", none)
        names["hlo_op"] = np.where(on_core & (own < 0), shown, own)
        module = names.get("hlo_module", none)
        programs = rows.numbers.get("program_id")
        if programs is not None:
            of_program = program_modules(recording, *programs)
            names["hlo_module"] = np.where(on_core & (module < 0), of_program, module)
    return {key: handle_series(key, handles[chosen]) for key, handles in names.items()}


def _without_unknown(recording: Recording, handles: Int32s) -> Int32s:
    """Return the handles, with -1 for texts that mean "unknown"."""
    distinct = distinct_handles(handles, len(recording.strings))
    if not np.isin(recording.no_text, distinct).any():
        return handles
    same = np.arange(len(recording.strings) + 1, dtype=np.int32)
    same[recording.no_text] = -1
    same[-1] = -1
    return same[handles]


def _no_activity(recording: Recording) -> Activity:
    rows = dict.fromkeys(recording.activity_tracks, (0, 0))
    _, geometries, _ = number_geometries(no_handles(0), None, [])
    frame = pl.DataFrame(schema=DEVICE_ACTIVITY.dtypes())
    return Activity(
        frame=frame, geometries=geometries, refused={}, undirected=0, by_track=rows
    )
