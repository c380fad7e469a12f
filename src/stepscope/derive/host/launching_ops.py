"""`launching_ops`: the op on the host inside which each launch call was made."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepscope._core.nesting import inherit
from stepscope.derive.columns.arrays import handles
from stepscope.derive.names.event_kinds import OpCategory
from stepscope.frozen import Frozen
from stepscope.trace.reading.by_row import by_row

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray

    from stepscope.derive.host.op_events import HostOpEvents
    from stepscope.derive.intervals.nesting import Nesting


class LaunchingOps(Frozen, frozen=True):
    """The execution that each launch call belongs to; -1 where there is none.

    Attributes:
        execution: int32 by row of launches; a place in the arrays of
            `host_op_events`.
        op: int32 by row of launches; a row of `ops`.
        ops: `HostOpEvents.ops`.
    """

    execution: NDArray[np.int32]
    op: NDArray[np.int32]
    ops: pl.DataFrame


def launching_ops(
    *, launches: pl.DataFrame, event_nesting: Nesting, host_op_events: HostOpEvents
) -> LaunchingOps:
    """Find the nearest op event around each launch call, on its own thread.

    Iterators of an input pipeline, calls of functions and control flow launch
    nothing themselves: the search goes through them.
    """
    ops = host_op_events.ops
    launching = ((ops["category"] != int(OpCategory.DATASET)) & ~ops["call"]).to_numpy()
    chosen = np.flatnonzero(by_row(launching, host_op_events.op))
    label = np.full(len(event_nesting.parent), -1, np.int32)
    label[host_op_events.event[chosen]] = chosen
    event = handles(launches, "event")
    # Nothing before the first op event or after the last launch call matters.
    begin = int(host_op_events.event[chosen[0]]) if len(chosen) else 0
    end = max(int(event.max(initial=-1)) + 1, begin)
    answer = inherit(event_nesting.parent, label, begin, end)
    if answer < 0:
        raise ValueError(f"the kernel refused its arrays ({answer})")
    execution = by_row(label, event)
    op = by_row(host_op_events.op, execution, none=-1)
    return LaunchingOps(execution, op, ops)
