"""All spans of a run, recorded and derived, as a sequence of pieces.

The pieces contain every span. A piece refers to the tables and is built only when it is
requested, so that not all spans are in memory at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import polars as pl

from stepscope.analysis.trace_viewer.arguments import (
    DerivedValues,
    argument_source,
    gather_arguments,
)
from stepscope.analysis.trace_viewer.viewer import host_traces
from stepscope.derive.columns.arrays import codes, handles, ints
from stepscope.derive.device.attribution import OpEvidence, activity_ops
from stepscope.derive.step_time.host_classes import event_categories
from stepscope.derive.step_time.owners import CATEGORIES
from stepscope.derive.steps.chosen import activity_steps, steps
from stepscope.derive.trace_rows.step_lines import launch_values, step_names
from stepscope.trace.tables import ACTIVITY_KINDS
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from stepscope.analysis.trace_viewer.arguments import Arguments
    from stepscope.analysis.trace_viewer.viewer import HostTrace
    from stepscope.array_types import Bools, Int32s, Int64s
    from stepscope.derive.profile_data import ProfileData
    from stepscope.derive.steps.chosen import Steps

#: Number of spans per piece; more need more memory, fewer need more calls.
PIECE_SPANS: Final = 1 << 13
#: Maximum number of values per piece: events with many values make shorter pieces.
_PIECE_STATS: Final = 1 << 16

#: Kinds of device activity that move or fill memory.
_MOVING: Final = [
    number
    for number, kind in enumerate(ACTIVITY_KINDS.categories)
    if kind in {"h2d", "d2h", "p2p_copy", "local_copy", "memset"}
]
#: Views whose spans are steps.
_STEP_VIEWS: Final = ("steps", "step_windows", "launch_stats")
_NO_OP: Final = [int(OpEvidence.COPY), int(OpEvidence.NONE)]


class SpanPiece(NamedTuple):
    """A group of spans of one host; arrays of equal length.

    Attributes:
        process: int32; number of the process.
        thread: int32; number of the thread in its process.
        start_ps: int64; since the time 0 that all hosts share.
        dur_ps: int64; 0 for an instant.
        name: int32; code of `HostSpans.names`.
        category: int16; index in `HostSpans.categories`, -1 for none.
        counter: Whether the span is a sample of a counter.
        arguments: Values that the export attaches to the spans.
        leaves: Indexes of launch calls, and numbers of the flows that start there.
        arrives: Indexes of device activities, and numbers of the flows that end there.
        kept: False for spans that are not wanted; None if all are wanted.
    """

    process: Int32s
    thread: Int32s
    start_ps: Int64s
    dur_ps: Int64s
    name: Int32s
    category: NDArray[np.int16]
    counter: Bools
    arguments: Arguments
    leaves: tuple[Int64s, Int64s]
    arrives: tuple[Int64s, Int64s]
    kept: Bools | None = None


class HostSpans(NamedTuple):
    """The spans of one host.

    Attributes:
        names: Displayed name by code.
        pieces: The spans; can be iterated once.
    """

    names: pl.Series
    categories: Sequence[str]
    pieces: Iterator[SpanPiece]


def trace_spans(
    profile: ProfileData,
    *,
    piece_spans: int = PIECE_SPANS,
    window: tuple[int, int] | None = None,
) -> Iterator[HostSpans]:
    """Yield, host by host, every recorded event, then the spans of derived tracks.

    Args:
        piece_spans: Maximum number of spans per piece.
        window: Start and end since the start of each host's profile, in ps. Only spans
            that begin in the window or extend into it are wanted, and their arrows.
    """
    flows = 0
    traces, _ = host_traces(profile)
    for trace in traces:
        host = _Host(profile, trace, first_flow=flows, window=window)
        flows += len(trace.timeline.flows.device_event)
        yield HostSpans(
            trace.timeline.names, tuple(CATEGORIES), host.span_pieces(piece_spans)
        )


class _Host:
    """Data of one host that all of its pieces use."""

    def __init__(
        self,
        profile: ProfileData,
        trace: HostTrace,
        *,
        first_flow: int,
        window: tuple[int, int] | None,
    ) -> None:
        host = trace.host
        self._trace = trace
        self._tables = profile.trace(host)
        events, tracks = profile.table(host, "events"), profile.table(host, "tracks")
        if isinstance(events, Unavailable) or isinstance(tracks, Unavailable):
            raise TypeError("a timeline without events")
        self._start_ps, self._dur_ps = ints(events, "start_ps"), ints(events, "dur_ps")
        self._window = window
        self._wanted = _touch_window(self._start_ps, self._dur_ps, window)
        self._type = handles(events, "type")
        self._track = handles(events, "track")
        self._shown = np.full(len(tracks), -1, np.int32)
        source = handles(trace.timeline.tracks, "source")
        recorded = np.flatnonzero(source >= 0)
        self._shown[source[recorded]] = recorded
        self._is_counter = (tracks["kind"] == "counters").to_numpy()
        self._on_host = tracks["device"].is_null().to_numpy()
        self._source = argument_source(profile, host)
        category = profile.derived(host, event_categories)
        self._category = None if isinstance(category, Unavailable) else category
        host_steps = profile.derived(host, steps)
        self._steps = None if isinstance(host_steps, Unavailable) else host_steps
        self._activity = _activity_facts(profile, host, self._steps)
        flows = trace.timeline.flows
        self._first_flow = first_flow
        numbers = np.arange(len(flows.launch_event))
        if self._wanted is not None:
            both = self._wanted[flows.launch_event] & self._wanted[flows.device_event]
            numbers = numbers[both]
        self._flow = numbers
        self._device_event = flows.device_event[numbers]
        order = np.argsort(flows.launch_event[numbers], kind="stable")
        self._by_launch = numbers[order]
        self._launch_event = flows.launch_event[self._by_launch]

    def span_pieces(self, piece_spans: int) -> Iterator[SpanPiece]:
        owner, begin = self._source.owner, 0
        while begin < len(self._start_ps):
            end = min(begin + piece_spans, len(self._start_ps))
            # The piece also ends where it would have too many values.
            first = int(np.searchsorted(owner, np.array(begin, owner.dtype)))
            if first + _PIECE_STATS < len(owner):
                end = min(end, max(int(owner[first + _PIECE_STATS]), begin + 1))
            for part in _wanted_part(self._wanted, begin, end):
                yield self._recorded_piece(*part)
            begin = end
        slices = self._trace.timeline.slices
        wanted = _touch_window(slices.start_ps, slices.dur_ps, self._window)
        count = len(slices.track)
        for begin in range(0, count, piece_spans):
            end = min(begin + piece_spans, count)
            for part in _wanted_part(wanted, begin, end):
                piece = self._derived_piece(*part)
                kept = None if wanted is None else wanted[slice(*part)]
                yield piece._replace(kept=kept)

    def _recorded_piece(self, begin: int, end: int) -> SpanPiece:
        part = slice(begin, end)
        timeline, track = self._trace.timeline, self._track[part]
        process, thread = self._trace.threads_of_spans(
            self._shown[track], timeline.row[part]
        )
        types = self._type[part]
        derived = [*self._full_names(types), *self._activity_values(begin, end)]
        first, last = np.searchsorted(self._launch_event, (begin, end))
        begin_flow, end_flow = np.searchsorted(self._device_event, (begin, end))
        category = np.full(end - begin, -1, np.int16)
        if self._category is not None:
            category[:] = self._category[part]
        return SpanPiece(
            process,
            thread,
            self._start_ps[part] + self._trace.offset_ps,
            self._dur_ps[part],
            types,
            category,
            self._is_counter[track],
            self._source.arguments_of_events(
                begin, types, self._on_host[track], derived
            ),
            (
                self._launch_event[first:last].astype(np.int64) - begin,
                self._by_launch[first:last] + self._first_flow,
            ),
            (
                self._device_event[begin_flow:end_flow].astype(np.int64) - begin,
                self._flow[begin_flow:end_flow] + self._first_flow,
            ),
            None if self._wanted is None else self._wanted[part],
        )

    def _derived_piece(self, begin: int, end: int) -> SpanPiece:
        part, slices = slice(begin, end), self._trace.timeline.slices
        process, thread = self._trace.threads_of_spans(
            slices.track[part], slices.row[part]
        )
        derived = [*self._full_names(slices.name[part])]
        step = slices.step[part]
        if self._steps is not None:
            derived += _step_labels(
                self._steps, np.flatnonzero(step >= 0), step[step >= 0]
            )
            view = self._trace.timeline.tracks["view"]
            of_steps = view.is_in(_STEP_VIEWS).fill_null(value=False).to_numpy()
            span = np.flatnonzero(of_steps[slices.track[part]] & (step >= 0))
            for name, column in (("step_num", "step"), ("group_id", "group")):
                values = self._steps.rows[column].gather(step[span])
                known = values.is_not_null().to_numpy()
                numbers = values.drop_nulls().to_numpy()
                if len(numbers):
                    derived.append(DerivedValues(name, span[known], numbers))
        stats = self._trace.timeline.launch_stats.filter(
            pl.col("slice").is_between(begin, end, closed="left")
        )
        if len(stats):
            span = ints(stats, "slice") - begin
            derived += [
                DerivedValues(each.name, span, each.to_numpy())
                for each in launch_values(stats)
            ]
        count = end - begin
        none = np.empty(0, np.int64)
        return SpanPiece(
            process,
            thread,
            slices.start_ps[part] + self._trace.offset_ps,
            slices.dur_ps[part],
            slices.name[part],
            np.full(count, -1, np.int16),
            np.zeros(count, np.bool_),
            gather_arguments(self._tables, None, derived),
            (none, none),
            (none, none),
        )

    def _full_names(self, code: Int32s) -> list[DerivedValues]:
        """Return the full names of spans that are shown with a shorter name."""
        full = self._trace.timeline.full_names.gather(code)
        span = np.flatnonzero(full.is_not_null().to_numpy())
        if not len(span):
            return []
        return [DerivedValues("long_name", span, full.gather(span).to_list())]

    def _activity_values(self, begin: int, end: int) -> list[DerivedValues]:
        known = self._activity
        if known is None:
            return []
        first, last = np.searchsorted(known.event, (begin, end))
        if first == last:
            return []
        part = slice(int(first), int(last))
        span = known.event[part].astype(np.int64) - begin
        derived = []
        if known.step is not None and self._steps is not None:
            step = known.step[part]
            derived += _step_labels(self._steps, span[step >= 0], step[step >= 0])
        op = known.op_name.gather(known.op[part])
        named = op.is_not_null().to_numpy()
        derived.append(DerivedValues("op", span[named], op.drop_nulls().to_list()))
        size, dur_ps = known.size[part], self._dur_ps[begin:end][span]
        copies = (size >= 0) & (dur_ps > 0)
        derived.append(DerivedValues("copied_bytes", span[size >= 0], size[size >= 0]))
        # One byte per picosecond is 1000 gigabytes per second.
        rate = size[copies] / dur_ps[copies] * 1000
        derived.append(DerivedValues("gigabytes_per_s", span[copies], rate))
        return [each for each in derived if len(each.span)]


def _touch_window(
    start_ps: Int64s, dur_ps: Int64s, window: tuple[int, int] | None
) -> Bools | None:
    """Return which spans begin in or extend into a window; None without a window."""
    if window is None:
        return None
    begin, end = window
    reaches = (start_ps >= begin) | (start_ps + dur_ps > begin)
    return np.less(start_ps, end) & reaches


def _wanted_part(
    wanted: Bools | None, begin: int, end: int
) -> Iterator[tuple[int, int]]:
    """Yield the range from the first to the last wanted span, if any span is wanted."""
    if wanted is None:
        yield begin, end
        return
    wanted_rows = np.flatnonzero(wanted[begin:end])
    if len(wanted_rows):
        yield begin + int(wanted_rows[0]), begin + int(wanted_rows[-1]) + 1


class _Activity(NamedTuple):
    """Device activities that have an event, by event."""

    event: Int32s
    step: Int32s | None
    op: Int32s
    op_name: pl.Series
    size: Int64s


def _activity_facts(
    profile: ProfileData, host: str, steps: Steps | None
) -> _Activity | None:
    activity = profile.table(host, "device_activity")
    if isinstance(activity, Unavailable):
        return None
    event = handles(activity, "event")
    rows = np.flatnonzero(event >= 0)
    if (np.diff(event[rows]) < 0).any():
        rows = rows[np.argsort(event[rows], kind="stable")]
    step = profile.derived(host, activity_steps)
    ops = profile.derived(host, activity_ops)
    if isinstance(ops, Unavailable):
        op, op_name = np.zeros(len(rows), np.int32), pl.Series([None], dtype=pl.String)
    else:
        op = ops.op[rows]
        op_name = ops.ops.select(
            pl.when(~pl.col("evidence").is_in(_NO_OP)).then("name")
        ).to_series()
    is_copy = np.isin(codes(activity, "kind"), _MOVING)
    size = activity["bytes"].fill_null(-1).to_numpy()
    return _Activity(
        event[rows],
        None if isinstance(step, Unavailable) or steps is None else step[rows],
        op,
        op_name,
        np.where(is_copy, size, -1)[rows],
    )


def _step_labels(steps: Steps, span: Int64s, step: Int32s) -> list[DerivedValues]:
    if not len(span):
        return []
    names = pl.Series(step_names(steps), dtype=pl.String)
    return [DerivedValues("step", span, names.gather(step).to_list())]
