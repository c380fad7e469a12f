"""`event_nesting`: the event around each event. `launching_ops`: ops around calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepscope._core.nesting import inherit_from_parents
from stepscope.derive.columns.arrays import accepted_answer, handles
from stepscope.derive.host.values import int_values
from stepscope.derive.intervals.nesting import Nesting, nest_events
from stepscope.derive.names.event_kinds import OpCategory
from stepscope.frozen import Frozen
from stepscope.trace.reading.by_row import values_by_row
from stepscope.trace.reading.stat_keys import StatKey
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

    import polars as pl

    from stepscope.array_types import Int32s
    from stepscope.derive.columns.stat_values import StatRows
    from stepscope.derive.host.op_events import HostOpEvents


class LaunchingOps(Frozen, frozen=True):
    """The op execution to which each launch call belongs; -1 for none.

    Attributes:
        execution: int32 by row of launches; index into the arrays of `host_op_events`.
        op: int32 by row of launches; a row of `ops`.
        ops: `HostOpEvents.ops`.
    """

    execution: Int32s
    op: Int32s
    ops: pl.DataFrame


def launching_ops(
    *, launches: pl.DataFrame, event_nesting: Nesting, host_op_events: HostOpEvents
) -> LaunchingOps:
    """Find the innermost op event around each launch call, on the thread of the call.

    Iterators of an input pipeline, function calls and control flow do not launch work
    themselves, so the search skips them.
    """
    ops = host_op_events.ops
    launching = ((ops["category"] != int(OpCategory.DATASET)) & ~ops["call"]).to_numpy()
    chosen = np.flatnonzero(values_by_row(launching, host_op_events.op))
    label = np.full(len(event_nesting.parent), -1, np.int32)
    label[host_op_events.event[chosen]] = chosen
    event = handles(launches, "event")
    # Events before the first op event or after the last launch call are not needed.
    begin = int(host_op_events.event[chosen[0]]) if len(chosen) else 0
    end = max(int(event.max(initial=-1)) + 1, begin)
    accepted_answer(inherit_from_parents(event_nesting.parent, label, begin, end))
    execution = values_by_row(label, event)
    op = values_by_row(host_op_events.op, execution, none=-1)
    return LaunchingOps(execution, op, ops)


def event_nesting(
    *,
    tracks: pl.DataFrame,
    events: pl.DataFrame,
    host_values: Mapping[str, StatRows] | Unavailable,
) -> Nesting:
    """Nest all events except those whose value `_a` marks them as asynchronous.

    An asynchronous event is on a thread's track but did not run on that thread.

    Definition: docs/definitions/names-and-events.md#nesting-and-self-time.
    """
    if isinstance(host_values, Unavailable):
        return nest_events(tracks, events)
    owner, flag = int_values(host_values[StatKey.ASYNCHRONOUS])
    flat_rows = np.unique(owner[flag != 0]).astype(np.int64)
    return nest_events(tracks, events, flat_rows=flat_rows if len(flat_rows) else None)
