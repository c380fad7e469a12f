"""`source_lines`: the source lines of ops and functions, and their time.

An instruction of a compiled program has the exact line that created it. For a function,
stack samples record the executed line; without samples its first line is used, because
tracers do not record executed lines. If both have a line, the instruction's counts, so
thread time and device activities are charged to one line at most.

Definition: docs/tools/model_views.md#time-per-line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import polars as pl

from stepscope.derive.columns.arrays import handles, ints
from stepscope.derive.columns.dense_codes import number_rows
from stepscope.derive.intervals.nesting import nest_subset
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.model.call_trees import LIBRARY, inherit_labels
from stepscope.frozen import Frozen
from stepscope.patterns import Pattern
from stepscope.trace.reading.by_row import values_by_row
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.array_types import Bools, Int32s, Int64s
    from stepscope.derive.device.attribution import ActivityOps
    from stepscope.derive.device.correlation import Correlation
    from stepscope.derive.host.function_lines import FunctionLines
    from stepscope.derive.host.op_events import HostOpEvents
    from stepscope.derive.intervals.nesting import Nesting

#: Columns of `SourceLines.lines`.
LINES: Final[dict[str, pl.DataType]] = {
    "file": pl.String(),  # as recorded: a path, or only the file's name
    "line": pl.Int64(),  # line number, counted from 1
    "function": pl.String(),  # null for the line of an op
    "exact": pl.Boolean(),  # True: this line ran; False: any line of the function
    "library": pl.Boolean(),  # in a package or in Python; null if unknown
    "event": pl.String(),  # name of the function's events; null without a function
}
#: Columns of `line_times`.
LINE_TIMES: Final[dict[str, pl.DataType]] = {
    **LINES,
    "op": pl.String(),  # the op with most time at the line; null for none
    "host_ps": pl.Int64(),
    "total_host_ps": pl.Int64(),
    "device_ps": pl.Int64(),
    "total_device_ps": pl.Int64(),
}
_FRAMEWORK: Final = Pattern(LIBRARY)
_TIMES: Final = ("host_ps", "total_host_ps", "device_ps", "total_device_ps")
_NONE: Final = np.int32(-1)


class Runs(NamedTuple):
    """Executions of ops, or calls of functions, on threads of the host; one per row.

    Attributes:
        track: int32; thread of the row, ascending.
        start_ps: int64; starts, ascending on a thread.
        end_ps: int64.
        parent: int32; the row around this one, -1 for none.
        depth: int32; number of rows around this one.
        self_ps: int64; time without rows nested in this one.
        line: int32; row of `lines`: its own or that of a row around it; -1 for none.
        named: Whether the row has its own line.
        outermost: Whether the row has its own line, and no row around it has that line.
    """

    track: Int32s
    start_ps: Int64s
    end_ps: Int64s
    parent: Int32s
    depth: Int32s
    self_ps: Int64s
    line: Int32s
    named: Bools
    outermost: Bools


class SourceLines(Frozen, frozen=True):
    """Executions on a host and its devices, by source line.

    Attributes:
        lines: Distinct lines, columns `LINES`.
        functions: Calls of functions, or the sampled executions of their lines.
        ops: Executions of ops on the host; their lines are exact.
        host_op: int32 by row of `ops`; a row of `host_names`.
        host_names: Names of ops on the host.
        device_ps: int64 by row of device_activity; its duration.
        device_op: int32 by row of device_activity; a row of `device_names`.
        device_names: Names of ops on devices.
        device_line: int32 by row of device_activity; exact line of its op, -1 for none.
        device_function: int32 by row of device_activity; the innermost row of
            `functions` around its launch call, -1 for none.
        launches_known: Whether launch calls were recorded.
    """

    lines: pl.DataFrame
    functions: Runs
    ops: Runs
    host_op: Int32s
    host_names: pl.Series
    device_ps: Int64s
    device_op: Int32s
    device_names: pl.Series
    device_line: Int32s
    device_function: Int32s
    launches_known: bool


def source_lines(
    *,
    events: pl.DataFrame,
    event_types: pl.DataFrame,
    function_lines: FunctionLines | Unavailable,
    host_op_events: HostOpEvents | Unavailable,
    device_activity: pl.DataFrame | Unavailable,
    activity_ops: ActivityOps | Unavailable,
    correlation: Correlation | Unavailable,
) -> SourceLines | Unavailable:
    """Find the line of every function call, op execution and device activity."""
    if (
        isinstance(function_lines, Unavailable)
        and isinstance(host_op_events, Unavailable)
        and isinstance(activity_ops, Unavailable)
    ):
        return function_lines
    lines = _LineNumbers()
    functions = _runs_of_functions(function_lines, event_types, lines)
    nothing, unnamed = np.empty(0, np.int32), pl.Series([], dtype=pl.String)
    ops, host_op, host_names = _runs_without_lines(), nothing, unnamed
    if not isinstance(host_op_events, Unavailable):
        host_op, host_names = host_op_events.op, host_op_events.ops["name"]
        ops = _number_runs(
            values_by_row(handles(events, "track"), host_op_events.event),
            host_op_events.start_ps,
            host_op_events.start_ps + host_op_events.dur_ps,
            host_op_events,
            values_by_row(lines.lines_of_ops(host_op_events.ops), host_op),
        )
    device_ps = np.empty(0, np.int64)
    device_line = device_function = device_op = nothing
    device_names = unnamed
    calls = None
    if not isinstance(correlation, Unavailable):
        calls = correlation.launch_events
    if not isinstance(device_activity, Unavailable) and not isinstance(
        activity_ops, Unavailable
    ):
        device_ps = ints(device_activity, "dur_ps")
        device_line = values_by_row(
            lines.lines_of_ops(activity_ops.ops), activity_ops.op
        )
        device_op, device_names = activity_ops.op, activity_ops.ops["name"]
        device_function = np.full(len(device_ps), _NONE)
        if calls is not None:
            device_function = _inner_functions(functions, events, calls)
    return SourceLines(
        lines=lines.to_frame(),
        functions=functions,
        ops=ops,
        host_op=host_op,
        host_names=host_names,
        device_ps=device_ps,
        device_op=device_op,
        device_names=device_names,
        device_line=device_line,
        device_function=device_function,
        launches_known=calls is not None,
    )


def line_times(
    source: SourceLines, *, within: Spans | None = None, activities: Bools | None = None
) -> pl.DataFrame:
    """Sum the time of each line, columns `LINE_TIMES`.

    Args:
        within: Host time to include; None for all of it.
        activities: By row of device_activity: whether to include it; None for all rows.

    Returns:
        The lines that have time; the last row, without a file, is the time without a
        line. Device times of functions are null if no launch call was recorded.
        `host_ps` adds up to the time in which any op or function ran, summed over
        threads; `device_ps` adds up to the durations of the activities.
    """
    count = len(source.lines)
    times = np.zeros((count + 1, len(_TIMES)), np.int64)
    host, total_host, device, total_device = times.T
    functions, ops = source.functions, source.ops
    of_functions, of_ops = (_self_times(runs, within) for runs in (functions, ops))

    def union(runs: Runs, rows: slice | Int64s) -> Spans:
        start = runs.start_ps[rows]
        spans = Spans.from_events(start, runs.end_ps[rows] - start)
        return spans if within is None else spans & within

    for track in np.intersect1d(functions.track, ops.track).tolist():
        calls, executions = _runs_on_track(functions, track), _runs_on_track(ops, track)
        named = executions.start + np.flatnonzero(ops.line[executions] >= 0)
        # The op's line is exact, so its time is not charged to the function around it.
        of_functions[calls] -= _self_times_in(functions, calls, union(ops, named))
        left = _self_times_in(ops, executions, union(functions, calls))
        of_ops[executions] -= np.where(ops.line[executions] < 0, left, 0)
    for runs, own in ((functions, of_functions), (ops, of_ops)):
        np.add.at(host, runs.line, own)
        outer = np.flatnonzero(runs.outermost)
        start, end = runs.start_ps[outer], runs.end_ps[outer]
        total_ps = end - start if within is None else within.within(start, end)
        np.add.at(total_host, runs.line[outer], total_ps)
    spent = source.device_ps
    if activities is not None:
        spent = np.where(activities, spent, 0)
    around = values_by_row(functions.line, source.device_function, none=-1)
    line_row = np.where(source.device_line >= 0, source.device_line, around)
    np.add.at(device, line_row, spent)
    exact = np.flatnonzero(source.device_line >= 0)
    np.add.at(total_device, source.device_line[exact], spent[exact])
    launched = _launched_device_ps(functions, source.device_function, spent)
    outer = np.flatnonzero(functions.outermost)
    np.add.at(total_device, functions.line[outer], launched[outer])
    # Time without a line has no callees, so its total time is its self time.
    total_host[count], total_device[count] = host[count], device[count]
    none = pl.DataFrame({name: [None] for name in LINES}, schema=LINES)
    rows = pl.concat([source.lines, none]).with_columns(
        pl.Series("op", _main_ops(source, of_ops, spent)),
        *(pl.Series(name, times[:, k]) for k, name in enumerate(_TIMES)),
    )
    took_time = pl.sum_horizontal(_TIMES) > 0
    rows = rows.select(*LINE_TIMES).filter(took_time | pl.col("file").is_null())
    if source.launches_known or not len(spent):
        return rows
    of_line = pl.col("function").is_null()
    return rows.with_columns(pl.when(of_line).then(name) for name in _TIMES[2:])


class _LineNumbers:
    """Distinct lines, numbered in the order in which they are added."""

    def __init__(self) -> None:
        self._number: dict[tuple[str, int, str | None, bool], int] = {}
        self._more: list[tuple[bool | None, str | None]] = []

    def number_line(
        self,
        position: tuple[str, int, str | None, bool],
        *,
        library: bool | None = None,
        event: str | None = None,
    ) -> int:
        number = self._number.setdefault(position, len(self._more))
        if number == len(self._more):
            self._more.append((library, event))
        return number

    def lines_of_ops(self, ops: pl.DataFrame) -> Int32s:
        """Return the line of each op, -1 for none."""
        return np.array(
            [
                self.number_line((file, line, None, True))
                if file and line is not None
                else _NONE
                for file, line in ops.select("source_file", "source_line").iter_rows()
            ],
            np.int32,
        )

    def to_frame(self) -> pl.DataFrame:
        rows = zip(self._number, self._more, strict=True)
        return pl.DataFrame(
            [(*place, *details) for place, details in rows], schema=LINES, orient="row"
        )


def _runs_of_functions(
    functions: FunctionLines | Unavailable, types: pl.DataFrame, lines: _LineNumbers
) -> Runs:
    """Return the calls of functions; calls without a file have the caller's line."""
    if isinstance(functions, Unavailable):
        return _runs_without_lines()
    events = types["name"].to_list()
    distinct = number_rows([functions.type, functions.line])
    line_of_code = np.full(distinct.count, _NONE)
    for code, row in enumerate(distinct.first.tolist()):
        name = functions.names[int(functions.type[row])]
        exact = bool(functions.line[row] >= 0)
        line = int(functions.line[row]) if exact else name.line
        if name.file is not None and line is not None:
            # Even if the first folders of its path are cut, a library is recognised.
            installed = _FRAMEWORK.search(f"{name.file}:") is not None
            line_of_code[code] = lines.number_line(
                (name.file, line, name.function, exact),
                library=installed or name.library,
                event=events[functions.type[row]],
            )
    track, start_ps, end_ps = functions.track, functions.start_ps, functions.end_ps
    nested = nest_subset(start_ps, end_ps - start_ps, track=track)
    return _number_runs(track, start_ps, end_ps, nested, line_of_code[distinct.code])


