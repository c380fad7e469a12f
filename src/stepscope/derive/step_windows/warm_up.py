"""Steps that show how a recording or a program begins, and not what its steps take.

Starting a recording holds the program up, and meanwhile its prefetching fills every
buffer. Steps that live on that are faster than the program is. A first step may be far
slower than all others: caches are cold, memory is taken, profilers are set up.

Definition: docs/how-steps-are-found.md#windows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.derive.columns.arrays import handles, ints, picked
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.names.event_kinds import HostClass

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray

    from stepscope.derive.names.event_kinds import EventKinds
    from stepscope.derive.steps.chosen import Steps

#: So many steps must remain, …
_REMAIN: Final = 8
#: … and a step must typically wait for this share of its time, …
_TYPICAL: Final = 0.05
#: … while the first ones wait for less than this share of a typical wait.
_READY: Final = 0.5
#: So many ready steps in a row must be less likely than this, by how often a later step
#: finds its batch ready.
_BY_CHANCE: Final = 0.05
#: A first step is cold if it is longer than so many times the median of the others, …
_USUAL: Final = 3
#: … and than so many times the longest of them, …
_LONGEST: Final = 2
#: … and nothing that ran only in it is this share of what it takes too long.
_EXPLAINED: Final = 0.5


def warm_up(
    steps: Steps, events: pl.DataFrame, event_kinds: EventKinds
) -> NDArray[np.bool_]:
    """Return the steps before the first with a typical wait for input.

    Typical is the median wait of the second half of the steps. The last step, which may
    be cut, is not looked at.
    """
    start = ints(steps.rows, "start_ps")
    n = len(start)
    found = np.zeros(n, np.bool_)
    if steps.on_device or n - 1 <= _REMAIN:
        return found
    wait = _waits(steps, events, event_kinds).within(start[:-1], start[1:])
    typical = float(np.median(wait[(n - 1) // 2 :]))
    if typical < _TYPICAL * float(np.median(np.diff(start))):
        return found
    ready = wait < _READY * typical
    first = int(np.flatnonzero(~ready)[0])
    if n - 1 - first >= _REMAIN and _chance(ready[first:]) ** first <= _BY_CHANCE:
        found[:first] = True
    return found


def cold_start(
    start_ps: NDArray[np.int64], end_ps: NDArray[np.int64], events: pl.DataFrame
) -> NDArray[np.bool_]:
    """Return whether the first window is far outside the others, for no visible reason.

    What is named in it and runs in no other, such as the loading of a checkpoint, is a
    reason. The last window is not looked at.

    Args:
        start_ps: Begins of the windows, ascending.
        end_ps: Their ends.
        events: The table.
    """
    n = len(start_ps)
    found = np.zeros(n, np.bool_)
    if n - 2 < _REMAIN:
        return found
    length = (end_ps - start_ps)[:-1]
    others = length[1:]
    usual = float(np.median(others))
    if length[0] <= _USUAL * usual or length[0] <= _LONGEST * int(others.max()):
        return found
    begin, dur = ints(events, "start_ps"), ints(events, "dur_ps")
    most = _EXPLAINED * (length[0] - usual)
    inside = (begin >= start_ps[0]) & (begin + dur <= end_ps[0]) & (dur >= most)
    types = handles(events, "type")
    reasons = np.unique(types[inside])
    again = np.unique(types[np.isin(types, reasons) & (begin >= end_ps[0])])
    found[0] = len(again) == len(reasons)
    return found


def _chance(ready: NDArray[np.bool_]) -> float:
    """Return how likely a step finds its batch ready, by Laplace's rule."""
    return (int(ready.sum()) + 1) / (len(ready) + 2)


def _waits(steps: Steps, events: pl.DataFrame, event_kinds: EventKinds) -> Spans:
    """Return when the threads that carry the boundaries waited for input."""
    waits = event_kinds.host_class == HostClass.INPUT_WAIT
    if not waits.any():
        return Spans.empty()
    types, track = handles(events, "type"), handles(events, "track")
    found = []
    for on in steps.rows["track"].drop_nulls().unique().sort().to_list():
        # The rows of a track follow each other.
        begin, end = np.searchsorted(track, np.array([on, on + 1], track.dtype))
        row = picked(types, waits, int(begin), int(end))
        starts = ints(events, "start_ps")[row]
        found.append(Spans.from_events(starts, ints(events, "dur_ps")[row]))
    return Spans.union_of(found)
