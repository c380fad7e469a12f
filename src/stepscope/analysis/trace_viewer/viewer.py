"""`trace_viewer`: the sections and tracks of a trace, with counts of their events.

A trace has too many spans for a result. `events` yields the spans in pieces for an
export; `analysis/timeline/` returns the data that a page draws and requests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import numpy as np
import polars as pl

from stepscope.analysis.results.result import ToolResult
from stepscope.analysis.results.tables import package_reasons, tool_tables
from stepscope.analysis.results.tool import derived_by_host, start_unix_ns
from stepscope.derive.columns.arrays import handles, ints
from stepscope.derive.device.attribution import activity_ops
from stepscope.derive.device.correlation import correlation
from stepscope.derive.steps.chosen import steps
from stepscope.derive.trace_rows.drawn_rows import DRAWN, FOLDED, HIDDEN, trace_timeline
from stepscope.frozen import Frozen
from stepscope.trace.reading.by_row import values_by_row
from stepscope.unavailable import Missing, Unavailable
from stepscope.units import PS_PER_MS, PS_PER_NS

if TYPE_CHECKING:
    from stepscope.analysis.options import TraceViewerOptions
    from stepscope.array_types import Int32s, Int64s
    from stepscope.derive.profile_data import ProfileData
    from stepscope.derive.trace_rows.drawn_rows import TraceTimeline

_WHY: Final = package_reasons("trace_viewer")

_TABLES: Final = tool_tables("trace_viewer")
TRACE_TRACKS: Final = _TABLES["tracks"]
TRACE_SECTIONS: Final = _TABLES["sections"]

#: Derived data of each host that the tool reads with its default options.
NEEDS: Final = (trace_timeline,)

#: Kind of section → first process number; a device with an ordinal has the number 1 +
#: ordinal. Definition: docs/tools/trace_viewer.md#the-json.
_FIRST_PROCESS_NUMBERS: Final = {"device": 501, "host": 701, "other": 801}
#: Difference between the first process numbers of consecutive hosts of a run.
_PROCESS_NUMBERS_PER_HOST: Final = 1000
_ORDINALS: Final = 500
_LANE_NAMES: Final = {"main": "", "overlap": " · overlap", "undrawn": " · bookkeeping"}


class HostTrace(Frozen, frozen=True):
    """One host's timeline, with the numbers that it has in an exported trace.

    Attributes:
        process: int32 by row of sections; process number.
        threads: By lane, in the order of `timeline.lanes`: `track`, `lane`,
            `first_row`, `process`, `thread`, `order` (position in the process), `name`.
        offset_ps: Time to add to the host's times, so that all hosts share a time 0.
    """

    host: str
    timeline: TraceTimeline
    process: Int32s
    threads: pl.DataFrame
    offset_ps: int

    def threads_of_spans(self, track: Int32s, row: Int32s) -> tuple[Int32s, Int32s]:
        """Return process and thread of spans, from their track and row inside it."""
        stride = np.int64(2**32)
        lanes = ints(self.threads, "track") * stride + ints(self.threads, "first_row")
        wanted = track.astype(np.int64) * stride + row
        lane_rows = np.searchsorted(lanes, wanted, side="right") - 1
        process = self.threads["process"].to_numpy()
        thread = self.threads["thread"].to_numpy()
        return process[lane_rows], thread[lane_rows]


def host_traces(profile: ProfileData) -> tuple[list[HostTrace], dict[str, Unavailable]]:
    """Return the hosts with a timeline, and the reason by host without one."""
    offsets = clock_offsets(profile)
    timelines, absent = derived_by_host(profile, trace_timeline)
    traces: list[HostTrace] = []
    per_host = _PROCESS_NUMBERS_PER_HOST if len(profile.hosts) > 1 else 0
    for host, timeline in timelines.items():
        first = per_host * (1 + profile.hosts.index(host))
        taken: dict[int, None] = {}
        for kind, device in timeline.sections.select("kind", "device").iter_rows():
            number = _FIRST_PROCESS_NUMBERS[kind]
            if kind == "device" and device is not None and device < _ORDINALS:
                number = 1 + device
            while number in taken:
                number += 1
            taken[number] = None
        process = np.array([*taken], np.int32) + np.int32(first)
        offset = 0 if isinstance(offsets, Unavailable) else offsets[host]
        tracks, lanes = timeline.tracks, timeline.lanes
        of_lane = lanes["track"]
        suffix = lanes["kind"].replace_strict(_LANE_NAMES)
        traces.append(
            HostTrace(
                host,
                timeline,
                process,
                lanes.select(
                    "track",
                    "lane",
                    "first_row",
                    process=pl.Series(
                        process[ints(tracks, "section")[of_lane.to_numpy()]]
                    ),
                    name=tracks["name"].gather(of_lane) + suffix,
                ).with_columns(
                    thread=pl.int_range(1, pl.len() + 1, dtype=pl.Int32).over(
                        "process"
                    ),
                    order=pl.int_range(0, pl.len(), dtype=pl.Int32).over("process"),
                ),
                offset,
            )
        )
    return traces, absent


def clock_offsets(profile: ProfileData) -> dict[str, int] | Unavailable:
    """Return, by host, how much later its time 0 is than the earliest host's, in ps.

    The offsets are unavailable if one of several hosts recorded no start time.
    """
    starts = {host: start_unix_ns(profile, host) for host in profile.hosts}
    known = {host: start for host, start in starts.items() if start is not None}
    if len(starts) == 1:
        return dict.fromkeys(starts, 0)
    if len(known) < len(starts):
        return Unavailable(
            code="NO_CLOCK",
            reason="Hosts without an absolute start time cannot be aligned: "
            f"{', '.join(sorted(starts.keys() - known.keys()))}.",
            remedy="Compare times within a host only, or record with a profiler that "
            "writes the start time (`stepscope run`).",
        )
    first = min(known.values())
    return {host: (start - first) * PS_PER_NS for host, start in known.items()}


class TraceViewerResult(ToolResult, frozen=True, kw_only=True):
    """Sections and tracks of all selected hosts in display order.

    Attributes:
        tracks: One row per track.
        sections: One row per processing element.
        events: Number of recorded events: drawn, folded and hidden events.
        drawn: Number of events that are drawn.
        folded: Number of bookkeeping events, which are shown on request.
        hidden: Number of events other than work: allocations, thread hand-overs.
        derived_spans: Number of spans on derived tracks, which are not events.
        flows: Number of arrows from launch calls to device activity; null if launch
            calls were not recorded.
        without_time: Number of events that the recorder only counted; no times exist.
        one_clock: Whether all hosts are shown on one clock; null if impossible.
        start_ms: Start of the first span; null without spans.
        end_ms: End of the last span; null without spans.
        missing: Values that could not be determined, with their reasons.
        inputs: Host → number of tracks, events and derived spans.
    """

    tracks: Annotated[pl.DataFrame, TRACE_TRACKS]
    sections: Annotated[pl.DataFrame, TRACE_SECTIONS]
    events: int
    drawn: int
    folded: int
    hidden: int
    derived_spans: int
    flows: int | None
    without_time: int
    one_clock: bool | None
    start_ms: float | None
    end_ms: float | None
    missing: tuple[Missing, ...]
    inputs: dict[str, dict[str, int]]


def analyse(
    profile: ProfileData, _options: TraceViewerOptions
) -> TraceViewerResult | Unavailable:
    """Return the sections and tracks of all hosts, with counts of their events.

    Definition: docs/tools/trace_viewer.md.
    """
    traces, absent = host_traces(profile)
    counts = [_visibility_counts(profile, trace) for trace in traces]
    frames = [
        _track_rows(profile, trace, of_tracks)
        for trace, of_tracks in zip(traces, counts, strict=True)
    ]
    if not any(len(frame) for frame in frames):
        return next(iter(absent.values()), _WHY["no_events"])
    tracks = pl.concat(frames)
    totals = np.sum([of_tracks.sum(axis=0) for of_tracks in counts], axis=0)
    clock = clock_offsets(profile)
    missing = [why.missing_field(f"hosts.{host}") for host, why in absent.items()]
    if isinstance(clock, Unavailable):
        missing.append(clock.missing_field("one_clock"))
    hosts = [trace.host for trace in traces]
    matched, unmatched = derived_by_host(profile, correlation, hosts)
    # Only arrows of hosts with known launch calls can be counted.
    flows = [
        len(trace.timeline.flows.device_event)
        for trace in traces
        if trace.host in matched
    ]
    missing += [
        why.missing_field("flows" if len(traces) == 1 else f"flows.{host}")
        for host, why in unmatched.items()
    ]
    if not matched and len(traces) > 1:
        missing.append(unmatched[hosts[0]].missing_field("flows"))
    for trace in traces:
        where = "" if len(traces) == 1 else f"{trace.host}."
        views = set(trace.timeline.tracks["view"].to_list())
        for value, view in (
            (profile.derived(trace.host, steps), "steps"),
            (profile.derived(trace.host, activity_ops), "framework_ops"),
        ):
            if isinstance(value, Unavailable) and view not in views:
                missing.append(value.missing_field(f"{where}tracks.{view}"))
    aggregates = [profile.table(trace.host, "aggregates") for trace in traces]
    return TraceViewerResult(
        tracks=tracks.select(TRACE_TRACKS.cast_columns()),
        sections=pl.concat([_section_rows(trace, tracks) for trace in traces]),
        events=int(totals.sum()),
        drawn=int(totals[DRAWN]),
        folded=int(totals[FOLDED]),
        hidden=int(totals[HIDDEN]),
        derived_spans=sum(trace.timeline.slice_count for trace in traces),
        flows=sum(flows) if matched else None,
        without_time=sum(
            int(table["occurrences"].sum())
            for table in aggregates
            if not isinstance(table, Unavailable)
        ),
        one_clock=None if isinstance(clock, Unavailable) else True,
        start_ms=_float_or_none(tracks["start_ms"].min()),
        end_ms=_float_or_none(tracks["end_ms"].max()),
        missing=tuple(missing),
        inputs={
            trace.host: {
                "tracks": len(trace.timeline.tracks),
                "events": len(trace.timeline.row),
                "derived_spans": trace.timeline.slice_count,
            }
            for trace in traces
        },
    )


def _track_rows(profile: ProfileData, trace: HostTrace, counts: Int64s) -> pl.DataFrame:
    timeline = trace.timeline
    events = profile.table(trace.host, "events")
    if isinstance(events, Unavailable):
        return pl.DataFrame(schema=TRACE_TRACKS.dtypes())
    tracks = timeline.tracks
    recorded = tracks["source"].is_not_null().to_numpy()
    start, dur = ints(events, "start_ps"), ints(events, "dur_ps")
    derived = iter(timeline.lines)
    rows = []
    for own, shown, (begin, stop) in zip(
        recorded.tolist(),
        counts[:, DRAWN].tolist(),
        tracks.select("begin", "end").iter_rows(),
        strict=True,
    ):
        starts, durs = (
            (start[begin:stop], dur[begin:stop]) if own else next(derived).spans[:2]
        )
        drawn = shown if own else stop - begin
        first = int(starts[0]) + trace.offset_ps
        parts = [
            slice(row, row + _SPANS_PER_PART)
            for row in range(0, len(starts), _SPANS_PER_PART)
        ]
        last = max(int((starts[part] + durs[part]).max()) for part in parts)
        last += trace.offset_ps
        rows.append((drawn, first / PS_PER_MS, last / PS_PER_MS))
    names = timeline.sections["name"].gather(tracks["section"])
    lanes = trace.threads.group_by("track", maintain_order=True).agg(
        pl.col("process").first(),
        pl.col("thread").first(),
        pl.len().cast(pl.Int32).alias("lanes"),
    )
    measured = pl.DataFrame(
        rows,
        schema={"drawn": pl.Int64, "start_ms": pl.Float64, "end_ms": pl.Float64},
        orient="row",
    )
    return (
        tracks.with_row_index("track")
        .with_columns(
            pl.lit(trace.host).alias("host"),
            pl.Series("recorded", recorded),
            pl.col("track").cast(pl.Int32),
            spans=pl.col("end") - pl.col("begin"),
            section=names,
        )
        .join(lanes, on="track", how="left", maintain_order="left")
        .hstack(measured)
        .select(TRACE_TRACKS.cast_columns())
    )


def _section_rows(trace: HostTrace, tracks: pl.DataFrame) -> pl.DataFrame:
    counted = (
        tracks.filter(pl.col("host") == trace.host)
        .group_by("process")
        .agg(pl.len().alias("tracks"), pl.col("spans").sum())
    )
    return (
        trace.timeline.sections.with_columns(
            pl.lit(trace.host).alias("host"),
            pl.col("process").alias("recorded_process"),
        )
        .with_columns(pl.Series("process", trace.process))
        .join(counted, on="process", how="left", maintain_order="left")
        .select(TRACE_SECTIONS.cast_columns())
    )


#: Number of spans processed at a time; intermediate arrays then stay in a cache and
#: need no new memory pages.
_SPANS_PER_PART: Final = 1 << 16


def _visibility_counts(profile: ProfileData, trace: HostTrace) -> Int64s:
    """Count drawn, folded and hidden events by track.

    On a folded track, drawn events count as folded. Derived spans are not events.
    """
    timeline = trace.timeline
    counts = np.zeros((len(timeline.tracks), HIDDEN + 1), np.int64)
    events = profile.table(trace.host, "events")
    if isinstance(events, Unavailable):
        return counts
    types, visibility = handles(events, "type"), timeline.visibility
    shown = timeline.tracks.select("source", "begin", "end", "folded")
    for track, (source, begin, end, folded) in enumerate(shown.iter_rows()):
        if source is None:
            continue
        span_visibility = values_by_row(visibility, types[begin:end])
        counts[track, FOLDED] = np.count_nonzero(span_visibility == FOLDED)
        counts[track, HIDDEN] = np.count_nonzero(span_visibility == HIDDEN)
        counts[track, DRAWN] = end - begin - counts[track].sum()
        if folded:
            counts[track, FOLDED] += counts[track, DRAWN]
            counts[track, DRAWN] = 0
    return counts


def _float_or_none(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None
