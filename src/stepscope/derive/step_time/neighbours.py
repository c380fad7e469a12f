"""What the program did before and after time that no event of its own covers.

Definition: docs/where-a-steps-time-goes.md#names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from stepscope.derive.step_time.host_codes import HostCode
from stepscope.units import PS_PER_MS, PS_PER_US

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.derive.intervals.spans import Spans
    from stepscope.derive.intervals.track_rows import TrackRows

__all__ = ["Neighbours", "neighbours", "told_around"]

#: Shorter events than this do not say where the program was.
_NEIGHBOUR_PS: Final = 100 * PS_PER_US
#: What is written so soon afterwards is what the calls before it prepare.
_SOON_PS: Final = 10 * PS_PER_MS


class Neighbours(NamedTuple):
    """By span, rows of event_types of what lies around it; -1 for nothing."""

    before: NDArray[np.int32]
    after: NDArray[np.int32]


def neighbours(
    rows: TrackRows,
    track: int,
    spans: Spans,
    *,
    code: NDArray[np.uint8],
    types: NDArray[np.int32],
    passing: NDArray[np.bool_],
    calls: NDArray[np.bool_],
) -> Neighbours:
    """Return the nearest events of a thread that say where the program was.

    A file that is written soon after, before the program calls another graph, says it
    better than the call that comes first: that one only makes ready what is written.

    Args:
        rows: The rows of events of each track.
        track: The thread.
        spans: Time without an event that names it.
        code: What each event does.
        types: Row of event_types by row of events.
        passing: By row of event_types: whether it only hands work on.
        calls: By row of event_types: whether it calls a graph or marks a step.
    """
    mine = rows.rows(track)
    every = np.arange(mine.start, mine.stop)
    long = every[rows.dur_ps[mine] >= _NEIGHBOUR_PS]
    told = long[~passing[types[long]] & (code[long] != HostCode.LAUNCH)]
    start = rows.start_ps[told]
    end = start + rows.dur_ps[told]
    outer = _outermost(start, end)
    # One more at the end: nothing before the first one, nothing after the last.
    around = np.append(types[told[outer]], np.int32(-1))
    before = around[np.searchsorted(end[outer], spans.start_ps, side="right") - 1]
    after = around[np.searchsorted(start[outer], spans.end_ps, side="left")]
    written = every[code[every] == HostCode.OUTPUT]
    if len(written):
        called = rows.start_ps[every[calls[types[every]]]]
        soon = _soon(rows, written, spans.end_ps, called)
        after = np.where(soon >= 0, types[written[soon]], after)
    return Neighbours(before, after)


def told_around(before: str | None, after: str | None) -> str | None:
    """Say in words between which events some time lies; None where there are none."""
    if before is not None and before == after:
        return f"between two calls of {before}"
    told = [
        f"{word} {name}"
        for word, name in (("after", before), ("before", after))
        if name is not None
    ]
    return ", ".join(told) or None


def _soon(
    rows: TrackRows,
    written: NDArray[np.intp],
    at_ps: NDArray[np.int64],
    called_ps: NDArray[np.int64],
) -> NDArray[np.intp]:
    """Return the place of the innermost writing that begins soon after each time.

    -1 where none does, or where the program calls another graph before it.
    """
    start, dur = rows.start_ps[written], rows.dur_ps[written]
    first = np.searchsorted(start, at_ps, side="left")
    at = np.minimum(first, len(written) - 1)
    # Wrappers around an op begin before it and say the same: the last one counts.
    inside = np.searchsorted(start, start[at] + dur[at], side="left") - 1
    never = np.iinfo(np.int64).max
    next_call = np.append(called_ps, never)[
        np.searchsorted(called_ps, at_ps, side="left")
    ]
    near = (first < len(written)) & (start[at] - at_ps <= _SOON_PS)
    return np.where(near & (start[at] < next_call), np.maximum(inside, at), -1)


def _outermost(
    start_ps: NDArray[np.int64], end_ps: NDArray[np.int64]
) -> NDArray[np.intp]:
    """Return the places that no earlier row contains; rows ascend by start."""
    if not len(start_ps):
        return np.empty(0, np.intp)
    reach = np.maximum.accumulate(end_ps)
    outside = np.concatenate(([True], start_ps[1:] >= reach[:-1]))
    return np.flatnonzero(outside)
