"""Sections and tracks of the timeline, in the order in which a viewer shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl
from msgspec.structs import replace

from stepscope._core import rows as kernels
from stepscope.derive.columns.arrays import (
    TRACK_CODES,
    accepted_answer,
    codes,
    handles,
    ints,
)
from stepscope.derive.intervals.nesting import NESTED_KINDS
from stepscope.derive.trace_rows.op_spans import OP_VIEWS
from stepscope.frozen import Frozen
from stepscope.trace.reading.by_row import values_by_row
from stepscope.unavailable import Unavailable
from stepscope.xspace.samples_line import CORE_TIME_BASE, SamplesLine

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.array_types import Bools, Int32s, Int64s
    from stepscope.derive.intervals.nesting import Nesting
    from stepscope.derive.trace_rows.step_lines import DerivedLine

#: Columns of the frame of sections.
SECTIONS: Final[dict[str, pl.DataType]] = {
    "name": pl.String(),
    "kind": pl.String(),  # device, host or other
    "plane": pl.String(),  # as in the table `tracks`
    "device": pl.Int32(),  # null for the host
    "process": pl.Int64(),  # null if not recorded
    "label": pl.String(),  # chip's name; null if not recorded
}
#: Columns of the frame of tracks.
TIMELINE_TRACKS: Final[dict[str, pl.DataType]] = {
    "section": pl.Int32(),  # row of sections
    "name": pl.String(),
    "kind": pl.String(),  # as in the table `tracks`
    "view": pl.String(),  # view of a derived track, else null
    "source": pl.Int32(),  # row of `tracks`; null for a line derived here
    "line": pl.Int32(),  # number of the derived line; null for recorded tracks
    "id": pl.Int64(),  # id of the thread or stream, also for its op lines; else null
    "folded": pl.Boolean(),  # closed until a user opens it
}
#: Display name of each view, as TensorFlow's guides and the producers spell it.
VIEW_NAMES: Final = {
    "steps": "Steps",
    "launch_stats": "Launch Stats",
    "name_scope": "Framework Name Scope",
    "framework_ops": "Framework Ops",
    "xla_modules": "XLA Modules",
    "xla_ops": "XLA Ops",
    "source": "Source code",
    "step_windows": "Step windows",
}
#: Suffix of the name of a recorded line that a derived line replaces.
_STORED: Final = " (stored)"
_VIEW_RANK: Final = {view: rank for rank, view in enumerate(OP_VIEWS)}
#: Ranks of tracks in a section, from top to bottom. Cores have the rank of op lines.
_STEPS, _LAUNCHES, _OPS, _RECORDED, _REPLACED = range(5)
_KIND_RANK: Final = {
    "stream": 0,
    "thread": 0,
    # Samples of a thread are shown just below the thread.
    "samples": 0,
    "derived": 1,
    "asynchronous": 2,
    "overhead": 3,
    "counters": 4,
}


def sections_and_tracks(
    tracks: pl.DataFrame,
    lines: Sequence[DerivedLine],
    devices: pl.DataFrame | Unavailable,
    streams: dict[int, int],
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return sections and tracks of all recorded and derived lines with events.

    Devices are first, by ordinal, then threads of the host, then all other sections. A
    device has steps, launch statistics, op lines by stream, and streams by id. A host
    has the windows of the steps, then its threads by id, each with its op lines.

    Args:
        streams: Position of each row of `tracks` among the streams of its device.
    """
    sections = _arrange_sections(tracks, devices)
    recorded = _recorded_tracks(tracks, sections, lines)
    derived = _derived_tracks(tracks, sections, lines, streams)
    arranged = (
        pl.concat((recorded, derived), how="diagonal_relaxed")
        .sort(
            *("section", "rank", "order", "place", "view_rank", "id", "source"),
            *("line",),
            nulls_last=False,
            maintain_order=True,
        )
        .select(pl.col(name).cast(kind) for name, kind in TIMELINE_TRACKS.items())
    )
    used = arranged["section"].unique().sort()
    renumbered = dict(zip(used.to_list(), range(len(used)), strict=True))
    return (
        sections.filter(pl.col("section").is_in(used.to_list())).select(
            pl.col(name).cast(kind) for name, kind in SECTIONS.items()
        ),
        arranged.with_columns(
            pl.col("section").replace_strict(renumbered, return_dtype=pl.Int32)
        ),
    )


