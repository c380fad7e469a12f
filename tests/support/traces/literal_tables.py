"""Tables of a few literal rows, for derivations that need no whole recording.

Times are picoseconds. A track and an event type are numbers; what their names mean is
given, not derived from texts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from stepscope.derive.device.correlation import Correlation
from stepscope.derive.names.event_kinds import (
    EventFlag,
    EventKinds,
    HostClass,
    OpCategory,
)
from stepscope.derive.steps.candidates import STEP_ROWS
from stepscope.derive.steps.chosen import Steps
from stepscope.derive.steps.stored import STORED_STEPS
from stepscope.trace.tables import DEVICE_ACTIVITY, LAUNCHES, TABLES, TRACKS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: (track, type, start, duration)
Event = tuple[int, int, int, int]
#: (track, device, kind, type, start, duration)
Activity = tuple[int, int, str, int, int, int]


def tables_of(
    lines: Sequence[Event], tracks: Sequence[Mapping[str, Any] | str]
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Tracks and events; a track is a host thread's name, or the columns to set."""
    ordered = sorted(lines, key=lambda line: (line[0], line[2], -line[3]))
    events = pl.DataFrame(ordered, schema=TABLES["events"].dtypes(), orient="row")
    of_track = [line[0] for line in ordered]
    rows = []
    for number, track in enumerate(tracks):
        given = {"name": track} if isinstance(track, str) else dict(track)
        begin = sum(each < number for each in of_track)
        rows.append(
            {
                "plane": "p",
                "name": f"t{number}",
                "kind": "thread",
                "id": number,
                "derived": None,
                "device": None,
                "process": None,
                "event_begin": begin,
                "event_end": begin + of_track.count(number),
                **given,
            }
        )
    return pl.DataFrame(rows, schema=TRACKS.dtypes()), events


def types_of(names: Sequence[str]) -> pl.DataFrame:
    """Event types of these names."""
    return pl.DataFrame({"name": list(names)}).with_columns(known=pl.lit(value=True))


def kinds_of(
    count: int,
    *,
    classes: Mapping[int, HostClass] | None = None,
    flags: Mapping[int, EventFlag] | None = None,
    ops: Sequence[int] = (),
) -> EventKinds:
    """What the names of so many event types mean."""
    category = np.full(count, OpCategory.UNKNOWN, np.uint8)
    category[list(ops)] = OpCategory.OTHER
    host_class = np.zeros(count, np.uint8)
    host_class[list(ops)] = HostClass.OP
    for type_, of_class in (classes or {}).items():
        host_class[type_] = of_class
    bits = np.zeros(count, np.uint32)
    for type_, flag in (flags or {}).items():
        bits[type_] = int(flag)
    names = pl.Series(
        [f"op{type_}" if type_ in ops else None for type_ in range(count)]
    )
    return EventKinds(
        category, names.cast(pl.String), names.cast(pl.String), host_class, bits
    )


def activity_of(rows: Sequence[Activity], **columns: Sequence[Any]) -> pl.DataFrame:
    """Device activity, by track and start, with further columns by row as given."""
    schema = DEVICE_ACTIVITY.dtypes()
    frame = pl.DataFrame(
        rows,
        schema=["track", "device", "kind", "type", "start_ps", "dur_ps"],
        orient="row",
    )
    given = {"stream": frame["track"].to_list(), **columns}
    return pl.DataFrame(
        {
            name: frame[name]
            if name in frame.columns
            else given.get(name, [None] * len(rows))
            for name in schema
        },
        schema=schema,
    )


def correlation_of(
    activity: pl.DataFrame, launches: Sequence[Event], launch_of: Sequence[int]
) -> Correlation:
    """Launch calls by row of launches, and which of them started which activity."""
    rows = [
        {"event": row, "track": track, "type": type_, "start_ps": start, "dur_ps": dur}
        | {"correlation": row + 1}
        for row, (track, type_, start, dur) in enumerate(launches)
    ]
    of = np.array(launch_of, np.int32)
    count = np.bincount(of[of >= 0], minlength=len(launches)).astype(np.int32)
    nothing = np.zeros(len(of), np.int64)
    return Correlation(
        activity,
        pl.DataFrame(rows, schema=LAUNCHES.dtypes()),
        of,
        count,
        nothing.astype(np.bool_),
        nothing,
        (),
    )


def steps_of(
    starts: Sequence[int],
    *,
    source: str = "marker",
    on_device: bool = False,
    last_end_ps: int | None = None,
    stored: pl.DataFrame | None = None,
    **columns: Sequence[Any],
) -> Steps:
    """Steps that begin at these times, with the other columns as given."""
    count = len(starts)
    given = {
        "step": range(count),
        "cut": [False] * count,
        "start_ps": starts,
        **columns,
    }
    rows = pl.DataFrame(
        {name: list(given.get(name, [None] * count)) for name in STEP_ROWS},
        schema=STEP_ROWS,
    )
    return Steps(
        rows=rows,
        source=source,
        confidence=1.0,
        on_device=on_device,
        last_end_ps=last_end_ps,
        candidates=(),
        stored=pl.DataFrame(schema=STORED_STEPS) if stored is None else stored,
    )


def stored_of(rows: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """Spans of stored lines of steps."""
    return pl.DataFrame(list(rows), schema=STORED_STEPS)
