"""Launches that one thread makes while a range of another waits for them.

A framework runs the backward pass on a thread of its own: the range that the program
put around it holds no launch call, and its thread is silent until the other is done.

Definition: docs/tools/model_views.md#time-per-annotation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.derive.columns.arrays import handles, ints
from stepscope.derive.intervals.nesting import innermost_at
from stepscope.derive.names.event_kinds import EventFlag
from stepscope.trace.reading.by_row import by_row

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TypeAlias

    import polars as pl
    from numpy.typing import NDArray

    from stepscope.derive.intervals.nesting import Nesting
    from stepscope.derive.names.event_kinds import EventKinds

    #: By moment: the innermost call of a range that a thread is in, -1 for none, and
    #: whether no op and no call of a driver runs there.
    _Waiting: TypeAlias = tuple[NDArray[np.int32], NDArray[np.bool_]]

#: So much of what a thread launches during a range must fall into its silence.
_SILENT: Final = 0.99


def charge_lent_launches(
    of_event: NDArray[np.int32],
    of_launch: NDArray[np.int32],
    *,
    tracks: pl.DataFrame,
    events: pl.DataFrame,
    kinds: EventKinds,
    nesting: Nesting,
    launches: pl.DataFrame,
) -> NDArray[np.int32]:
    """Charge launches in no range to the one range that waits for their thread.

    That is the innermost range of another thread at that moment, where no third thread
    has one, and where nearly all that the launching thread launches during a call of
    it falls into stretches in which no op and no call of a driver ran in the range. The
    silence of a thread that never runs any says nothing.

    Args:
        of_event: By row of events, the innermost call of a range around it, else -1.
        of_launch: The same by row of launches.
        tracks: The table.
        events: The table.
        kinds: What kind of event each type is.
        nesting: The event around each event.
        launches: The table.
    """
    launching = handles(launches, "track")
    lone = np.flatnonzero(of_launch < 0)
    if not len(lone):
        return of_launch
    types, is_op = handles(events, "type"), kinds.is_op()
    launches_some = np.zeros(len(tracks), np.bool_)
    launches_some[launching] = True
    ranges = zip(ints(tracks, "event_begin"), ints(tracks, "event_end"), strict=True)
    holders = [
        track
        for track, (begin, end) in enumerate(ranges)
        if (of_event[begin:end] >= 0).any()
        and (launches_some[track] or is_op[types[begin:end]].any())
    ]
    charged = of_launch.copy()
    for several in np.split(lone, np.flatnonzero(np.diff(launching[lone])) + 1):
        own = launching[several[0]]
        at_ps = ints(launches, "start_ps")[several]
        waiting = [
            _calls_of_holder(
                holder,
                at_ps,
                of_event,
                tracks=tracks,
                events=events,
                kinds=kinds,
                nesting=nesting,
            )
            for holder in holders
            if holder != own
        ]
        if waiting:
            charged[several] = _keep_silent_calls(*_keep_only_holder(waiting))
    return charged


def _calls_of_holder(
    holder: int,
    at_ps: NDArray[np.int64],
    of_event: NDArray[np.int32],
    *,
    tracks: pl.DataFrame,
    events: pl.DataFrame,
    kinds: EventKinds,
    nesting: Nesting,
) -> _Waiting:
    """Return by moment the call that a thread is in, and whether it is silent."""
    around = innermost_at(
        at_ps,
        ints(events, "start_ps"),
        ints(events, "dur_ps"),
        nesting.parent,
        rows=(int(tracks["event_begin"][holder]), int(tracks["event_end"][holder])),
    )
    through = kinds.has(EventFlag.ANNOTATION | EventFlag.PYTHON_FRAME)
    type_ = by_row(handles(events, "type"), around, none=-1)
    return by_row(of_event, around, none=-1), by_row(through, type_, none=False)


def _keep_only_holder(waiting: Sequence[_Waiting]) -> _Waiting:
    """Keep the moments at which only one of several threads is in a call."""
    call, silent = waiting[0]
    count = (call >= 0).astype(np.int32)
    for its_call, its_silence in waiting[1:]:
        inside = its_call >= 0
        count += inside
        call = np.where(inside, its_call, call)
        silent = np.where(inside, its_silence, silent)
    return np.where(count == 1, call, np.int32(-1)), silent


def _keep_silent_calls(
    call: NDArray[np.int32], silent: NDArray[np.bool_]
) -> NDArray[np.int32]:
    """Keep the calls that are silent at nearly all moments of one thread's launches."""
    lent = np.flatnonzero(call >= 0)
    count = np.bincount(call[lent])
    quiet = np.bincount(call[lent[silent[lent]]], minlength=len(count))
    kept = by_row(quiet >= _SILENT * count, call, none=False)
    return np.where(kept, call, np.int32(-1))
