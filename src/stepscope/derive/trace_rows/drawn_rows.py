"""`trace_timeline`: what a trace viewer shows of one host, recorded and derived.

The spans of recorded tracks are ranges of `events`, which are not copied. Derived lines
(steps, name scopes, ops, modules) have their own spans. Flows link launch calls to the
device activities that they launched.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.derive.columns.arrays import handles, ints
from stepscope.derive.host.values import int_values
from stepscope.derive.names.event_kinds import EventFlag
from stepscope.derive.trace_rows.op_spans import (
    op_lines_of_devices,
    op_lines_of_threads,
)
from stepscope.derive.trace_rows.step_lines import (
    LAUNCH_TOTALS,
    LineSpans,
    Names,
    launch_lines,
    no_spans,
    step_lines,
)
from stepscope.derive.trace_rows.tracks import (
    Lane,
    lay_spans,
    recorded_rows,
    sections_and_tracks,
)
from stepscope.frozen import Frozen
from stepscope.trace.reading.stat_keys import StatKey
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stepscope.array_types import Int32s, Int64s, UInt8s
    from stepscope.derive.columns.stat_values import StatRows
    from stepscope.derive.device.attribution import ActivityOps
    from stepscope.derive.device.correlation import Correlation
    from stepscope.derive.host.op_events import HostOpEvents
    from stepscope.derive.intervals.nesting import Nesting
    from stepscope.derive.names.event_kinds import EventKinds
    from stepscope.derive.step_windows.windows import Windows
    from stepscope.derive.steps.chosen import Steps
    from stepscope.derive.trace_rows.step_lines import DerivedLine
    from stepscope.trace.model import TraceData

#: Values of `TraceTimeline.visibility`. Definition:
#: docs/tools/trace_viewer.md#rows-and-lanes.
DRAWN: Final = 0
FOLDED: Final = 1
HIDDEN: Final = 2

_LANES: Final[dict[str, pl.DataType]] = {
    "track": pl.Int32(),
    "lane": pl.Int32(),
    "first_row": pl.Int32(),
    "rows": pl.Int32(),
    "kind": pl.String(),
}


class Slices(Frozen, frozen=True):
    """Spans of the derived lines; arrays of equal length.

    Spans are sorted by track, start, duration (descending) and row.

    Attributes:
        track: int32; row of `TraceTimeline.tracks`.
        event: int32; row of events with which the span begins, -1 for none.
    """

    track: Int32s
    start_ps: Int64s
    dur_ps: Int64s
    row: Int32s
    name: Int32s
    event: Int32s
    step: Int32s


class Flows(Frozen, frozen=True):
    """Links from launch calls to device activity, one per activity with a launch call.

    Attributes:
        device_event: int32; row of events of the activity, ascending.
    """

    launch_event: Int32s
    device_event: Int32s
    correlation: Int64s


class LaidLine(Frozen, frozen=True):
    """The spans of one derived line and the row in which each is drawn.

    Attributes:
        spans: Spans in the order of `LineSpans.order_spans`.
        row: int32 by span; row of the span inside the track.
    """

    spans: LineSpans
    row: Int32s


class TraceTimeline(Frozen, frozen=True, dict=True):
    """Sections, tracks, rows and flows of one host.

    Rows of a track are numbered from the top. Spans of a row are in start order and
    never overlap. Rows are grouped into lanes; spans of one lane nest in each other.

    Attributes:
        sections: One row per processing element, in display order: `name`, `kind`
            (device, host, other), `plane`, `device`, `process`, `label` (chip's name).
        tracks: One row per track, in display order: `section`, `name`, `kind`, `view`
            (the view of a derived track), `source` (row of the table `tracks`; null for
            a line derived here), `id`, `folded`, `begin`, `end` (rows of events, or of
            `slices` for a line derived here), `rows`, `drawn_rows` (rows below these
            contain events that are only drawn on demand).
        lanes: By track: `track`, `lane`, `first_row`, `rows`, `kind` (main, overlap,
            undrawn).
        lines: Spans and rows of the derived lines, in the order of their tracks.
        names: Text by name code; the code of an event type is its row number.
        full_names: Full name by name code; null if equal to the name in `names`.
        visibility: uint8 by name code: `DRAWN`, `FOLDED` or `HIDDEN`.
        launch_stats: By span of the launch lines: `slice` (row of `slices`),
            `num_launches`, `max_launch_time_ps`, `total_launch_time_ps`.
    """

    sections: pl.DataFrame
    tracks: pl.DataFrame
    lanes: pl.DataFrame
    row: Int32s
    lines: tuple[LaidLine, ...]
    names: pl.Series
    full_names: pl.Series
    visibility: UInt8s
    flows: Flows
    launch_stats: pl.DataFrame

    def line(self, track: int) -> LaidLine | None:
        """Return the spans of a derived track; None for a recorded track."""
        number = self._line_numbers[track]
        return None if number < 0 else self.lines[number]

    @cached_property
    def _line_numbers(self) -> list[int]:
        derived = self.tracks["source"].is_null().to_numpy()
        numbers: list[int] = np.where(derived, np.cumsum(derived) - 1, -1).tolist()
        return numbers

    @property
    def slice_count(self) -> int:
        """Number of spans of all derived lines."""
        return sum(len(line.row) for line in self.lines)

    @cached_property
    def slices(self) -> Slices:
        """The spans of all derived lines, concatenated on first use."""
        own = np.flatnonzero(self.tracks["source"].is_null().to_numpy())
        lengths = [len(line.row) for line in self.lines]
        spans = [no_spans(), *(line.spans for line in self.lines)]
        start_ps, dur_ps, _, name, event, step = (
            np.concatenate(column)
            for column in zip(*(each[:-1] for each in spans), strict=True)
        )
        rows = [np.empty(0, np.int32), *(line.row for line in self.lines)]
        return Slices(
            track=np.repeat(own.astype(np.int32), lengths),
            start_ps=start_ps,
            dur_ps=dur_ps,
            row=np.concatenate(rows),
            name=name,
            event=event,
            step=step,
        )


def trace_timeline(
    *,
    trace: TraceData,
    tracks: pl.DataFrame,
    events: pl.DataFrame,
    event_types: pl.DataFrame,
    event_kinds: EventKinds,
    event_nesting: Nesting,
    host_values: Mapping[str, StatRows] | Unavailable,
    devices: pl.DataFrame | Unavailable,
    device_activity: pl.DataFrame | Unavailable,
    correlation: Correlation | Unavailable,
    activity_ops: ActivityOps | Unavailable,
    activity_steps: Int32s | Unavailable,
    steps: Steps | Unavailable,
    windows: Windows | Unavailable,
    host_op_events: HostOpEvents | Unavailable,
) -> TraceTimeline:
    """Lay out a host's events and compute its derived lines.

    Definition: docs/tools/trace_viewer.md#sections-and-tracks.
    """
    names = Names(event_types)
    assigned = None if isinstance(activity_steps, Unavailable) else activity_steps
    lines = step_lines(steps, windows, names)
    totals = pl.DataFrame(schema=LAUNCH_TOTALS)
    if not (
        isinstance(correlation, Unavailable)
        or isinstance(steps, Unavailable)
        or assigned is None
    ):
        launched, totals = launch_lines(
            correlation, activity_steps=assigned, steps=steps, names=names
        )
        lines += launched
    places: dict[int, int] = {}
    if not isinstance(device_activity, Unavailable):
        if not isinstance(activity_ops, Unavailable):
            of_devices, places = op_lines_of_devices(
                trace.strings,
                tracks,
                device_activity,
                activity_ops,
                activity_steps=assigned,
                names=names,
            )
            lines += of_devices
    elif not isinstance(host_op_events, Unavailable):
        # If there is a device, threads contain no ops, only launch calls of programs.
        known = None if isinstance(steps, Unavailable) else steps
        lines += op_lines_of_threads(events, host_op_events, known, names)
    # Do not draw bookkeeping events of the profiler.
    bookkeeping = EventFlag.ALLOCATOR | EventFlag.PRODUCER | EventFlag.END_THUNK
    visibility = np.where(event_kinds.has(EventFlag.THREADPOOL), FOLDED, DRAWN)
    visibility = np.where(event_kinds.has(bookkeeping), HIDDEN, visibility)
    visibility = visibility.astype(np.uint8)
    flat_rows = np.empty(0, np.int64)
    if not isinstance(host_values, Unavailable):
        owner, flag = int_values(host_values[StatKey.ASYNCHRONOUS])
        flat_rows = np.unique(owner[flag != 0]).astype(np.int64)
    row, recorded_lanes = recorded_rows(
        tracks, events, event_nesting, flat_rows=flat_rows, undrawn=visibility != DRAWN
    )
    sections, arranged = sections_and_tracks(tracks, lines, devices, places)
    placed, lanes, laid = _place_tracks(arranged, tracks, lines, recorded_lanes)
    shown, full = names.name_texts()
    drawn = np.zeros(len(shown) - len(event_types), np.uint8)
    return TraceTimeline(
        sections=sections,
        tracks=placed,
        lanes=lanes,
        row=row,
        lines=laid,
        names=shown,
        full_names=full,
        visibility=np.concatenate((visibility, drawn)),
        flows=_launch_flows(correlation),
        launch_stats=_launch_stats(placed, laid, sections, totals),
    )


def _launch_flows(correlation: Correlation | Unavailable) -> Flows:
    if isinstance(correlation, Unavailable):
        nothing = np.empty(0, np.int32)
        return Flows(nothing, nothing, np.empty(0, np.int64))
    launch = correlation.launch_of_activity
    event = handles(correlation.activity, "event")
    known = np.flatnonzero((launch >= 0) & (event >= 0))
    device_event, call = event[known], launch[known]
    if (device_event[1:] < device_event[:-1]).any():
        order = np.argsort(device_event, kind="stable")
        device_event, call = device_event[order], call[order]
    return Flows(
        handles(correlation.launches, "event")[call],
        device_event,
        ints(correlation.launches, "correlation")[call],
    )


def _place_tracks(
    arranged: pl.DataFrame,
    tracks: pl.DataFrame,
    lines: Sequence[DerivedLine],
    recorded_lanes: Sequence[tuple[Lane, ...]],
) -> tuple[pl.DataFrame, pl.DataFrame, tuple[LaidLine, ...]]:
    """Return the tracks with their ranges and rows, their lanes, and derived lines."""
    begins, ends = ints(tracks, "event_begin"), ints(tracks, "event_end")
    lanes: list[tuple[Lane, ...]] = []
    ranges: list[tuple[int, int]] = []
    laid: list[LaidLine] = []
    offset = 0
    for source, line in arranged.select("source", "line").iter_rows():
        if source is not None:
            lanes.append(recorded_lanes[source])
            ranges.append((int(begins[source]), int(ends[source])))
            continue
        spans = lines[line].spans
        row, line_lanes = lay_spans(spans.start_ps, spans.dur_ps)
        lanes.append(line_lanes)
        laid.append(LaidLine(spans, row))
        ranges.append((offset, offset + len(row)))
        offset += len(row)
    with_ranges = arranged.drop("line").with_columns(
        pl.Series("begin", [begin for begin, _ in ranges], pl.Int64),
        pl.Series("end", [end for _, end in ranges], pl.Int64),
        pl.Series("rows", [_count_rows(of_track) for of_track in lanes], pl.Int32),
        pl.Series(
            "drawn_rows",
            [
                _count_rows([lane for lane in of_track if lane.kind != "undrawn"])
                for of_track in lanes
            ],
            pl.Int32,
        ),
    )
    lane_rows = [
        (track, number, lane.first_row, lane.rows, lane.kind)
        for track, of_track in enumerate(lanes)
        for number, lane in enumerate(of_track)
    ]
    return with_ranges, pl.DataFrame(lane_rows, _LANES, orient="row"), tuple(laid)


def _count_rows(lanes: Sequence[Lane]) -> int:
    return max((lane.first_row + lane.rows for lane in lanes), default=0)


def _launch_stats(
    tracks: pl.DataFrame,
    laid: Sequence[LaidLine],
    sections: pl.DataFrame,
    totals: pl.DataFrame,
) -> pl.DataFrame:
    types = {"slice": pl.Int64, "device": pl.Int32, "step": pl.Int32}
    parts = [pl.DataFrame(schema=types)]
    derived = tracks.filter(pl.col("source").is_null())
    lines = derived.select(
        "view", "begin", "end", sections["device"].gather(derived["section"])
    )
    for line, (view, begin, end, device) in zip(laid, lines.iter_rows(), strict=True):
        if view == "launch_stats":
            columns = {"slice": np.arange(begin, end), "step": line.spans.step}
            part = pl.DataFrame(columns).with_columns(device=pl.lit(device))
            parts.append(part.select(pl.col(name).cast(types[name]) for name in types))
    return (
        pl.concat(parts)
        .join(totals, on=["device", "step"], how="left", maintain_order="left")
        .drop("device", "step")
    )
