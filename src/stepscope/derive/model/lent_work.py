"""Launches that one thread makes while a range of another waits for them.

A framework runs the backward pass on a thread of its own: the range that the program
put around it holds no launch call, and its thread is silent until the other is done.

Definition: docs/tools/model_views.md#time-per-annotation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.derive.columns.arrays import handles, ints
from stepscope.derive.columns.dense_codes import combined
from stepscope.derive.names.event_kinds import EventFlag

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray

    from stepscope.derive.intervals.nesting import Nesting
    from stepscope.derive.names.event_kinds import EventKinds

__all__ = ["with_lent_work"]

#: So much of what a thread launches during a range must fall into its silence.
_SILENT: Final = 0.99


def with_lent_work(
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
    lone = np.flatnonzero(of_launch < 0)
    track = handles(events, "track")
    types = handles(events, "type")
    if not len(lone):
        return of_launch
    launching = handles(launches, "event")
    telling = _some(len(tracks), track[launching], track[kinds.is_op()[types]])
    holders = np.flatnonzero(telling & _some(len(tracks), track[of_event >= 0]))
    rows = launching[lone]
    at_ps, thread = ints(events, "start_ps")[rows], track[rows]
    through = kinds.has(EventFlag.ANNOTATION | EventFlag.PYTHON_FRAME)
    found = np.full(len(lone), -1, np.int32)
    several = np.zeros(len(lone), np.bool_)
    silent = np.zeros(len(lone), np.bool_)
    for holder in holders.tolist():
        theirs = np.flatnonzero(thread != holder)
        around = _around(holder, at_ps[theirs], tracks, events, nesting)
        here = np.flatnonzero((around >= 0) & (of_event[around] >= 0))
        theirs, around = theirs[here], around[here]
        several[theirs] |= found[theirs] >= 0
        found[theirs] = of_event[around]
        silent[theirs] = through[types[around]]
    found[several] = -1
    return _charged(of_launch, lone, found, thread, silent)


def _some(count: int, *several: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Return which of so many numbers are in some arrays."""
    found = np.zeros(count, np.bool_)
    for numbers in several:
        found[numbers] = True
    return found


def _charged(
    of_launch: NDArray[np.int32],
    lone: NDArray[np.int64],
    found: NDArray[np.int32],
    thread: NDArray[np.int32],
    silent: NDArray[np.bool_],
) -> NDArray[np.int32]:
    """Keep what was found for pairs of a thread and a call that is silent meanwhile."""
    lent = np.flatnonzero(found >= 0)
    if not len(lent):
        return of_launch
    pair = combined([thread[lent], found[lent]]).code
    share = np.bincount(pair, weights=silent[lent]) / np.bincount(pair)
    kept = lent[share[pair] >= _SILENT]
    charged = of_launch.copy()
    charged[lone[kept]] = found[kept]
    return charged


def _around(
    holder: int,
    at_ps: NDArray[np.int64],
    tracks: pl.DataFrame,
    events: pl.DataFrame,
    nesting: Nesting,
) -> NDArray[np.int64]:
    """Return the innermost event of a thread at some moments, -1 for none."""
    begin, end = (int(tracks[name][holder]) for name in ("event_begin", "event_end"))
    start_ps, dur_ps = ints(events, "start_ps"), ints(events, "dur_ps")
    last = np.searchsorted(start_ps[begin:end], at_ps, side="right") - 1
    at = np.where(last < 0, -1, begin + last).astype(np.int64)
    # One round per level of nesting, over the moments that lie after the event's end.
    over = np.flatnonzero(at >= 0)
    while len(over):
        over = over[start_ps[at[over]] + dur_ps[at[over]] <= at_ps[over]]
        at[over] = nesting.parent[at[over]]
        over = over[at[over] >= 0]
    return at
