"""`recording_end`: when a callback begins to end the recording, after the last step.

Keras's TensorBoard callback records one batch by default. After this batch it writes
the graph and a summary, and then stops the profiler. This work is recorded although no
step of the training contains it.

Definition: docs/how-steps-are-found.md#windows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepscope.derive.columns.arrays import handles, ints, wanted_rows
from stepscope.derive.names.event_kinds import EventFlag, HostClass
from stepscope.trace.reading.nullable import absent_mask

if TYPE_CHECKING:
    import polars as pl

    from stepscope.derive.names.event_kinds import EventKinds
    from stepscope.derive.steps.chosen import Steps

#: Calls that run a whole step. Ops of a callback run one by one, outside such a call.
_STEP_CALLS = EventFlag.FUNCTION_CALL | EventFlag.PJIT | EventFlag.FUNCTION_RUN


def recording_end(
    *,
    steps: Steps,
    tracks: pl.DataFrame,
    events: pl.DataFrame,
    event_kinds: EventKinds,
) -> int | None:
    """Return when the work begins that ends the recording; None if none was recorded.

    It begins with the first op after the last call of a step, on the thread that then
    writes a summary or a checkpoint. A type of writing that also occurs before the last
    step is a part of the training.
    """
    types, track = handles(events, "type"), handles(events, "track")
    start_ps = ints(events, "start_ps")
    on_host = absent_mask(tracks["device"])
    writing = event_kinds.host_class == HostClass.OUTPUT
    if not writing.any():
        return None
    rows = wanted_rows(types, writing)
    rows = rows[on_host[track[rows]]]
    called = wanted_rows(types, event_kinds.has(_STEP_CALLS))
    last_begin_ps = int(ints(steps.rows, "start_ps")[-1])
    earlier = np.unique(types[rows[start_ps[rows] < last_begin_ps]])
    rows = rows[~np.isin(types[rows], earlier)]
    if not len(rows):
        return None
    first = int(rows[np.argmin(start_ps[rows])])
    calls = called[track[called] == track[first]]
    before = calls[start_ps[calls] < start_ps[first]]
    if not len(before) or len(before) < len(calls):
        return None
    done_ps = int((start_ps[before] + ints(events, "dur_ps")[before]).max())
    ops = wanted_rows(
        types, event_kinds.is_op() | event_kinds.has(EventFlag.EAGER_WRAPPER)
    )
    begins_ps = start_ps[ops[track[ops] == track[first]]]
    return int(begins_ps[begins_ps >= done_ps].min(initial=start_ps[first]))
