"""Op lines: the op, scope, module and source line on which a stream or thread worked.

Consecutive pieces of work of one op become one span. All streams, and all threads that
run compiled programs, have op lines.

Definition: docs/tools/trace_viewer.md#op-lines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope._core import sweeps as kernels
from stepscope.derive.columns.arrays import (
    ACTIVITY_CODES,
    TRACK_CODES,
    accepted_answer,
    codes,
    handles,
    ints,
)
from stepscope.derive.columns.dense_codes import number_rows, number_values
from stepscope.derive.device.attribution import OpEvidence
from stepscope.derive.trace_rows.step_lines import DerivedLine, LineSpans, no_spans
from stepscope.frozen import Frozen
from stepscope.trace.reading.by_row import values_by_row
from stepscope.units import PS_PER_NS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from stepscope.array_types import Bools, Int32s, Int64s, UInt8s
    from stepscope.derive.device.attribution import ActivityOps
    from stepscope.derive.host.op_events import HostOpEvents
    from stepscope.derive.steps.chosen import Steps
    from stepscope.derive.trace_rows.step_lines import Names

#: Views of op lines, in the order in which a stream shows them.
OP_VIEWS: Final = ("name_scope", "framework_ops", "xla_modules", "xla_ops", "source")
#: Kinds of evidence that name an op; the direction of a copy does not name one.
_NAMED: Final = [
    int(each) for each in OpEvidence if each not in (OpEvidence.COPY, OpEvidence.NONE)
]


class Pieces(Frozen, frozen=True):
    """The work of one stream or thread in time order; arrays of equal length.

    Attributes:
        op: Row of the paths of ops.
        instruction: Row of the paths of instructions; -1 for none.
    """

    start_ps: Int64s
    end_ps: Int64s
    step: Int32s
    event: Int32s
    op: Int32s
    instruction: Int32s


class _Paths(Frozen, frozen=True):
    """Hierarchical names of items, level by level.

    Attributes:
        level: int32 (items, levels); a number for the path down to each level, equal
            for equal paths; -1 beyond the last level.
        name: int32; code of the name by number in `level`.
    """

    level: Int32s
    name: Int32s

    def has_path(self) -> UInt8s:
        """Return 1 for each item that has a path, else 0."""
        return (self.level[:, 0] >= 0).astype(np.uint8)


_COMPUTE: Final = [
    ACTIVITY_CODES[kind] for kind in ("kernel", "collective", "transfer_wait")
]
#: Views derived for a core, whose recorded line already shows the view `xla_ops`.
_OF_CORES: Final = tuple(view for view in OP_VIEWS if view != "xla_ops")


def op_lines_of_devices(
    strings: Sequence[str],
    tracks: pl.DataFrame,
    device_activity: pl.DataFrame,
    activity_ops: ActivityOps,
    *,
    activity_steps: Int32s | None,
    names: Names,
) -> tuple[list[DerivedLine], dict[int, int]]:
    """Return the op lines of every stream.

    The lines contain kernels and collectives. Copies already have descriptive names.

    Returns:
        The lines, and the position of each row of `tracks` among the streams of its
        device: streams that compute come first, then streams with more activities.
    """
    chosen = computing_rows(device_activity)
    stream_order = _order_by_stream(device_activity, chosen)
    track, device = (handles(device_activity, name) for name in ("track", "device"))
    instruction, texts = dense_texts(
        np.where(chosen, handles(device_activity, "hlo_op"), np.int32(-1)), strings
    )
    paths = paths_of_ops(activity_ops.ops, texts, names)
    start_ps, dur_ps = (ints(device_activity, name) for name in ("start_ps", "dur_ps"))
    event = handles(device_activity, "event")
    step = activity_steps
    if step is None:
        step = np.full(len(event), -1, np.int32)
    kind = codes(tracks, "kind")
    stored = tracks.filter(pl.col("event_end") > pl.col("event_begin"))
    has_modules = set(stored.filter(pl.col("derived") == "xla_modules")["device"])
    lines: list[DerivedLine] = []
    for row, part in _track_ranges(track):
        computing = chosen[part]
        if not computing.any():
            continue
        ordinal = int(device[part.start])
        # Most streams only compute, and their arrays can be sliced without copying.
        rows = part if computing.all() else part.start + np.flatnonzero(computing)
        starts = start_ps[rows]
        pieces = Pieces(
            starts,
            starts + dur_ps[rows],
            step[rows],
            event[rows],
            activity_ops.op[rows],
            instruction[rows],
        )
        views: tuple[str, ...] = OP_VIEWS
        if kind[row] == TRACK_CODES["core"]:
            # A core's instructions, and often its modules, are recorded as lines.
            views = tuple(
                view
                for view in _OF_CORES
                if view != "xla_modules" or ordinal not in has_modules
            )
        lines += op_lines(pieces, paths, device=ordinal, track=row, views=views)
    return lines, stream_order


def op_lines_of_threads(
    events: pl.DataFrame, op_events: HostOpEvents, steps: Steps | None, names: Names
) -> list[DerivedLine]:
    """Return the op lines of threads that ran instructions of compiled programs.

    Ops outside compiled programs are already recorded as events of their threads.
    """
    ops = op_events.ops
    compiled = ops["hlo_op"].is_not_null().to_numpy()
    chosen = np.flatnonzero(compiled[op_events.op])
    if not len(chosen):
        return []
    described = ops.with_columns(evidence=pl.lit(int(OpEvidence.HLO), pl.UInt8))
    paths = paths_of_ops(described, ops["hlo_op"].fill_null("").to_list(), names)
    event = op_events.event[chosen]
    op = op_events.op[chosen].astype(np.int32)
    start_ps = op_events.start_ps[chosen]
    end_ps = start_ps + op_events.dur_ps[chosen]
    # Find the step on the host in which each start is; -1 for none.
    if steps is None or steps.on_device:
        step = np.full(len(start_ps), -1, np.int32)
    else:
        starts = ints(steps.rows, "start_ps")
        step = (np.searchsorted(starts, start_ps, side="right") - 1).astype(np.int32)
    track = handles(events, "track")[event]
    lines: list[DerivedLine] = []
    for row, part in _track_ranges(track):
        pieces = Pieces(
            start_ps[part], end_ps[part], step[part], event[part], op[part], op[part]
        )
        lines += op_lines(pieces, paths, device=None, track=row)
    return lines


def _track_ranges(track: Int32s) -> list[tuple[int, slice]]:
    edges = np.flatnonzero(np.diff(track)) + 1
    begins = [0, *edges.tolist()] if len(track) else []
    return [
        (int(track[begin]), slice(begin, end))
        for begin, end in zip(begins, [*edges.tolist(), len(track)], strict=False)
    ]


def computing_rows(device_activity: pl.DataFrame) -> Bools:
    """Return which activities op lines contain: all except copies and memsets."""
    of_code = np.zeros(256, np.bool_)
    of_code[_COMPUTE] = True
    return values_by_row(of_code, codes(device_activity, "kind"))


def _order_by_stream(device_activity: pl.DataFrame, computes: Bools) -> dict[int, int]:
    device, track = (handles(device_activity, name) for name in ("device", "track"))
    streams = number_rows([device, track])
    counted = (
        pl.DataFrame(
            {
                "device": device[streams.first],
                "track": track[streams.first],
                "computes": np.bincount(streams.code[computes], minlength=streams.count)
                > 0,
                "count": np.bincount(streams.code, minlength=streams.count),
            }
        )
        .sort(
            *("device", "computes", "count", "track"),
            descending=[False, True, True, False],
        )
        .with_columns(place=pl.int_range(pl.len()).over("device"))
    )
    return dict(counted.select("track", "place").iter_rows())


def paths_of_ops(
    ops: pl.DataFrame, instructions: Sequence[str], names: Names
) -> dict[str, _Paths]:
    """Return by view the paths of distinct ops; for `xla_ops`, of instructions.

    Args:
        ops: Columns `framework_op`, `framework_type`, `evidence`, `name`, `type`,
            `module`, `program`, `source_file`, `source_line`.
        instructions: Recorded texts, outermost first if nested (`a::b`).
    """
    hlo = pl.col("evidence").is_in([int(OpEvidence.HLO), int(OpEvidence.HLO_NAME)])
    named = pl.col("evidence").is_in(_NAMED)
    read = ops.select(
        op=pl.when(hlo).then("framework_op").when(named).then("name"),
        type=pl.when(hlo).then("framework_type").when(named).then("type"),
        module=pl.when(pl.col("program").is_null())
        .then("module")
        .otherwise(pl.format("{}({})", pl.col("module"), pl.col("program"))),
        source=pl.when(pl.col("source_line").is_null())
        .then("source_file")
        .otherwise(pl.format("{}:{}", pl.col("source_file"), pl.col("source_line"))),
    )
    by_view: dict[str, list[list[tuple[str, str | None]]]] = {
        view: [] for view in OP_VIEWS if view != "xla_ops"
    }
    # This loop is over distinct ops, of which there are far fewer than executions.
    for op, kind, module, source in read.iter_rows():
        scope = [] if op is None else op.split("/")[:-1]
        by_view["name_scope"].append([(each, None) for each in scope if each])
        by_view["framework_ops"].append([] if op is None else [(kind or op, op)])
        by_view["xla_modules"].append([] if module is None else [(module, None)])
        by_view["source"].append([] if source is None else [(source, None)])
    by_view["xla_ops"] = [
        [(each, None) for each in text.split("::")] for text in instructions
    ]
    return {view: _number_names(paths, names) for view, paths in by_view.items()}


def op_lines(
    pieces: Pieces,
    paths: dict[str, _Paths],
    *,
    device: int | None,
    track: int,
    views: Iterable[str] = OP_VIEWS,
) -> list[DerivedLine]:
    """Return the op lines of one stream or thread that have spans.

    Args:
        device: Ordinal; None for a thread of the host. On a thread, pieces without a
            step are joined into one span only if they are close in time.
    """
    bounded = device is None
    has_path = {view: of_view.has_path() for view, of_view in paths.items()}
    named, none = has_path["framework_ops"], np.zeros(len(pieces.op), np.uint8)

    def line(view: str, within: UInt8s, changes: UInt8s) -> tuple[LineSpans, UInt8s]:
        code = pieces.instruction if view == "xla_ops" else pieces.op
        return _line_spans(
            pieces, code, paths[view], within=within, changes=changes, bounded=bounded
        )

    # The end of a module ends spans of all lower lines; the end of a scope ends its op.
    spans: dict[str, LineSpans] = {}
    spans["xla_modules"], of_module = line("xla_modules", has_path["xla_modules"], none)
    spans["xla_ops"], _ = line("xla_ops", has_path["xla_ops"], of_module)
    spans["name_scope"], of_scope = line("name_scope", named, of_module)
    of_scope |= of_module
    spans["framework_ops"], _ = line("framework_ops", named, of_scope)
    spans["source"], _ = line("source", has_path["source"], of_scope)
    return [
        DerivedLine(view, device, track, spans[view])
        for view in OP_VIEWS
        if view in views and len(spans[view].start_ps)
    ]


def _line_spans(
    pieces: Pieces,
    code: Int32s,
    paths: _Paths,
    *,
    within: UInt8s,
    changes: UInt8s,
    bounded: bool,
) -> tuple[LineSpans, UInt8s]:
    """Return the spans of one line, and by piece whether the outermost level changed.

    Pieces that are not in the line do not extend or end a span. A change of the op at
    an outside piece takes effect at the next piece of the line.
    """
    depth = paths.level.shape[1]
    happened = np.zeros(len(code), np.uint8)
    if not within.any():
        return no_spans(), happened
    capacity = len(code) * depth
    # The system allocates no memory for pages of the arrays that are never written.
    spans, times = np.empty((4, capacity), np.int32), np.empty((3, capacity), np.int64)
    count = accepted_answer(
        kernels.open_spans(
            code,
            pieces.event,
            pieces.step,
            pieces.start_ps,
            pieces.end_ps,
            within,
            paths.level.ravel(),
            paths.name,
            changes,
            int(bounded),
            np.empty((5, depth), np.int64),
            happened,
            spans,
            times,
        )
    )
    level, name, event, step = spans[:, :count]
    accepted_answer(
        kernels.close_spans(level, times, PS_PER_NS, np.zeros((3, depth), np.int64))
    )
    start_ps, dur_ps, busy_ps = times[:, :count]
    line = LineSpans(start_ps, dur_ps, level, name, event, step, busy_ps)
    return line.order_spans(), happened


def _number_names(
    paths: Sequence[Sequence[tuple[str, str | None]]], names: Names
) -> _Paths:
    depth = max([1, *map(len, paths)])
    level = np.full((len(paths), depth), -1, np.int32)
    number: dict[tuple[int, int], int] = {}
    name: list[int] = []
    for row, path in enumerate(paths):
        above = -1
        for index, (shown, full) in enumerate(path):
            code = names.name_code(shown, full)
            key = (above, code)
            if key not in number:
                number[key] = len(name)
                name.append(code)
            above = number[key]
            level[row, index] = above
    return _Paths(level, np.array(name, np.int32))


def dense_texts(handle: Int32s, strings: Sequence[str]) -> tuple[Int32s, list[str]]:
    """Return a code for each handle's text, -1 for none, and the text of each code."""
    known = np.flatnonzero(handle >= 0)
    code = np.full(len(handle), -1, np.int32)
    if not len(known):
        return code, []
    distinct = number_values(handle[known])
    code[known] = distinct.code
    return code, [strings[each] for each in handle[known[distinct.first]].tolist()]
