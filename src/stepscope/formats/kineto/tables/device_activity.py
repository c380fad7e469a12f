"""Build the table of device activity: kernels, collectives, copies and memsets.

The direction of a copy follows from its name, else from its arguments. Launch shapes
beyond the maximum of the hardware are refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.formats.assemble import DeviceTables, as_declared
from stepscope.formats.kineto.columns.categories import EventClass
from stepscope.formats.launch_shapes import number_shapes
from stepscope.patterns import Pattern
from stepscope.trace.reading.activity_names import (
    NOT_ACTIVITY,
    SOME_COPY,
    copy_kind,
    kind_of_name,
)
from stepscope.trace.reading.nullable import nullable_series
from stepscope.trace.tables import ACTIVITY_KINDS, DEVICE_ACTIVITY, GEOMETRIES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.array_types import Int32s, Int64s, UInt8s
    from stepscope.formats.kineto.decoded.recording import Recording

#: Matches source and destination memory of a copy: `Memcpy HtoD (Pageable -> Device)`.
_SIDES: Final = Pattern(r"\((?P<source>\w+) -> (?P<destination>\w+)\)")
#: Directions that ROCm's tracer writes in `kind`: `DtoH`, `HostToDevice`, `PtoP`.
_ROCM_DIRECTIONS: Final = Pattern(
    r"(?:hip)?(?:mem)?(?:copy|cpy)?(?P<source>h|d|p|host|device|peer)(?:to|2)"
    r"(?P<destination>h|d|p|host|device|peer)\Z"
)
_KINDS: Final = {kind: code for code, kind in enumerate(ACTIVITY_KINDS.categories)}
_NONE: Final = 255


def kind_of_copy(name: str, kind_text: str | None) -> str | None:
    """Return a copy's kind: `NOT_ACTIVITY` within the host, None if unknown.

    Args:
        name: Name of the event.
        kind_text: Argument `kind` of the event, or None.
    """
    by_name: str | None = kind_of_name(name)
    if by_name not in (SOME_COPY, "kernel", "collective"):
        return by_name
    sides = _SIDES.search(name)
    by_sides = copy_kind(sides["source"], sides["destination"]) if sides else None
    return by_sides or _copy_kind_in_text(kind_text or "") or _copy_kind_in_text(name)


def _copy_kind_in_text(text: str) -> str | None:
    match = _ROCM_DIRECTIONS.match(text.replace(" ", "").replace("_", "").lower())
    if match is None:
        return None
    sides = match["source"][0], match["destination"][0]
    if "p" in sides:
        return "p2p_copy"
    return {
        ("h", "d"): "h2d",
        ("d", "h"): "d2h",
        ("d", "d"): "local_copy",
        ("h", "h"): NOT_ACTIVITY,
    }[sides]


class Activity(DeviceTables, frozen=True, kw_only=True, eq=True):
    """Tables of device activity, with the number of activities without a launch call.

    Attributes:
        unmatched: Number of activities whose launch call is not in the file.
    """

    unmatched: int


def collect_activity(recording: Recording) -> Activity:
    """Collect the activity of all devices of a file, in the order of `events`."""
    recorded = recording.columns.activity
    if not len(recorded.place):
        return Activity(
            frame=pl.DataFrame(schema=DEVICE_ACTIVITY.dtypes()),
            geometries=pl.DataFrame(schema=GEOMETRIES.dtypes()),
            refused={},
            undirected=0,
            unmatched=0,
        )
    row = recording.timeline.row[recorded.place]
    kind, undirected = _activity_kinds(recording)
    entries = np.flatnonzero((row >= 0) & (kind != _NONE))
    entries = entries[np.argsort(row[entries], kind="stable")]
    event, kind = row[entries], kind[entries]
    arguments = recorded.frame[entries]
    kernels = np.flatnonzero(np.isin(kind, (_KINDS["kernel"], _KINDS["collective"])))
    shapes = arguments[kernels].select(
        *(f"{of}_{axis}" for of in ("block", "grid") for axis in "xyz"),
        # AMD's tracer writes 0 for an unknown number of registers, or omits it.
        # PyTorch's occupancy is ignored: it is achieved, not theoretical, occupancy.
        registers=pl.col("registers").replace(0, None),
        shared_memory_bytes="shared",
    )
    launches = np.ones(len(kernels), np.int64)
    geometries, shape, refused = number_shapes(shapes, launches)
    geometry = np.full(len(entries), -1, np.int32)
    geometry[kernels] = shape
    frame = _activity_frame(recording, entries, event, kind, geometry)
    call = recording.links.call_of_activity[entries]
    return Activity(
        frame=frame,
        geometries=geometries,
        refused=refused,
        undirected=undirected,
        unmatched=int(np.count_nonzero(call < 0)),
    )


def _activity_kinds(recording: Recording) -> tuple[UInt8s, int]:
    columns = recording.columns
    place = columns.activity.place
    cls, name = columns.events.kind[place], columns.events.name[place]
    kind_texts = columns.activity.frame["kind"]
    keys = pl.DataFrame({"class": cls, "name": name, "words": kind_texts})
    distinct = keys.unique(maintain_order=True)
    codes, undirected = [], []
    # Classify once per distinct name, not once per activity.
    for of_class, number, kind_text in distinct.iter_rows():
        text = recording.names[number]
        kind: str | None
        if of_class == EventClass.KERNEL:
            kind = kind_of_name(text, launched=True)
            if kind == SOME_COPY:
                kind = kind_of_copy(text, kind_text)
        elif of_class == EventClass.FILL:
            kind = "memset"
        else:
            kind = kind_of_copy(text, kind_text)
        undirected.append(kind is None)
        codes.append(_NONE if kind == NOT_ACTIVITY else _KINDS[kind or "local_copy"])
    table = distinct.with_columns(
        code=pl.Series(codes, dtype=pl.UInt8),
        undirected=pl.Series(undirected, dtype=pl.Boolean),
    )
    kind_rows = keys.join(
        table,
        on=["class", "name", "words"],
        how="left",
        nulls_equal=True,
        maintain_order="left",
    )
    code: UInt8s = kind_rows["code"].to_numpy()
    return code, int(kind_rows["undirected"].sum())


def _activity_frame(
    recording: Recording, entries: Int64s, event: Int32s, kind: UInt8s, geometry: Int32s
) -> pl.DataFrame:
    line, tracks = recording.timeline, recording.tracks
    events = line.columns_at(event)
    arguments = recording.columns.activity.frame[entries]
    # Handles of the operator's name and of its operands' shapes, or -1.
    op = shape = recording.links.of_activity[entries]
    columns = recording.columns
    if len(columns.ops.place):
        has_op = op >= 0
        named = recording.texts.name[columns.events.name[columns.ops.place][op]]
        shaped = recording.texts.shape[columns.ops.shape[op]]
        op = np.where(has_op, named, np.int32(-1))
        shape = np.where(has_op, shaped, np.int32(-1))
    devices = pl.Series([row.device or 0 for row in tracks], dtype=pl.Int32)
    streams = pl.Series([row.id for row in tracks], dtype=pl.Int64)
    processes = pl.Series([row.process for row in tracks], dtype=pl.Int64)
    call = recording.links.call_of_activity[entries]
    place = np.append(recording.columns.calls.place, 0)[call]
    caller = np.where(call >= 0, recording.placement.track[place], -1)
    launched_from = processes.gather(nullable_series("track", caller, caller >= 0))
    main = recording.placement.main_process
    # Bytes of copies; a negative number becomes null.
    frame = arguments["bytes"].alias("bytes").to_frame()
    known = pl.when(pl.col("bytes") >= 0).then("bytes")
    values: dict[str, pl.Series | NDArray[np.generic]] = {
        **events,
        "device": devices.gather(events["track"]),
        "stream": streams.gather(events["track"]),
        "kind": pl.Series(ACTIVITY_KINDS.categories, dtype=ACTIVITY_KINDS).gather(
            pl.Series(kind)
        ),
        "correlation": arguments["correlation"],
        # Process of the launch call, or if unknown, the main process of the recording.
        "process": launched_from if main is None else launched_from.fill_null(main),
        "geometry": nullable_series("geometry", geometry, geometry >= 0),
        "bytes": frame.select(known.alias("bytes")).to_series(),
        "op": nullable_series("op", op, op >= 0),
        "shape": nullable_series("shape", shape, shape >= 0),
    }
    return as_declared(pl.DataFrame(values), DEVICE_ACTIVITY.dtypes())