def _runs_without_lines() -> Runs:
    nothing = np.empty(0, np.int64)
    track = line = nothing.astype(np.int32)
    nested = nest_subset(nothing, nothing, track=track)
    return _number_runs(track, nothing, nothing, nested, line)


def _number_runs(
    track: Int32s,
    start_ps: Int64s,
    end_ps: Int64s,
    nested: Nesting | HostOpEvents,
    own_line: Int32s,
) -> Runs:
    """Build `Runs` from rows ordered by thread, then start, with their own lines."""
    line = inherit_labels(nested.parent, own_line.astype(np.int32))
    named = own_line >= 0
    outermost = named.copy()
    with_line = np.flatnonzero(named)
    # If nested rows have the same line, the first to begin is the outermost one.
    placed = pl.DataFrame(
        {"track": track[with_line], "line": line[with_line], "end": end_ps[with_line]}
    )
    before = pl.col("end").cum_max().shift(1).over("track", "line")
    ended = placed.select(before.fill_null(np.iinfo(np.int64).min)).to_series()
    outermost[with_line] = start_ps[with_line] >= ended.to_numpy()
    return Runs(
        *(track, start_ps, end_ps, nested.parent, nested.depth, nested.self_ps),
        *(line, named, outermost),
    )


def _inner_functions(functions: Runs, events: pl.DataFrame, calls: Int32s) -> Int32s:
    """Return the innermost function call around the start of each event of `calls`."""
    innermost = np.full(len(calls), _NONE)
    if not len(functions.track):
        return innermost
    known = np.flatnonzero(calls >= 0)
    track = handles(events, "track")[calls[known]]
    time = ints(events, "start_ps")[calls[known]]
    for thread in np.intersect1d(functions.track, track).tolist():
        rows = _runs_on_track(functions, thread)
        on_thread = np.flatnonzero(track == thread)
        last = np.searchsorted(functions.start_ps[rows], time[on_thread], side="right")
        innermost[known[on_thread]] = np.where(last > 0, rows.start + last - 1, _NONE)
    ends, parents = np.append(functions.end_ps, 0), np.append(functions.parent, _NONE)
    when = np.zeros(len(calls), np.int64)
    when[known] = time
    # If a function ended before the event, continue with the function around it.
    while len(over := np.flatnonzero((innermost >= 0) & (ends[innermost] <= when))):
        innermost[over] = parents[innermost[over]]
    return innermost


