"""What each call of the chosen ops computed and moved, as far as it is known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.derive.columns.dense_codes import combined
from stepscope.derive.costs.families import calls_only
from stepscope.derive.device.attribution import activity_ops
from stepscope.derive.device.executions import device_executions
from stepscope.derive.host.op_events import host_op_events
from stepscope.derive.ops.execution_costs import execution_costs, run_costs
from stepscope.trace.reading.nullable import nullable
from stepscope.unavailable import Unavailable, present

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.analysis.framework_op_stats.work import OpWork
    from stepscope.derive.ops.execution_costs import ExecutionCosts
    from stepscope.derive.profile_data import ProfileData

_UNKNOWN: Final = -1


def call_costs(profile: ProfileData, work: OpWork) -> pl.DataFrame:
    """Return by call `flops` and `accessed_bytes`; null where they are not known.

    They are those of the work that the call's time is of: of calls inside each other
    the innermost has it.
    """
    count = len(work.calls)
    flops = np.full(count, _UNKNOWN, np.int64)
    accessed = np.full(count, _UNKNOWN, np.int64)
    _of_executions(profile, work, flops, accessed)
    _of_programs(profile, work, flops, accessed)
    return pl.DataFrame(
        [
            nullable("flops", flops, flops >= 0),
            nullable("accessed_bytes", accessed, accessed >= 0),
        ]
    )


def _of_executions(
    profile: ProfileData,
    work: OpWork,
    flops: NDArray[np.int64],
    accessed: NDArray[np.int64],
) -> None:
    """Fill in, in place, the calls that host events show."""
    costs = profile.derived(work.host, execution_costs)
    events = profile.derived(work.host, host_op_events)
    if not work.executions or isinstance(costs, Unavailable):
        return
    event = work.calls["event"].head(work.executions).to_numpy()
    place = np.searchsorted(present(events).event, event)
    call = _innermost(costs, place)
    worked = np.ones(len(call), np.bool_)
    if "device_activity" not in work.absent:
        worked = present(profile.derived(work.host, device_executions)).launched
    # What an op that only calls others has as its own says nothing of their work.
    types = work.calls["type"].head(work.executions).fill_null("").to_list()
    callers = {one: calls_only(one) for one in set(types)}
    tells = ~np.array([callers[one] for one in types], np.bool_)
    inside = call >= 0
    telling = tells & (costs.flops[place] >= 0)
    flops[: work.executions] = _sums(costs.flops, call, inside, worked, telling)
    # What an op reads and writes is told by its own operands; those of the ops that it
    # calls are in part its own intermediate results.
    own = costs.accessed_bytes[place]
    others = _sums(costs.accessed_bytes, call, inside & worked, worked, own >= 0)
    outer = _around_others(costs, call, place)
    accessed[: work.executions] = np.where(
        outer, _UNKNOWN, np.where(own >= 0, own, others)
    )


def _innermost(costs: ExecutionCosts, place: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return by execution the innermost call that it is or lies in, -1 for none."""
    call = np.full(len(costs.parent), -1, np.int64)
    call[place] = np.arange(len(place))
    order = np.argsort(costs.depth, kind="stable")
    cuts = np.flatnonzero(np.diff(costs.depth[order])) + 1
    # One round per level of nesting, the outermost first.
    for rows in np.split(order, cuts)[1:]:
        open_rows = rows[call[rows] < 0]
        call[open_rows] = call[costs.parent[open_rows]]
    return call


def _sums(
    values: NDArray[np.int64],
    call: NDArray[np.int64],
    inside: NDArray[np.bool_],
    worked: NDArray[np.bool_],
    telling: NDArray[np.bool_],
) -> NDArray[np.int64]:
    """Add up by call; unknown where work is, unless the call's own operands tell it."""
    count = len(telling)
    known = inside & (values >= 0)
    total = np.zeros(count, np.int64)
    np.add.at(total, call[known], values[known])
    told = np.bincount(call[known], minlength=count) > 0
    lost = inside & worked & (values < 0)
    doubtful = np.bincount(call[lost], minlength=count) > 0
    complete = told & (~doubtful | telling)
    return np.where(complete, total, _UNKNOWN)


def _around_others(
    costs: ExecutionCosts, call: NDArray[np.int64], place: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Return which calls hold another chosen one, whose time is not theirs."""
    parent = costs.parent[place]
    around = np.zeros(len(place), np.bool_)
    outer = call[parent[parent >= 0]]
    around[outer[outer >= 0]] = True
    return around


def _of_programs(
    profile: ProfileData,
    work: OpWork,
    flops: NDArray[np.int64],
    accessed: NDArray[np.int64],
) -> None:
    """Fill in, in place, the calls that only devices show, by their instructions."""
    if "device_activity" in work.absent or len(work.calls) == work.executions:
        return
    costs = profile.derived(work.host, run_costs)
    ops = present(profile.derived(work.host, activity_ops))
    if isinstance(costs, Unavailable):
        return
    mine = work.call >= work.executions
    call, op = work.call[mine], ops.op[work.activity[mine]]
    # An instruction ran once in a call, however many kernels it has.
    runs = combined([call.astype(np.int32), op.astype(np.int32)]).first
    call, op = call[runs], op[runs]
    for name, target in (("flops", flops), ("accessed_bytes", accessed)):
        value = costs[name].fill_null(_UNKNOWN).to_numpy()[op]
        total = np.zeros(len(target), np.int64)
        np.add.at(total, call, np.maximum(value, 0))
        total[call[value < 0]] = _UNKNOWN
        target[work.executions :] = total[work.executions :]