def _arrange_sections(
    tracks: pl.DataFrame, devices: pl.DataFrame | Unavailable
) -> pl.DataFrame:
    first = tracks.with_row_index("row")
    planes = first.group_by("plane", "process", maintain_order=True).agg(
        pl.col("device").first(),
        pl.col("row").min(),
        (pl.col("kind") == "thread").any().alias("threads"),
    )
    named = planes.with_columns(
        kind=pl.when(pl.col("device").is_not_null())
        .then(pl.lit("device"))
        .when(pl.col("plane").str.starts_with("/device:"))
        .then(pl.lit("device"))
        .when(pl.col("threads"))
        .then(pl.lit("host"))
        .otherwise(pl.lit("other"))
    )
    host = pl.col("plane").str.contains(r"^/host:CPU(?: \[\d+\])?$")
    shown = named.with_columns(
        name=pl.when(host).then(pl.lit("Host Threads")).otherwise("plane")
    )
    labelled = shown.with_columns(label=pl.lit(None, pl.String))
    if not isinstance(devices, Unavailable) and len(devices):
        chips = devices.select("device", chip="name").unique("device", keep="first")
        labelled = shown.join(
            chips, on="device", how="left", maintain_order="left"
        ).rename({"chip": "label"})
    rank = (
        pl.when(pl.col("kind") == "device")
        .then(0)
        .when(host)
        .then(1)
        .when(pl.col("kind") == "host")
        .then(2)
        .otherwise(3)
    )
    return (
        labelled.with_columns(rank=rank)
        .sort("rank", "device", "row", nulls_last=True)
        .with_row_index("section")
        .with_columns(pl.col("section").cast(pl.Int32))
    )


def _recorded_tracks(
    tracks: pl.DataFrame, sections: pl.DataFrame, lines: Sequence[DerivedLine]
) -> pl.DataFrame:
    """Return recorded tracks with events; lines that are also derived come last."""
    derived = {(line.device, line.view) for line in lines if line.device is not None}
    replaced = pl.DataFrame(
        list(derived), schema={"device": pl.Int32, "view": pl.String}, orient="row"
    ).with_columns(replaced=pl.lit(value=True))
    sampled = tracks.with_row_index().filter(pl.col("kind") == "samples")
    # Skip samples of source lines, because samples of functions cover the same time.
    repeating = []
    for row, line, name in sampled.select("index", "id", "name").iter_rows():
        read = SamplesLine.of(line, name)
        if read and read.kind in {"source_lines", "source_lines_of_worker"}:
            repeating.append(row)
    recorded = (
        tracks.with_row_index("source")
        .filter(pl.col("event_end") > pl.col("event_begin"))
        .filter(~pl.col("source").is_in(repeating))
        .with_columns(pl.col("kind").cast(pl.String), pl.col("derived").cast(pl.String))
        .rename({"derived": "view"})
        .join(
            sections.select("plane", "process", "section"),
            on=["plane", "process"],
            nulls_equal=True,
            maintain_order="left",
        )
        .join(replaced, on=["device", "view"], how="left", maintain_order="left")
    )
    is_replaced = pl.col("replaced").fill_null(value=False)
    core, samples = pl.col("kind") == "core", pl.col("kind") == "samples"
    view = pl.when(core).then(pl.lit("xla_ops")).otherwise("view")
    rank = (
        pl.when(is_replaced)
        .then(_REPLACED)
        .when(pl.col("view") == "steps")
        .then(_STEPS)
        .when(pl.col("view") == "launch_stats")
        .then(_LAUNCHES)
        .when(core | pl.col("view").is_in(OP_VIEWS))
        .then(_OPS)
        .otherwise(_RECORDED)
    )
    ranks = pl.col("kind").replace_strict(_KIND_RANK, default=0, return_dtype=pl.Int32)
    return recorded.with_columns(
        name=pl.when(is_replaced).then(pl.col("name") + _STORED).otherwise("name"),
        folded=is_replaced,
        rank=rank,
        order=pl.when(rank == _RECORDED).then(ranks).otherwise(0),
        place=pl.when(rank != _RECORDED)
        .then(0)
        .when(samples)
        .then(pl.col("id") % CORE_TIME_BASE)
        .otherwise("id"),
        view_rank=view.replace_strict(
            _VIEW_RANK, default=-1, return_dtype=pl.Int32
        ).fill_null(-1),
    ).select(
        *("section", "name", "kind", "view", "source", "id", "folded"),
        *("rank", "order", "place", "view_rank"),
    )