def _runs_on_track(runs: Runs, track: int) -> slice:
    first, last = np.searchsorted(runs.track, (track, track + 1))
    return slice(int(first), int(last))


def _self_times(runs: Runs, within: Spans | None) -> Int64s:
    times = runs.self_ps.copy()
    if within is not None:
        for track in np.unique(runs.track).tolist():
            rows = _runs_on_track(runs, track)
            times[rows] = _self_times_in(runs, rows, within)
    return times


def _self_times_in(runs: Runs, rows: slice, spans: Spans) -> Int64s:
    """Return the part of each row's self time that is within a set of times."""
    start, end = runs.start_ps[rows], runs.end_ps[rows]
    parent, depth = runs.parent[rows] - rows.start, runs.depth[rows]
    inside = np.flatnonzero(depth > 0)
    reach = end.copy()
    if (end[inside] > end[parent[inside]]).any():
        # If a row ends after the row around it, it keeps the time after that end.
        for level in range(int(depth.max()), 0, -1):
            level_rows = np.flatnonzero(depth == level)
            np.maximum.at(reach, parent[level_rows], reach[level_rows])
    own_ps = spans.within(start, end)
    until = np.minimum(reach[inside], end[parent[inside]])
    np.subtract.at(own_ps, parent[inside], spans.within(start[inside], until))
    return own_ps


