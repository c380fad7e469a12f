"""What the program did before and after a time that none of its events covers.

Definition: docs/where-a-steps-time-goes.md#names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from stepscope.derive.step_time.host_time import HostCode
from stepscope.derive.steps.launches import is_outermost
from stepscope.frozen import Frozen
from stepscope.units import PS_PER_MS, PS_PER_US

if TYPE_CHECKING:
    from stepscope.array_types import Bools, Int32s, Int64s, UInt8s
    from stepscope.derive.intervals.spans import Spans, TrackRows

#: Minimum duration, in ps, of an event that shows what the program did.
_MIN_NEIGHBOUR_PS: Final = 100 * PS_PER_US
#: Maximum time, in ps, before a write in which calls count as preparing the write.
_MAX_PREPARATION_PS: Final = 10 * PS_PER_MS


class Neighbours(NamedTuple):
    """Rows of event_types of the events before and after each span; -1 for no event.

    Attributes:
        inside: Whether the span is in a step's range; if so, the events are too.
    """

    before: Int32s
    after: Int32s
    inside: Bools


class Surroundings(Frozen, frozen=True, eq=True):
    """The events of one thread that show what the program did, in time order.

    Attributes:
        start_ps: Start of each outermost event.
        types: Rows of event_types of the outermost events, followed by -1 for no event.
        writes_ps: Start of each event that writes files, wrappers included.
        written: By entry of `writes_ps`, type of the innermost writing event inside.
        calls_ps: Start of each call of a graph, and of each step.
        mark_start_ps: Start of each outermost range that marks a step.
        inner: Starts, ends and types of the outermost events that are not step ranges.
    """

    start_ps: Int64s
    end_ps: Int64s
    types: Int32s
    writes_ps: Int64s
    written: Int32s
    calls_ps: Int64s
    mark_start_ps: Int64s
    mark_end_ps: Int64s
    inner: tuple[Int64s, Int64s, Int32s]

    @classmethod
    def observe_thread(
        cls,
        rows: TrackRows,
        track: int,
        *,
        code: UInt8s,
        types: Int32s,
        passing: Bools,
        calls: Bools,
        marks: Bools,
    ) -> Surroundings:
        """Read the events of a thread.

        Args:
            passing: By row of event_types, whether the event only passes work on.
            calls: By row of event_types, whether events call a graph or mark a step.
            marks: By row of event_types, whether the event marks a step.
        """
        own_slice = rows.track_rows(track)
        long = (
            np.flatnonzero(rows.dur_ps[own_slice] >= _MIN_NEIGHBOUR_PS)
            + own_slice.start
        )
        shown = long[~passing[types[long]] & (code[long] != HostCode.LAUNCH)]
        start = rows.start_ps[shown]
        end = start + rows.dur_ps[shown]
        outer = is_outermost(start, end)
        marking = marks[types[shown]]
        ranges, unmarked = np.flatnonzero(marking), np.flatnonzero(~marking)
        ranges = ranges[is_outermost(start[ranges], end[ranges])]
        unmarked = unmarked[is_outermost(start[unmarked], end[unmarked])]
        writing = np.flatnonzero(code[own_slice] == HostCode.OUTPUT) + own_slice.start
        begun = rows.start_ps[writing]
        # Wrappers begin before the writing op and repeat it: use the last event.
        last = np.searchsorted(begun, begun + rows.dur_ps[writing], side="left") - 1
        last = np.maximum(last, np.arange(len(writing)))
        # Graph calls are needed only if the thread has writing events.
        called = np.flatnonzero(calls[types[own_slice]] & bool(len(writing)))
        return cls(
            start_ps=start[outer],
            end_ps=end[outer],
            types=np.append(types[shown[outer]], np.int32(-1)),
            writes_ps=begun,
            written=types[writing[last]],
            calls_ps=rows.start_ps[own_slice][called],
            mark_start_ps=start[ranges],
            mark_end_ps=end[ranges],
            inner=(
                *(start[unmarked], end[unmarked]),
                np.append(types[shown[unmarked]], np.int32(-1)),
            ),
        )

    def nearest_events(self, spans: Spans) -> Neighbours:
        """Return the nearest events that show what the program did around each span.

        If a write follows soon, before the next graph call, the write is used as the
        event after the span. The calls before the write only prepare it.
        """
        ends_ps = spans.end_ps
        before = np.searchsorted(self.end_ps, spans.start_ps, side="right") - 1
        after = np.searchsorted(self.start_ps, ends_ps, side="left")
        nearest = self._nearest_in_steps(
            spans,
            Neighbours(
                *(self.types[before], self.types[after]),
                np.zeros(len(ends_ps), np.bool_),
            ),
        )
        if not len(self.writes_ps):
            return nearest
        never = np.iinfo(np.int64).max
        first = np.searchsorted(self.writes_ps, ends_ps, side="left")
        begun = np.append(self.writes_ps, never)[first]
        called = np.searchsorted(self.calls_ps, ends_ps, side="left")
        soon = (begun <= ends_ps + _MAX_PREPARATION_PS) & (
            begun < np.append(self.calls_ps, never)[called]
        )
        written = np.append(self.written, np.int32(-1))[first]
        return nearest._replace(after=np.where(soon, written, nearest.after))

    def _nearest_in_steps(self, spans: Spans, nearest: Neighbours) -> Neighbours:
        if not len(self.mark_start_ps):
            return nearest
        mark = np.searchsorted(self.mark_start_ps, spans.start_ps, side="right") - 1
        inside = (mark >= 0) & (spans.end_ps <= self.mark_end_ps[mark])
        start_ps, end_ps, types = self.inner
        before = np.searchsorted(end_ps, spans.start_ps, side="right") - 1
        after = np.searchsorted(start_ps, spans.end_ps, side="left")
        begun = np.append(start_ps, 0)
        first = (before >= 0) & (begun[before] >= self.mark_start_ps[mark])
        last = (after < len(start_ps)) & (begun[after] < self.mark_end_ps[mark])
        return Neighbours(
            np.where(inside, np.where(first, types[before], -1), nearest.before),
            np.where(inside, np.where(last, types[after], -1), nearest.after),
            inside,
        )


def neighbours_text(
    before: str | None, after: str | None, *, inside: bool = False
) -> str | None:
    """Describe the two events around a time; None if there are no events.

    Args:
        before: The event before the time; None if none is known.
        inside: Whether the time is within a step's range. Inside, the text names the
            begin or end of the range in place of a missing event.
    """
    if inside and before is None and after is None:
        return "within a step's range"
    if before is not None and before == after:
        return f"between two calls of {before}"
    phrases = [
        f"{word} {name}"
        for word, name in (("after", before), ("before", after))
        if name is not None
    ]
    if inside and after is None:
        phrases.append("to the end of the step's range")
    if inside and before is None:
        phrases.insert(0, "from the begin of the step's range")
    return ", ".join(phrases) or None
