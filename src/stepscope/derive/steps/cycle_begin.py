"""Where in its cycle a step begins, once it is known how long the cycle is.

Every event that occurs once per cycle on the thread that drives the steps could begin
them. Programs fetch a batch and then use it, so a cycle that fetches input begins
there; otherwise it begins after the longest pause.

Definition: docs/how-steps-are-found.md#steps-that-nobody-announced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.derive.columns.arrays import handles, ints
from stepscope.derive.columns.dense_codes import Codes, dense
from stepscope.derive.names.event_kinds import EventFlag, EventKinds, HostClass
from stepscope.derive.steps.segments import LEAST_STEPS
from stepscope.frozen import Frozen

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray

#: Bookkeeping that says nothing about what the program does.
_NOISE: Final = EventFlag.THREADPOOL | EventFlag.ALLOCATOR | EventFlag.END_THUNK
#: Nothing that lasts this share of the recording is part of one cycle of several.
_TOO_LONG: Final = 0.5
#: An event begins a cycle if so many of the cycles hold it exactly once.
_NEARLY_ALL: Final = 0.98
#: Cycles that are read to learn what occurs once in each.
_CYCLES_READ: Final = 300
#: Another pause of this share of the longest could equally be the one between steps.
_RIVAL: Final = 0.5


class Boundaries(Frozen, frozen=True, eq=True):
    """Begins of cycles.

    Attributes:
        start_ps: The begins.
        slack_ps: Time just before each begin in which nothing was recorded.
        clear: False where the cycle could equally well begin elsewhere.
    """

    start_ps: NDArray[np.int64]
    slack_ps: NDArray[np.int64]
    clear: bool


def begin_of_cycle(
    tracks: pl.DataFrame,
    events: pl.DataFrame,
    event_kinds: EventKinds,
    *,
    track: int,
    start_ps: NDArray[np.int64],
) -> Boundaries | None:
    """Find better boundaries of the given cycles; None where the thread shows none.

    Args:
        tracks: Where the thread's events lie.
        events: All events.
        event_kinds: What their names say.
        track: The thread that drives the steps.
        start_ps: Boundaries somewhere in the cycles, ascending.
    """
    outer = _outermost_events(tracks, events, event_kinds, track)
    if not len(outer):
        return None
    start, dur = (ints(events, name)[outer] for name in ("start_ps", "dur_ps"))
    end = start + dur
    pause = np.maximum(start - np.concatenate([start[:1], end[:-1]]), 0)
    # The event that holds a boundary belongs to the cycle which begins there.
    holder = np.searchsorted(start, start_ps, side="right") - 1
    held = (holder >= 0) & (start_ps < end[np.maximum(holder, 0)])
    edges = np.where(held, start[np.maximum(holder, 0)], start_ps)
    if len(edges) < LEAST_STEPS or (np.diff(edges) <= 0).any():
        return None
    cycle = _cycle_of(edges, start)
    fetches = _fetching(events, event_kinds, track, start, end)
    first = _first_fetches(fetches, cycle, start, end)
    if first is not None:
        return Boundaries(start[first], pause[first], clear=True)
    return _after_longest_pause(
        dense(handles(events, "type")[outer]), cycle, start, pause, len(edges)
    )


def _first_fetches(
    fetches: NDArray[np.bool_],
    cycle: NDArray[np.int64],
    start: NDArray[np.int64],
    end: NDArray[np.int64],
) -> NDArray[np.int64] | None:
    """Find the fetch that begins each cycle; None where cycles differ in their fetches.

    Of several fetches per cycle (one per replica, say) it is the one that follows its
    predecessor at the longest distance.
    """
    at = np.flatnonzero(fetches)
    if not len(at):
        return None
    cycles = int(cycle[-1]) + 1
    inside = cycle[at] >= 0
    per_cycle = np.bincount(cycle[at][inside], minlength=cycles)[:-1]
    usual = int(np.median(per_cycle)) if len(per_cycle) else 0
    if not usual or (per_cycle == usual).mean() < _NEARLY_ALL:
        return None
    place = np.arange(len(at)) % usual
    distance = start[at[1:]] - end[at[:-1]]
    mean = [
        float(distance[place[1:] == slot].mean()) if (place[1:] == slot).any() else 0.0
        for slot in range(usual)
    ]
    first: NDArray[np.int64] = at[place == int(np.argmax(mean))]
    return first


def _after_longest_pause(
    names: Codes,
    cycle: NDArray[np.int64],
    start: NDArray[np.int64],
    pause: NDArray[np.int64],
    cycles: int,
) -> Boundaries | None:
    chosen = _once_per_cycle(names.code, cycle, names.count, cycles)
    if not len(chosen):
        return None
    mean = np.bincount(names.code, weights=pause) / np.bincount(names.code)
    ranked = chosen[np.argsort(-mean[chosen], kind="stable")]
    at = np.flatnonzero(names.code == ranked[0])
    clear = len(ranked) == 1 or mean[ranked[1]] <= _RIVAL * mean[ranked[0]]
    return Boundaries(start[at], pause[at], clear=bool(clear))


def _outermost_events(
    tracks: pl.DataFrame, events: pl.DataFrame, event_kinds: EventKinds, track: int
) -> NDArray[np.int64]:
    """Return the thread's outermost events, long wrappers left out."""
    begin, end = (int(tracks[f"event_{edge}"][track]) for edge in ("begin", "end"))
    start, dur = (ints(events, name)[begin:end] for name in ("start_ps", "dur_ps"))
    if not len(start):
        return np.empty(0, np.int64)
    ends = start + dur
    hull = int(ends.max()) - int(start[0])
    left_out = event_kinds.has(_NOISE)[handles(events, "type")[begin:end]]
    left_out |= dur <= 0
    left_out |= dur > _TOO_LONG * hull
    # What is left out holds nothing and reaches nowhere.
    ends[left_out] = start[0]
    reach = np.maximum.accumulate(ends, out=ends)
    outer = ~left_out
    outer[1:] &= start[1:] >= reach[:-1]
    found: NDArray[np.int64] = begin + np.flatnonzero(outer)
    return found


