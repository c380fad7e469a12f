"""How much of the judged steps runs one op at a time, outside a graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.advice.signals.signal import signal
from stepscope.derive.columns.arrays import handles, ints
from stepscope.derive.host.op_events import host_op_events
from stepscope.derive.host.values import host_values
from stepscope.derive.intervals.nesting import nest_subset
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.names.event_kinds import EventFlag, OpCategory, event_kinds
from stepscope.derive.step_windows.windows import windows
from stepscope.frozen import Frozen
from stepscope.trace.reading.stat_keys import StatKey
from stepscope.unavailable import Unavailable, present
from stepscope.units import PS_PER_MS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.derive.host.op_events import HostOpEvents
    from stepscope.derive.profile_data import ProfileData
    from stepscope.thresholds import Thresholds

__all__ = ["EagerOps", "EagerSignals", "eager_signals"]

#: A longer pause between two ops is no way from one to the next.
_DISPATCH_PS: Final = PS_PER_MS
#: Ops that are named.
_SHOWN: Final = 3


class EagerOps(Frozen, frozen=True):
    """Ops of one host that ran one by one in its judged steps.

    Attributes:
        eager_ps: Self time of these ops.
        op_ps: Self time of all ops but those of input pipelines; null in JAX, whose
            calls enclose whatever they run.
        dispatch_ps: What running them one by one takes in each judged step: the time
            from the end of one such op to the begin of the next; in JAX, whose calls
            enclose whatever they run, also the calls, where no instruction runs.
        per_step: Mean number of these ops in a step.
        names: The ops with most of that time → their share of it, in percent.
    """

    eager_ps: int
    op_ps: int | None
    dispatch_ps: tuple[int, ...]
    per_step: float
    names: tuple[tuple[str, float], ...]

    @property
    def percent(self) -> float | None:
        """Return their share of the ops' own time; None where that is unknown."""
        return 100 * self.eager_ps / self.op_ps if self.op_ps else None

    def lead(self, thresholds: Thresholds) -> bool:
        """Return whether a step is such ops, and not only its input and sums."""
        share = self.percent
        many = self.per_step >= thresholds.eager_ops.value
        return many and (share is None or share >= thresholds.eager_warn.value)


class EagerSignals(Frozen, frozen=True):
    """What was recorded of ops that run one by one.

    Attributes:
        hosts: Host → its ops; only hosts whose framework tells how ops run.
        torch: Whether ops of PyTorch were recorded, which always run one by one.
    """

    hosts: dict[str, EagerOps]
    torch: bool


class _Runs(Frozen, frozen=True, eq=True):
    """Executions that may be eager, by row of their columns."""

    track: NDArray[np.int32]
    start_ps: NDArray[np.int64]
    end_ps: NDArray[np.int64]
    self_ps: NDArray[np.int64]
    eager: NDArray[np.bool_]
    name: pl.Series


@signal(host_op_events, event_kinds, host_values, windows)
def eager_signals(profile: ProfileData, _: Thresholds) -> EagerSignals | Unavailable:
    """Look at the ops of every host, and at the calls of JAX's compiled functions."""
    hosts: dict[str, EagerOps] = {}
    reasons: list[Unavailable] = []
    torch = False
    for host in profile.hosts:
        ops = profile.derived(host, host_op_events)
        if isinstance(ops, Unavailable):
            reasons.append(ops)
            continue
        category = ops.ops["category"].to_numpy()
        torch |= bool((category == OpCategory.TORCH).any())
        found = _of_tensorflow(profile, host, ops) or _of_jax(profile, host)
        if found is not None:
            hosts[host] = found
    if reasons and not hosts and not torch:
        return reasons[0]
    return EagerSignals(hosts, torch)


def _of_tensorflow(
    profile: ProfileData, host: str, ops: HostOpEvents
) -> EagerOps | None:
    """Return the eager ops; None where nothing says how the ops ran."""
    category = ops.ops["category"].to_numpy()[ops.op]
    counted = category != OpCategory.DATASET
    if not (ops.eager[counted] >= 0).any():
        return None
    events = present(profile.table(host, "events"))
    chosen = np.flatnonzero(counted)
    start = ops.start_ps[chosen]
    names = ops.ops.select(pl.coalesce("type", "name")).to_series()
    return _summed(
        profile,
        host,
        _Runs(
            track=handles(events, "track")[ops.event[chosen]],
            start_ps=start,
            end_ps=start + ops.dur_ps[chosen],
            self_ps=ops.self_ps[chosen],
            eager=ops.eager[chosen] == 1,
            name=names.gather(ops.op[chosen]),
        ),
    )