def _launched_device_ps(functions: Runs, around: Int32s, spent: Int64s) -> Int64s:
    """Return by row the time of device work that function and callees launched."""
    device_ps = np.zeros(len(functions.line) + 1, np.int64)
    np.add.at(device_ps, around, spent)
    device_ps[-1] = 0
    launching = np.flatnonzero(device_ps)
    for level in range(int(functions.depth.max(initial=0)), 0, -1):
        level_rows = launching[functions.depth[launching] == level]
        above = functions.parent[level_rows]
        np.add.at(device_ps, above, device_ps[level_rows])
        launching = np.union1d(launching, above)
    return device_ps[:-1]


def _main_ops(source: SourceLines, host_ps: Int64s, device_ps: Int64s) -> pl.Series:
    """Return the op with most time of each line; the last entry is for no line."""
    named = np.where(source.ops.named, source.ops.line, _NONE)
    sides = []
    for line, op, names, spent in (
        (named, source.host_op, source.host_names, host_ps),
        (source.device_line, source.device_op, source.device_names, device_ps),
    ):
        summed = (
            pl.DataFrame({"line": line, "op": op, "spent": spent})
            .filter(pl.col("line") >= 0)
            .group_by("line", "op")
            .agg(pl.col("spent").sum())
        )
        sides.append(summed.with_columns(names.gather(summed["op"]).alias("op")))
    longest = (
        pl.concat(sides)
        .group_by("line", "op")
        .agg(pl.col("spent").sum())
        .sort("spent", "op", descending=[True, False])
        .unique("line", keep="first", maintain_order=True)
    )
    lines = pl.DataFrame({"line": np.arange(len(source.lines) + 1, dtype=np.int32)})
    return lines.join(longest, on="line", how="left", maintain_order="left")["op"]