def _derived_tracks(
    tracks: pl.DataFrame,
    sections: pl.DataFrame,
    lines: Sequence[DerivedLine],
    streams: dict[int, int],
) -> pl.DataFrame:
    """Return the derived lines, named with the stream if several streams have lines."""
    of_place = {
        (row["plane"], row["process"]): row["section"]
        for row in sections.iter_rows(named=True)
    }
    of_device: dict[int | None, int] = {}
    for row in sections.iter_rows(named=True):
        of_device.setdefault(row["device"], row["section"])
    hosts = sections.filter(pl.col("kind") == "host")["section"].to_list()
    host = hosts[0] if hosts else 0
    track_rows = tracks.select("plane", "process", "name", "id").rows()
    with_ops = {
        device: len({line.track for line in lines if line.device == device} - {None})
        for device in {line.device for line in lines}
    }
    rows = []
    for number, line in enumerate(lines):
        name = VIEW_NAMES[line.view]
        section, place_id, order = host, None, 0
        if line.device is not None:
            section = of_device[line.device]
        rank = _STEPS if line.view in ("steps", "step_windows") else _LAUNCHES
        if line.track is not None:
            plane, process, track_name, place_id = track_rows[line.track]
            section = of_place[plane, process]
            rank, order = _OPS, streams.get(line.track, 0)
            if line.device is None:
                name, rank, order = f"{name} - {track_name}", _RECORDED, 0
            elif with_ops[line.device] > 1:
                name = f"{name} - from #{place_id}"
        rows.append(
            {
                "section": section,
                "name": name,
                "kind": "derived",
                "view": line.view,
                "line": number,
                "id": place_id,
                "folded": False,
                "rank": rank,
                "order": order,
                "place": place_id if rank == _RECORDED else 0,
                "view_rank": _VIEW_RANK.get(line.view, -1),
            }
        )
    schema = {
        **{name: kind for name, kind in TIMELINE_TRACKS.items() if name != "source"},
        **dict.fromkeys(("rank", "order", "view_rank"), pl.Int32()),
        "place": pl.Int64(),
    }
    return pl.DataFrame(rows, schema=schema)


#: Nesting depth that is enough for nearly all tracks; deeper tracks are laid out again.
_USUAL_DEPTH: Final = 1024


class Lane(Frozen, frozen=True, eq=True):
    """Adjacent rows of a track; within them, spans either nest or do not overlap.

    Attributes:
        kind: `main`; `overlap` for spans that overlap without nesting; `undrawn` for
            events that are only shown on demand.
    """

    first_row: int
    rows: int
    kind: str


def lay_spans(start_ps: Int64s, dur_ps: Int64s) -> tuple[Int32s, tuple[Lane, ...]]:
    """Lay out one track's spans, sorted by start, then by descending duration.

    A span inside another span is drawn below it.
    """
    row = np.empty(len(start_ps), np.int32)
    return row, _lay_chosen(start_ps, dur_ps, None, row, nested=True, kind="main")