def _of_jax(profile: ProfileData, host: str) -> EagerOps | None:
    """Return the calls of compiled functions; None where there is none.

    Outside `jit` each primitive is a compiled function of its own.
    """
    events = present(profile.table(host, "events"))
    types = present(profile.table(host, "event_types"))["name"]
    kinds = present(profile.derived(host, event_kinds))
    rows = np.flatnonzero(kinds.has(EventFlag.PJIT)[handles(events, "type")])
    if not len(rows):
        return None
    start, dur = ints(events, "start_ps")[rows], ints(events, "dur_ps")[rows]
    track = handles(events, "track")[rows]
    outermost = np.flatnonzero(nest_subset(start, dur, track=track).parent < 0)
    rows, track = rows[outermost], track[outermost]
    start, dur = start[outermost], dur[outermost]
    names = types.gather(handles(events, "type")[rows])
    values = profile.derived(host, host_values)
    ran = (
        np.empty(0, np.int32)
        if isinstance(values, Unavailable)
        else values[StatKey.HLO_OP].owner
    )
    return _summed(
        profile,
        host,
        _Runs(
            track=track,
            start_ps=start,
            end_ps=start + dur,
            self_ps=dur,
            eager=np.ones(len(rows), np.bool_),
            name=names.str.strip_prefix("PjitFunction(").str.strip_suffix(")"),
        ),
        computing=Spans.from_events(
            ints(events, "start_ps")[ran], ints(events, "dur_ps")[ran]
        ),
    )


def _summed(
    profile: ProfileData, host: str, runs: _Runs, *, computing: Spans | None = None
) -> EagerOps | None:
    """Sum the executions that begin in judged steps.

    Args:
        profile: The profile.
        host: The host.
        runs: All ops; or the calls that run some, which are then eager themselves.
        computing: When what the calls run computes; None where the runs are ops.
    """
    measured = present(profile.derived(host, windows)).measured
    starts, ends = ints(measured, "start_ps"), ints(measured, "end_ps")
    window = np.searchsorted(starts, runs.start_ps, side="right") - 1
    judged = (window >= 0) & (runs.start_ps < ends[np.maximum(window, 0)])
    rows = pl.DataFrame(
        {
            "track": runs.track,
            "window": window,
            "start": runs.start_ps,
            "end": runs.end_ps,
            "self": runs.self_ps,
            "eager": runs.eager,
            "name": runs.name,
        }
    ).filter(pl.Series(judged))
    if not rows.height:
        return None
    eager = rows.filter("eager")
    eager_ps = int(eager["self"].sum())
    largest = (
        eager.group_by("name")
        .agg(pl.col("self").sum())
        .sort("self", "name", descending=[True, False])
        .head(_SHOWN)
    )
    return EagerOps(
        eager_ps=eager_ps,
        op_ps=int(rows["self"].sum()) if computing is None else None,
        dispatch_ps=(
            _dispatch(rows, len(starts), computing)
            if eager.height
            else (0,) * len(starts)
        ),
        per_step=eager.height / len(starts),
        names=tuple(
            (name, 100 * self_ps / eager_ps)
            for name, self_ps in largest.iter_rows()
            if eager_ps
        ),
    )


def _dispatch(
    rows: pl.DataFrame, steps: int, computing: Spans | None
) -> tuple[int, ...]:
    """Return the time in each step between one eager op and the next one.

    Of calls it is also the time in which nothing that they run computes.
    """
    ordered = rows.sort("track", "start", "end", descending=[False, False, True])
    before = pl.col("end").cum_max().shift(1).over("track")
    follows = pl.col("eager").shift(1).over("track") & pl.col("eager")
    ways = ordered.select("window", begin=before, end="start", follows=follows).filter(
        pl.col("follows")
        & (pl.col("begin") < pl.col("end"))
        & (pl.col("end") - pl.col("begin") <= _DISPATCH_PS)
    )
    spent = [(ways["window"], ints(ways, "begin"), ints(ways, "end"))]
    if computing is not None:
        spent.append((rows["window"], ints(rows, "start"), ints(rows, "end")))
    times = np.zeros(steps, np.int64)
    for window, begin, end in spent:
        own = end - begin
        if computing is not None:
            own = own - computing.within(begin, end)
        np.add.at(times, window.to_numpy(), own)
    return tuple(times.tolist())
