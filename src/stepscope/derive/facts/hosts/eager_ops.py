"""Share of the judged steps in which ops run one by one (eagerly), outside a graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.derive.columns.arrays import handles, ints, wanted_rows
from stepscope.derive.columns.dense_codes import totals_by_code
from stepscope.derive.intervals.nesting import nest_subset
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.names.event_kinds import EventFlag, HostClass, OpCategory
from stepscope.derive.run_derivation import first_reason, known_hosts, of_run
from stepscope.frozen import Frozen
from stepscope.trace.reading.stat_keys import StatKey
from stepscope.unavailable import Unavailable, require_available
from stepscope.units import PS_PER_MS

if TYPE_CHECKING:
    from stepscope.array_types import Bools, Int32s, Int64s
    from stepscope.derive.columns.stat_values import StatRows
    from stepscope.derive.host.op_events import HostOpEvents
    from stepscope.derive.names.event_kinds import EventKinds
    from stepscope.derive.run_derivation import OfHosts
    from stepscope.derive.step_windows.windows import Windows
    from stepscope.thresholds import Thresholds
    from stepscope.trace.model import TraceData

#: Maximum gap between two ops that counts as the dispatch of the second op.
_DISPATCH_PS: Final = PS_PER_MS
#: Maximum number of eager ops whose names are reported.
_MAX_OPS_NAMED: Final = 3


class EagerOps(Frozen, frozen=True):
    """Eager ops of one host in its judged steps.

    Attributes:
        eager_ps: Self time of the eager ops.
        op_ps: Self time of all ops except those of input pipelines; null in JAX, whose
            calls enclose the instructions that they run.
        dispatch_ps: Overhead of running ops one by one, by judged step: time from the
            end of an eager op to the start of the next one. In JAX also the time of the
            calls in which no instruction runs and nothing is compiled.
        per_step: Mean number of eager ops in a step.
        names: The eager ops with most self time → percentage of `eager_ps`.
    """

    eager_ps: int
    op_ps: int | None
    dispatch_ps: tuple[int, ...]
    per_step: float
    names: tuple[tuple[str, float], ...]

    @property
    def percent(self) -> float | None:
        """Return the share of eager ops in the self time of ops; None if unknown."""
        return 100 * self.eager_ps / self.op_ps if self.op_ps else None

    def lead(self, thresholds: Thresholds) -> bool:
        """Return whether eager ops take a large part of a step.

        A few eager ops for input or metrics do not count.
        """
        share = self.percent
        is_frequent = self.per_step >= thresholds.eager_ops.value
        return is_frequent and (share is None or share >= thresholds.eager_warn.value)


class EagerSignals(Frozen, frozen=True):
    """Eager ops of all hosts.

    Attributes:
        hosts: Host → its eager ops; only hosts whose framework records how ops run.
        torch: Whether ops of PyTorch were recorded, which always run one by one.
    """

    hosts: dict[str, EagerOps]
    torch: bool


class _Runs(Frozen, frozen=True, eq=True):
    """Op executions in judged steps, on threads with eager ops: one array entry each.

    Attributes:
        name: Row of `names`.
    """

    track: Int32s
    start_ps: Int64s
    end_ps: Int64s
    self_ps: Int64s
    eager: Bools
    name: Int32s
    names: pl.Series

    def chosen_rows(self, rows: Int64s) -> _Runs:
        return _Runs(
            *(self.track[rows], self.start_ps[rows], self.end_ps[rows]),
            self.self_ps[rows],
            self.eager[rows],
            self.name[rows],
            self.names,
        )


def host_eager_ops(
    *,
    trace: TraceData,
    host_op_events: HostOpEvents,
    event_kinds: EventKinds,
    host_values: dict[str, StatRows] | Unavailable,
    windows: Windows,
) -> tuple[EagerOps | None, bool]:
    """Return one host's eager ops, or its calls of JAX's compiled functions.

    The second value is True if any op is PyTorch's.
    """
    is_torch = host_op_events.ops["category"].to_numpy() == OpCategory.TORCH
    ops = _ops_of_tensorflow(trace, host_op_events, windows)
    ops = ops or _calls_of_jax(trace, event_kinds, host_values, windows)
    return ops, bool(is_torch.any())


@of_run
def eager_signals(
    *, host_eager_ops: OfHosts[tuple[EagerOps | None, bool]]
) -> EagerSignals | Unavailable:
    """Collect the eager ops of all hosts."""
    known = known_hosts(host_eager_ops)
    hosts = known_hosts({host: ops for host, (ops, _) in known.items()})
    torch = any(of_torch for _, of_torch in known.values())
    why = first_reason(host_eager_ops)
    if why is not None and not hosts and not torch:
        return why
    return EagerSignals(hosts, torch)


def _ops_of_tensorflow(
    trace: TraceData, ops: HostOpEvents, windows: Windows
) -> EagerOps | None:
    """Return the eager ops; None if the recording does not distinguish eager ops."""
    chosen = wanted_rows(ops.op, ops.ops["category"].to_numpy() != OpCategory.DATASET)
    if not (ops.eager[chosen] >= 0).any():
        return None
    # `judged` merges neighbouring steps into one interval, which makes the search fast.
    rows = chosen[windows.judged.holding(ops.start_ps[chosen]) >= 0]
    if not len(rows):
        return None
    op_ps = int(ops.self_ps[rows].sum())
    track = handles(require_available(trace.table("events")), "track")
    # Only threads with eager ops have gaps between eager ops.
    on_threads = track[ops.event[rows]]
    eager = ops.eager[rows] == 1
    has_eager = np.bincount(on_threads[eager], minlength=int(on_threads.max()) + 1) > 0
    kept = has_eager[on_threads]
    rows, on_threads, eager = rows[kept], on_threads[kept], eager[kept]
    start = ops.start_ps[rows]
    runs = _Runs(
        *(on_threads, start, start + ops.dur_ps[rows], ops.self_ps[rows]),
        eager,
        ops.op[rows],
        ops.ops.select(pl.coalesce("type", "name")).to_series(),
    )
    return _sum_runs(windows, runs, op_ps=op_ps)


def _calls_of_jax(
    trace: TraceData,
    kinds: EventKinds,
    values: dict[str, StatRows] | Unavailable,
    windows: Windows,
) -> EagerOps | None:
    """Return the calls of JAX's compiled functions as eager ops; None without calls.

    Outside `jit` each primitive is a separate compiled function.
    """
    events = require_available(trace.table("events"))
    types = require_available(trace.table("event_types"))["name"]
    starts, lengths = ints(events, "start_ps"), ints(events, "dur_ps")
    rows = wanted_rows(handles(events, "type"), kinds.has(EventFlag.PJIT))
    if not len(rows):
        return None
    track = handles(events, "track")[rows]
    outer = nest_subset(starts[rows], lengths[rows], track=track).parent < 0
    outer &= windows.judged.holding(starts[rows]) >= 0
    rows, track = rows[outer], track[outer]
    if not len(rows):
        return None
    # Compilation within a call is the subject of `xla.recompile`.
    busy = wanted_rows(handles(events, "type"), kinds.host_class == HostClass.COMPILE)
    if not isinstance(values, Unavailable):
        busy = np.union1d(busy, values[StatKey.HLO_OP].owner)
    start, length = starts[rows], lengths[rows]
    runs = _Runs(
        *(track, start, start + length, length, np.ones(len(rows), np.bool_)),
        handles(events, "type")[rows],
        types.str.strip_prefix("PjitFunction(").str.strip_suffix(")"),
    )
    return _sum_runs(windows, runs, busy=Spans.from_events(starts[busy], lengths[busy]))


def _sum_runs(
    windows: Windows,
    runs: _Runs,
    *,
    op_ps: int | None = None,
    busy: Spans | None = None,
) -> EagerOps:
    """Sum the executions of eager ops, or of compiled functions called one by one.

    Args:
        runs: The executions.
        op_ps: Self time of all ops in judged steps; null for compiled functions.
        busy: When instructions run or functions are compiled; None for ops.
    """
    starts = ints(windows.measured, "start_ps")
    window = np.searchsorted(starts, runs.start_ps, side="right") - 1
    eager = np.flatnonzero(runs.eager)
    total = totals_by_code(runs.name[eager], runs.self_ps[eager], count=len(runs.names))
    eager_ps = int(total.total.sum())
    largest = (
        pl.DataFrame({"name": runs.names, "self": total.total})
        .filter(pl.Series(total.count > 0))
        .group_by("name")
        .agg(pl.col("self").sum())
        .sort("self", "name", descending=[True, False])
        .head(_MAX_OPS_NAMED)
    )
    # The overhead in each step is the time between consecutive eager ops. For compiled
    # functions it also includes the time of calls that is not busy.
    spent = [_gaps_between_ops(runs, window)]
    if busy is not None:
        spent.append((window, runs.start_ps, runs.end_ps))
    times = np.zeros(len(starts), np.int64)
    for of_step, begin, end in spent:
        own = end - begin
        if busy is not None:
            own = own - busy.within(begin, end)
        np.add.at(times, of_step, own)
    return EagerOps(
        eager_ps=eager_ps,
        op_ps=op_ps,
        dispatch_ps=tuple(times.tolist()),
        per_step=len(eager) / len(starts),
        names=tuple(
            (name, 100 * self_ps / eager_ps)
            for name, self_ps in largest.iter_rows()
            if eager_ps
        ),
    )


def _gaps_between_ops(runs: _Runs, window: Int64s) -> tuple[Int64s, Int64s, Int64s]:
    """Return the step, start and end of each gap between two consecutive eager ops."""
    if not _is_in_order(runs):
        order = np.lexsort((-runs.end_ps, runs.start_ps, runs.track))
        runs, window = runs.chosen_rows(order), window[order]
    latest = runs.end_ps.copy()
    for part in np.split(latest, np.flatnonzero(np.diff(runs.track)) + 1):
        np.maximum.accumulate(part, out=part)
    begin, end = latest[:-1], runs.start_ps[1:]
    follows = runs.eager[:-1] & runs.eager[1:] & (runs.track[:-1] == runs.track[1:])
    is_gap = follows & (begin < end) & (end - begin <= _DISPATCH_PS)
    return window[1:][is_gap], begin[is_gap], end[is_gap]


def _is_in_order(runs: _Runs) -> bool:
    """Return whether executions are sorted by track, then start, then longest first."""
    further = [
        column[1:] - column[:-1] for column in (runs.track, runs.start_ps, runs.end_ps)
    ]
    track, start, end = further
    back = (track == 0) & ((start < 0) | ((start == 0) & (end > 0)))
    return not (back | (track < 0)).any()
