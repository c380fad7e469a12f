"""Events in their final order: by track, then by start, longest event first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.formats.assemble import is_far_off, range_of_tracks, row_order
from stepscope.formats.nsight_systems.decoded.events import (
    EVENT_COLUMNS,
    Origin,
    Sense,
    row_changes,
)
from stepscope.frozen import Frozen
from stepscope.trace.tables import EVENT_TYPES
from stepscope.units import PS_PER_NS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stepscope.array_types import Int32s, Int64s
    from stepscope.formats.nsight_systems.decoded.events import Names

#: Kind of event → section of its track, in this order: threads, streams, waits, memory,
#: overlapping ranges, intervals without a core, overhead, counters, samples of threads.
SECTIONS: Final = {
    Origin.CALL: 0,
    Origin.RANGE: 0,
    Origin.SYSTEM_CALL: 0,
    Origin.WORK: 1,
    Origin.SYNC: 2,
    Origin.MEMORY: 3,
    Origin.SPAN: 4,
    Origin.OFF_CORE: 5,
    Origin.OVERHEAD: 6,
    Origin.COUNTER: 7,
    Origin.SAMPLE: 8,
}
#: Sections of tracks on devices.
_ON_DEVICE: Final = range(1, 4)
TRACK_KEY: Final = ("section", "process", "device", "id")
#: Column that a frame of events may lack → its default value.
_FILL: Final = {"dur": 0, "process": None, "device": None, "said": Sense.NEITHER.value}
#: Recorded meaning of a name → values of `op` and `annotation` in `event_types`.
_FLAGS_OF_MEANING: Final = {
    Sense.NEITHER: (False, False),
    Sense.OP: (True, False),
    Sense.ANNOTATION: (False, True),
    Sense.NOTHING: (None, None),
}


class Timeline(Frozen, frozen=True, kw_only=True, eq=True):
    """The events of all tracks, in the final order of rows.

    Attributes:
        tracks: One row per track: `TRACK_KEY`, `event_begin` and `event_end`.
        rows: Kind of event → indices of its events in row order, and their rows.
        base_ns: Time 0 on the clock of the file, in ns.
        far: Number of events left out because they are weeks away from other events.
    """

    events: pl.DataFrame
    event_types: pl.DataFrame
    tracks: pl.DataFrame
    rows: dict[Origin, tuple[Int64s, Int32s]]
    base_ns: int
    far: int

    def time_range(self, tracks: Sequence[int]) -> tuple[int, int] | None:
        """Return first start and last end of events on tracks; None if none exist."""
        begin = self.tracks["event_begin"].to_list()
        end = self.tracks["event_end"].to_list()
        start_ps = self.events["start_ps"].to_numpy()
        dur_ps = self.events["dur_ps"].to_numpy()
        rows = ((begin[track], end[track]) for track in tracks)
        return range_of_tracks(start_ps, dur_ps, rows)


def build_timeline(
    parts: Mapping[Origin, pl.DataFrame], names: Names, *, main: int | None
) -> Timeline:
    """Order all events; leave out events with impossible times.

    Args:
        parts: Kind of event → its rows.
        main: The process whose threads are the first tracks.
    """
    events = pl.concat(
        [
            part.select(
                *(
                    pl.col(name).cast(dtype)
                    if name in part.columns
                    else pl.lit(_FILL[name], dtype).alias(name)
                    for name, dtype in EVENT_COLUMNS.items()
                ),
                origin=pl.lit(origin.value, pl.UInt8),
                section=pl.lit(SECTIONS[origin], pl.UInt8),
                place=pl.int_range(pl.len(), dtype=pl.Int64),
            )
            for origin, part in sorted(parts.items())
        ],
        # Contiguous columns are faster, because each is read several times below.
        rechunk=True,
    )
    count = events.height
    # Frames have a row for every event, so free them early to save memory.
    is_far = is_far_off(events["start"].to_numpy(), events["dur"].to_numpy())
    events = events.filter(pl.Series(~is_far)) if is_far.any() else events
    far_count = count - events.height
    base = int(events["start"].min() or 0) if events.height else 0  # type: ignore[arg-type]
    tracks, track = _sort_tracks(events, main)
    columns = ("start", "dur", "origin", "place", "name", "said")
    events = events.select(*columns, track=track)
    start, dur = (events[name].to_numpy() for name in ("start", "dur"))
    ordered = events[row_order(track, start, dur)]
    del events
    types, of_type = _number_types(ordered, names)
    counts = np.bincount(ordered["track"].to_numpy(), minlength=tracks.height)
    ends = np.cumsum(counts)
    origins, index = (ordered[name].to_numpy() for name in ("origin", "place"))
    rows = {origin: np.flatnonzero(origins == origin.value) for origin in parts}
    return Timeline(
        events=ordered.select(
            "track",
            of_type.alias("type"),
            start_ps=(pl.col("start") - base) * PS_PER_NS,
            dur_ps=pl.col("dur") * PS_PER_NS,
        ),
        event_types=types,
        tracks=tracks.with_columns(
            event_begin=pl.Series(ends - counts, dtype=pl.Int64),
            event_end=pl.Series(ends, dtype=pl.Int64),
        ),
        rows={
            origin: (index[part], part.astype(np.int32))
            for origin, part in rows.items()
        },
        base_ns=base,
        far=far_count,
    )


def _sort_tracks(events: pl.DataFrame, main: int | None) -> tuple[pl.DataFrame, Int32s]:
    # If there is no main process, all processes count as foreign.
    foreign = (pl.col("process") != pl.lit(main, pl.Int64)).fill_null(value=True)
    # Group consecutive events of one track; a group starts at its earliest event.
    begins = np.flatnonzero(
        events.select(row_changes(TRACK_KEY)).to_series().to_numpy()
    )
    runs = events.select(TRACK_KEY)[begins].with_columns(
        start=np.minimum.reduceat(events["start"].to_numpy(), begins)
        if len(begins)
        else pl.lit(None, pl.Int64),
        run=pl.int_range(pl.len()),
    )
    lengths = np.diff(begins, append=events.height)
    tracks = (
        runs.group_by(TRACK_KEY, maintain_order=True)
        .agg("run", first=pl.col("start").min())
        .with_columns(
            # Streams, waits and memory of one device are adjacent.
            order=pl.when(pl.col("section").is_in(list(_ON_DEVICE)))
            .then(_ON_DEVICE.start)
            .otherwise("section")
        )
        .sort(
            "order",
            pl.when(pl.col("section") == 0).then(foreign),
            "device",
            "section",
            pl.when(pl.col("section") == 0).then("process"),
            pl.when(pl.col("section") == 0).then("first"),
            "id",
            "process",
        )
        .drop("first", "order")
        .with_row_index("track")
    )
    track_of_run = np.empty(runs.height, np.int32)
    track_of_run[tracks["run"].explode().to_numpy()] = np.repeat(
        np.arange(tracks.height, dtype=np.int32), tracks["run"].list.len().to_numpy()
    )
    return tracks.drop("run"), np.repeat(track_of_run, lengths)


def _number_types(events: pl.DataFrame, names: Names) -> tuple[pl.DataFrame, pl.Series]:
    codes = events.select(code=pl.col("name") * len(Sense) + pl.col("said")).to_series()
    first = codes.unique(maintain_order=True).to_numpy()
    type_of_code = np.zeros(len(names) * len(Sense), np.int32)
    type_of_code[first] = np.arange(len(first))
    distinct = [(code // len(Sense), code % len(Sense)) for code in first.tolist()]
    texts, unknown = names.texts(), names.unknown()
    meanings = [_FLAGS_OF_MEANING[Sense(code)] for _, code in distinct]
    types = pl.DataFrame(
        {
            "name": [texts[number] for number, _ in distinct],
            "display_name": [None] * len(distinct),
            "known": [number not in unknown for number, _ in distinct],
            "op": [op for op, _ in meanings],
            "annotation": [annotation for _, annotation in meanings],
        },
        schema=EVENT_TYPES.dtypes(),
    )
    return types, pl.Series("type", type_of_code[codes.to_numpy()])
