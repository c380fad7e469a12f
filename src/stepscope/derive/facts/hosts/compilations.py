"""Compilations in the judged steps: which functions, in how many steps, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.derive.columns.arrays import handles, ints, wanted_rows
from stepscope.derive.columns.stat_values import find_handle, owner_texts, rows_with_key
from stepscope.derive.host.values import traced_calls
from stepscope.derive.names.event_kinds import EventFlag, HostClass
from stepscope.derive.run_derivation import of_each_host
from stepscope.derive.step_windows.windows import windows_of_times
from stepscope.frozen import Frozen
from stepscope.patterns import Pattern
from stepscope.trace.reading.stat_keys import StatKey
from stepscope.unavailable import Unavailable, require_available

if TYPE_CHECKING:
    from stepscope.array_types import Int64s
    from stepscope.derive.columns.stat_values import StatRows
    from stepscope.derive.names.event_kinds import EventKinds
    from stepscope.derive.step_windows.windows import Windows
    from stepscope.trace.model import TraceData

#: Number of steps at the start in which compiling is normal; later steps reuse code.
FIRST_STEPS: Final = 2
#: Number of calls before an event among which the call that encloses it is searched.
_MAX_CALLS_SEARCHED: Final = 64
#: A call of a compiled function of JAX, with the name of the function.
_CALL: Final = Pattern(r"^PjitFunction\((?P<function>.+)\)$")
#: Names of compilation events that contain the name of the compiled function or module.
_FUNCTION: Final = Pattern(
    r"^compilation of (?P<listener>.+)$"
    r"|^XlaCompile(?:Backend)?:#(?:.*,)?module=(?P<module>[^,#]+)"
)


class CompiledFunction(Frozen, frozen=True):
    """A compiled function, or a compilation stage if the function is unknown.

    Attributes:
        steps: Number of judged steps (first ones excluded) in which it was compiled.
        time_ps: Time of its compilations in these steps.
        reason: The framework's reason for compiling; None if not recorded.
    """

    name: str
    steps: int
    time_ps: int
    reason: str | None = None


@of_each_host
def compile_signals(
    *,
    trace: TraceData,
    events: pl.DataFrame,
    event_kinds: EventKinds,
    host_values: dict[str, StatRows] | Unavailable,
    windows: Windows,
) -> tuple[CompiledFunction, ...] | None:
    """Return what each host compiled after its first judged steps, most time first."""
    compiles = event_kinds.host_class == HostClass.COMPILE
    rows = wanted_rows(handles(events, "type"), compiles)
    traced = np.empty(0, np.int64)
    if not isinstance(host_values, Unavailable):
        calls, retraced = traced_calls(trace, host_values)
        traced = calls[retraced].astype(np.int64)
    rows = np.union1d(rows, traced)
    if not len(rows):
        return None
    return _compiled_functions(trace, event_kinds, windows.measured, rows, traced)


def _compiled_functions(
    trace: TraceData,
    kinds: EventKinds,
    measured: pl.DataFrame,
    rows: Int64s,
    traced: Int64s,
) -> tuple[CompiledFunction, ...]:
    events = require_available(trace.table("events"))
    names = require_available(trace.table("event_types"))["name"]
    begin = ints(events, "start_ps")[rows]
    window = windows_of_times(measured, begin)
    late = window >= FIRST_STEPS
    rows, begin, window = rows[late], begin[late], window[late]
    reasons: list[str | None] = [None] * len(rows)
    stats = trace.table("stats")
    if not isinstance(stats, Unavailable):
        handle = find_handle(trace.strings, StatKey.REASON)
        values = rows_with_key(stats, "event", handle)
        reasons = owner_texts(trace, values, rows.astype(np.int32), handle)
    stop = begin + ints(events, "dur_ps")[rows]
    types = names[handles(events, "type")[rows]].to_list()
    calls = _PjitCalls.calls_on_threads(trace, kinds, rows)
    functions: list[str | None] = []
    for name, row, is_call in zip(types, rows, np.isin(rows, traced), strict=True):
        match = None if is_call else _FUNCTION.match(name)
        function = name if is_call else match and (match["listener"] or match["module"])
        functions.append(function or calls.function_around(int(row)))
    frame = pl.DataFrame(
        {
            "name": [own or name for own, name in zip(functions, types, strict=True)],
            "window": window,
            "begin": begin,
            "stop": stop,
            "track": handles(events, "track")[rows],
            "function": [function is not None for function in functions],
            "reason": pl.Series(reasons, dtype=pl.String),
        }
    )
    # Compilation events inside another compilation event are removed. Of events with
    # equal intervals, the event that names a function remains.
    ordered = frame.sort(
        "track", "begin", "stop", "function", descending=[False, False, True, True]
    )
    reach = pl.col("stop").cum_max().shift(1).over("track")
    summed = (
        ordered.filter(reach.is_null() | (pl.col("begin") >= reach))
        .group_by("name", maintain_order=True)
        .agg(
            pl.col("window").n_unique().alias("steps"),
            (pl.col("stop") - pl.col("begin")).sum().alias("time_ps"),
            pl.col("reason").drop_nulls().first(),
        )
        .sort("time_ps", "name", descending=[True, False])
    )
    return tuple(CompiledFunction(**row) for row in summed.iter_rows(named=True))


class _PjitCalls(Frozen, frozen=True):
    """Calls of JAX's compiled functions, on the threads that compile functions.

    Attributes:
        names: Event names by type.
        rows: Thread → rows of its calls, by start.
    """

    events: pl.DataFrame
    names: pl.Series
    rows: dict[int, Int64s]

    @classmethod
    def calls_on_threads(
        cls, trace: TraceData, kinds: EventKinds, compiling: Int64s
    ) -> _PjitCalls:
        events = require_available(trace.table("events"))
        names = require_available(trace.table("event_types"))["name"]
        tracks, starts = handles(events, "track"), ints(events, "start_ps")
        rows = wanted_rows(handles(events, "type"), kinds.has(EventFlag.PJIT))
        rows = rows[np.argsort(starts[rows], kind="stable")]
        threads = np.unique(tracks[compiling]).tolist()
        rows_by_thread = {track: rows[tracks[rows] == track] for track in threads}
        return cls(events, names, rows_by_thread)

    def function_around(self, row: int) -> str | None:
        """Return the function whose call encloses an event; None without a call."""
        starts, lasts = ints(self.events, "start_ps"), ints(self.events, "dur_ps")
        rows = self.rows[int(handles(self.events, "track")[row])]
        past = int(np.searchsorted(starts[rows], starts[row], side="right"))
        end = starts[row] + lasts[row]
        # The innermost enclosing call began last. Calls are rarely nested deeply.
        for call in rows[max(past - _MAX_CALLS_SEARCHED, 0) : past][::-1].tolist():
            if starts[call] + lasts[call] >= end:
                match = _CALL.match(self.names[int(handles(self.events, "type")[call])])
                return None if match is None else match["function"]
        return None