def _cycle_of(edges: NDArray[np.int64], start: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the cycle in which each event begins, -1 before the first edge."""
    cuts = np.searchsorted(start, edges, side="left")
    lengths = np.diff(np.concatenate(([0], cuts, [len(start)])))
    return np.repeat(np.arange(-1, len(edges)), lengths)


def _once_per_cycle(
    code: NDArray[np.int32], cycle: NDArray[np.int64], names: int, cycles: int
) -> NDArray[np.int64]:
    """Return names that occur exactly once in nearly every cycle."""
    # This many cycles show as much as all of them.
    cycles = min(cycles, _CYCLES_READ)
    read = cycle < cycles
    code, cycle = code[read], cycle[read]
    inside = cycle >= 0
    cell = np.bincount(
        code[inside].astype(np.int64) * cycles + cycle[inside],
        minlength=names * cycles,
    ).reshape(names, cycles)
    # The last cycle may be cut, and so may be what precedes the first.
    once = (cell[:, :-1] == 1).mean(axis=1)
    before = np.bincount(code[~inside], minlength=names)
    most = np.maximum(cell.max(axis=1), before)
    return np.flatnonzero((once >= _NEARLY_ALL) & (most == 1))


def _fetching(
    events: pl.DataFrame,
    event_kinds: EventKinds,
    track: int,
    start: NDArray[np.int64],
    end: NDArray[np.int64],
) -> NDArray[np.bool_]:
    """Return which of the outermost events fetch input, themselves or inside."""
    waits = event_kinds.host_class == HostClass.INPUT_WAIT
    if not waits.any():
        return np.zeros(len(start), np.bool_)
    row = np.flatnonzero(
        waits[handles(events, "type")] & (handles(events, "track") == track)
    )
    at = np.sort(ints(events, "start_ps")[row])
    found: NDArray[np.bool_] = np.searchsorted(at, end) > np.searchsorted(at, start)
    return found
