"""Where ops run while a thread of the same process waits in an exchange.

One process may hold several workers: the devices that JAX makes of a host's cores. One
that has come to an exchange then waits for the ops that the others still run here.

Definition: docs/where-a-steps-time-goes.md#what-the-host-did.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.derive.columns.arrays import handles
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.names.event_kinds import EventFlag, HostClass
from stepscope.derive.step_time.host_codes import HostCode

if TYPE_CHECKING:
    from collections.abc import Mapping

    import polars as pl
    from numpy.typing import NDArray

    from stepscope.derive.intervals.track_rows import TrackRows
    from stepscope.derive.names.event_kinds import EventKinds
    from stepscope.derive.step_time.pool_tasks import PoolTasks

#: Classes of what hands ops on, and waits for them.
_HANDS_ON: Final = (HostClass.EXECUTOR, HostClass.EXECUTABLE, HostClass.DISPATCH)
_CALLS: Final = (
    *(EventFlag.FUNCTION_CALL, EventFlag.FUNCTION_RUN, EventFlag.PJIT),
    *(EventFlag.EAGER_WRAPPER, EventFlag.EXECUTOR, EventFlag.EXECUTABLE),
)
#: A task that does one of these does not compute meanwhile.
_WAITS: Final = (HostCode.PEER, HostCode.SYNC, HostCode.BLOCKED)


def ops_beside_exchanges(
    events: pl.DataFrame,
    kinds: EventKinds,
    tasks: PoolTasks,
    *,
    code: NDArray[np.uint8],
    sets: Mapping[int, Mapping[int, Spans]],
    rows: TrackRows,
) -> Spans:
    """Return when any thread runs an op, an instruction or a task of one.

    What calls a program and waits for it is none of these. Nothing is worked out where
    no thread exchanges anything.

    Args:
        events: The table.
        kinds: What the names of the events say.
        tasks: The tasks of the ops, on whatever thread they ran.
        code: A `HostCode` per event.
        sets: Row of tracks → code → where the thread has it.
        rows: The rows of events of each track.
    """
    if not any(HostCode.PEER in found for found in sets.values()):
        return Spans.empty()
    types = handles(events, "type")
    is_op = ~np.isin(kinds.host_class, _HANDS_ON)
    for flag in _CALLS:
        is_op &= ~kinds.has(flag)
    computing: list[Spans] = []
    for track, found in sets.items():
        mine = rows.rows(track)
        ops = (code[mine] == HostCode.HOST_COMPUTE) & is_op[types[mine]]
        ran = found.get(HostCode.HOST_COMPUTE, Spans.empty())
        computing.append(ran & rows.spans(mine, ops))
        of = tasks.track == track
        start = tasks.start_ps[of]
        task = Spans.from_events(start, tasks.end_ps[of] - start)
        waits = Spans.union_of(found.get(it, Spans.empty()) for it in _WAITS)
        computing.append(task - waits)
    return Spans.union_of(computing)
