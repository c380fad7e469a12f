"""Lines of a function that work while no op of a model runs.

Work in the training loop itself, or in a function that runs the model, has
no function of its own: the lines that looks found say where it is.

Definition: docs/advice/host_work.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np

from stepscope.derive.facts.evidence import Part
from stepscope.derive.frameworks import is_framework_function
from stepscope.derive.intervals.nesting import innermost_rows
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.run_derivation import of_each_device
from stepscope.frozen import Frozen
from stepscope.units import PS_PER_S

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.array_types import Bools, Int64s
    from stepscope.derive.account.owned_time import Account
    from stepscope.derive.host.function_frames import FunctionFrames
    from stepscope.derive.host.function_lines import FunctionLines
    from stepscope.derive.step_windows.windows import Windows

#: This many looks at a line find its own work, or the line is there for something else.
_MOST: Final = 0.8
#: Lines no further apart are one piece of work: an empty line, or a comment, has none.
_NEXT: Final = 2
#: A line with fewer looks than this part of its neighbour's is no piece of its work.
_OFTEN: Final = 0.25


class OwnLines(Frozen, frozen=True, eq=True):
    """Neighbouring lines of a function that do work of their own.

    Attributes:
        spans: When they were seen, no function of the program's that they call
            included.
        working: When no thread ran an op meanwhile.
        looked_ps: How long that is by the looks alone, each of which counts as long as
            it lasts.
        most: The one of several that half of these looks found; None for none.
    """

    first: int
    last: int
    spans: Spans
    working: Spans
    looked_ps: int
    looks: int
    most: int | None = None

    def part_of_function(self, function: Part, share_percent: float) -> Part:
        """Return the part of a function that these lines are."""
        return msgspec.structs.replace(
            function,
            lines=(self.first, self.last),
            detail=None if self.most is None else f"line {self.most}",
            loop=False,
            inclusive=False,
            share_percent=share_percent,
        )


class LineRuns(Frozen, frozen=True):
    """When lines of the program ran on the threads that run its steps.

    Attributes:
        hz: How often a second threads were looked at.
        tracks: Rows of tracks of the threads.
        inside: The time that counts.
        working: When the host worked and these threads ran no op.
        unshared: When no other thread did either.
    """

    lines: FunctionLines
    frames: FunctionFrames
    hz: float
    tracks: tuple[int, ...]
    inside: Spans
    working: Spans
    unshared: Spans

    def working_lines(self, kinds: Sequence[int]) -> tuple[OwnLines, ...]:
        """Return the lines of a function that do work of their own, in their order.

        Nearly all samples of them find it: the host worked, its threads ran no op, and
        were not within a framework, which does all that it does for its ops.

        Args:
            kinds: The function, as in `FunctionLines.type`.
        """
        pieces: list[list[OwnLines]] = []
        seen = self.lines.own_spans(kinds, tracks=self.tracks)
        for number, whole in seen.items():
            spans = whole & self.inside
            times = _sample_times(spans, self.hz)
            if not len(times):
                continue
            free = (self.working.holding(times) >= 0) & ~self._in_frameworks(times)
            if free.sum() < _MOST * len(times):
                continue
            alone = free & (self.unshared.holding(times) >= 0)
            looked = int(spans.length_ps * alone.sum() / len(times))
            line = OwnLines(
                *(number, number, spans, spans & self.unshared, looked, len(times))
            )
            if not pieces or number - pieces[-1][-1].last > _NEXT:
                pieces.append([])
            pieces[-1].append(line)
        return tuple(_merge_lines(lines) for lines in pieces)

    def _in_frameworks(self, times_ps: Int64s) -> Bools:
        """Return at which times a framework's function is a thread's innermost one."""
        frames, in_framework = self.frames, np.zeros(len(times_ps), np.bool_)
        kinds = [
            kind for kind, name in frames.names.items() if is_framework_function(name)
        ]
        for track in self.tracks if kinds else ():
            first, past = np.searchsorted(frames.track, (track, track + 1)).tolist()
            inner = innermost_rows(
                times_ps,
                frames.start_ps,
                frames.end_ps - frames.start_ps,
                frames.parent,
                rows=(first, past),
            )
            in_framework |= (inner >= 0) & np.isin(frames.type[inner], kinds)
        return in_framework


def _merge_lines(lines: Sequence[OwnLines]) -> OwnLines:
    """Put neighbours together, but for what was rarely found at either end."""
    most = max(lines, key=lambda line: line.looks)
    often = [at for at, line in enumerate(lines) if line.looks >= _OFTEN * most.looks]
    chosen = lines[often[0] : often[-1] + 1]
    looks = sum(line.looks for line in chosen)
    return OwnLines(
        first=chosen[0].first,
        last=chosen[-1].last,
        spans=Spans.union_of(line.spans for line in chosen),
        working=Spans.union_of(line.working for line in chosen),
        looked_ps=sum(line.looked_ps for line in chosen),
        looks=looks,
        most=most.first if len(chosen) > 1 and 2 * most.looks >= looks else None,
    )


def _sample_times(spans: Spans, hz: float) -> Int64s:
    """Return when samples found what they say, which lasts as long around each."""
    lengths = spans.end_ps - spans.start_ps
    counts = np.maximum(np.rint(lengths * (hz / PS_PER_S)).astype(np.int64), 1)
    number = np.arange(int(counts.sum())) - np.repeat(
        np.cumsum(counts) - counts, counts
    )
    share = (number + 0.5) / np.repeat(counts, counts)
    found: Int64s = np.repeat(spans.start_ps, counts) + (
        share * np.repeat(lengths, counts)
    ).astype(np.int64)
    return found


#: The function must hold this share of the work, …
_MOST_OF_WORK: Final = 0.8
#: … and the work this share of the function: the training loop is no answer.
_OWN_PART: Final = 0.6


@of_each_device
def enclosing_functions(
    *, account: Account, function_frames: FunctionFrames, windows: Windows
) -> dict[int | None, Part]:
    """Return the deepest function around most of the work of each device.

    Devices of which no function holds most of it are left out. Without a device the
    work is the ops of the model too, and the parts by name say which is which.
    """
    judged = windows.judged
    parts: dict[int | None, Part] = {}
    for device in account.devices:
        work = (device.idle["host_compute"] & judged) - device.between
        tracks = [track for track in device.walked_by if track >= 0]
        part = around_most(function_frames, work, tracks, total_ps=judged.length_ps)
        if device.device is not None and part is not None:
            parts[device.device] = part
    return parts


def around_most(
    frames: FunctionFrames, work: Spans, tracks: list[int], *, total_ps: int
) -> Part | None:
    """Return the deepest function of some threads that holds most of the work."""
    chosen = np.isin(frames.track, tracks)
    if not len(work) or not chosen.any():
        return None
    start, end, kind = (
        column[chosen] for column in (frames.start_ps, frames.end_ps, frames.type)
    )
    kinds, place = np.unique(kind, return_inverse=True)
    # What several calls of one hold together may count twice.
    at_most = np.bincount(place, weights=work.within(start, end))
    least = _MOST_OF_WORK * work.length_ps
    best: tuple[int, int, int] | None = None
    for number in np.flatnonzero(at_most >= least).tolist():
        rows = place == number
        calls = Spans.from_events(start[rows], end[rows] - start[rows])
        held = (work & calls).length_ps
        if held < least or held < _OWN_PART * calls.length_ps:
            continue
        function = (calls.length_ps, held, int(kinds[number]))
        if best is None or _is_deeper(frames, function, best):
            best = function
    if best is None:
        return None
    return Part.from_function(frames.names[best[2]], 100 * best[1] / total_ps)


def _is_deeper(
    frames: FunctionFrames, other: tuple[int, int, int], best: tuple[int, int, int]
) -> bool:
    """Return whether a function is a closer answer than the best one so far.

    Each is the time of its calls, the work in it, and its type. The shorter is the
    deeper one. Samples find both wherever one of them is all that the other does, and
    where a stack breaks off they miss the callers: of two functions, one of which calls
    the other, the one that holds more of the work is the answer.
    """
    below_best, below_other = (
        frames.rows_called_from(frames.type == kind) for kind in (best[2], other[2])
    )
    if (below_best & (frames.type == other[2])).any():
        return other[0] <= best[0] or other[1] >= best[1]
    if (below_other & (frames.type == best[2])).any():
        return other[0] < best[0] and other[1] > best[1]
    return other[0] < best[0]