def recorded_rows(
    tracks: pl.DataFrame,
    events: pl.DataFrame,
    nesting: Nesting,
    *,
    flat_rows: Int64s,
    undrawn: Bools,
) -> tuple[Int32s, list[tuple[Lane, ...]]]:
    """Lay out all recorded tracks.

    If nothing overlaps and everything is drawn, rows are the array of nesting depths.

    Args:
        flat_rows: Ascending rows of events shown on a thread on which they did not run.
        undrawn: By row of event_types, whether its events are not drawn.

    Returns:
        The row of each event inside its track, and the lanes of each track, from top
        to bottom.
    """
    start_ps, dur_ps = ints(events, "start_ps"), ints(events, "dur_ps")
    types = handles(events, "type")
    begins, ends = ints(tracks, "event_begin"), ints(tracks, "event_end")
    nests = np.isin(codes(tracks, "kind"), [TRACK_CODES[kind] for kind in NESTED_KINDS])
    row, own = nesting.depth, False
    any_undrawn = bool(undrawn.any())
    lanes: list[tuple[Lane, ...]] = []
    for track, (begin, end) in enumerate(
        zip(begins.tolist(), ends.tolist(), strict=True)
    ):
        part = slice(begin, end)
        nested = bool(nests[track])
        hidden = values_by_row(undrawn, types[part]) if any_undrawn else None
        folds = hidden is not None and bool(hidden.any())
        flat = flat_rows[slice(*np.searchsorted(flat_rows, (begin, end)))] - begin
        starts, durs = start_ps[part], dur_ps[part]
        simple = not folds and not len(flat)
        # If every span ends within the span around it, rows equal nesting depths.
        if simple and (
            not nesting.overhangs[track]
            if nested
            else bool((starts[1:] >= starts[:-1] + durs[:-1]).all())
        ):
            rows = int(row[part].max(initial=0)) + 1
            lanes.append((Lane(0, rows, "main"),) if begin < end else ())
            continue
        if not own:
            row, own = row.copy(), True
        row[part], track_lanes = _lay_groups(starts, durs, nested, flat, hidden)
        lanes.append(track_lanes)
    return row, lanes


def _lay_groups(
    starts: Int64s,
    durs: Int64s,
    nested: bool,  # noqa: FBT001 - private; `nested` keeps the order of the arrays
    flat: Int64s,
    hidden: Bools | None,
) -> tuple[Int32s, tuple[Lane, ...]]:
    group = np.zeros(len(starts), np.uint8)
    group[flat] = 1
    if hidden is not None:
        group[hidden] = 2
    row = np.empty(len(starts), np.int32)
    lanes: list[Lane] = []
    for number, (nests, kind) in enumerate(
        ((nested, "main"), (False, "overlap"), (nested, "undrawn"))
    ):
        chosen = group == number
        added = _lay_chosen(starts, durs, chosen, row, nested=nests, kind=kind)
        below = lanes[-1].first_row + lanes[-1].rows if lanes else 0
        if below:
            np.add(row, np.int32(below), out=row, where=chosen)
        lanes += [replace(lane, first_row=lane.first_row + below) for lane in added]
    return row, tuple(lanes)


def _lay_chosen(
    start_ps: Int64s,
    dur_ps: Int64s,
    chosen: Bools | None,
    row: Int32s,
    *,
    nested: bool,
    kind: str,
) -> tuple[Lane, ...]:
    """Write the rows of the chosen (or all) spans of a track, and return the lanes.

    `kind` is the kind of the first lane; if `kind` is not `main`, of all lanes.
    """
    if not (len(start_ps) if chosen is None else chosen.any()):
        return ()
    further = "overlap" if kind == "main" else kind
    if not nested:
        rows = np.arange(len(row)) if chosen is None else np.flatnonzero(chosen)
        count = _spread_lanes(start_ps, dur_ps, rows, row)
        kinds = [kind, *[further] * (count - 1)]
        return tuple(Lane(index, 1, lane_kind) for index, lane_kind in enumerate(kinds))
    # Write the depths of the chosen spans.
    marks = np.empty(0, np.uint8) if chosen is None else chosen.view(np.uint8)
    answer = kernels.NO_ROOM
    for capacity in (_USUAL_DEPTH, len(start_ps)):
        answer = kernels.nest_fitting_rows(
            start_ps, dur_ps, marks, row, np.empty(capacity, np.int64)
        )
        if answer != kernels.NO_ROOM:
            break
    depths = accepted_answer(int(answer))
    is_separate = row == kernels.APART
    separate = np.flatnonzero(is_separate if chosen is None else is_separate & chosen)
    lanes = [Lane(0, depths, kind)]
    if len(separate):
        count = _spread_lanes(start_ps, dur_ps, separate, row)
        row[separate] += depths
        lanes += [Lane(depths + index, 1, further) for index in range(count)]
    return tuple(lanes)


def _spread_lanes(start_ps: Int64s, dur_ps: Int64s, rows: Int64s, row: Int32s) -> int:
    starts = start_ps[rows]
    ends = starts + np.maximum(dur_ps[rows], 0)
    lane, free = (np.empty(len(rows), np.int32) for _ in range(2))
    answer = kernels.spread_lanes(
        starts, ends, np.argsort(ends, kind="stable"), lane, free
    )
    row[rows] = lane
    return accepted_answer(int(answer))
