"""Lines of a function that compute on the host while no op of a model runs.

Such lines may be in the training loop, or in a function that runs the model. Sampled
line numbers show which lines these are.

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
    from stepscope.derive.account.time_by_cause import Account
    from stepscope.derive.host.function_frames import FunctionFrames
    from stepscope.derive.host.function_lines import FunctionLines
    from stepscope.derive.step_windows.windows import Windows

#: A line counts as host work if no op runs in at least this share of its samples.
_MIN_FREE_SHARE: Final = 0.8
#: Maximum distance of line numbers within one group of lines; it allows one line
#: without samples, such as an empty line or a comment.
_MAX_LINE_DISTANCE: Final = 2
#: Minimum samples of a group's first and last line, relative to the group's maximum.
_MIN_EDGE_SAMPLES_RATIO: Final = 0.25


class OwnLines(Frozen, frozen=True, eq=True):
    """Neighbouring lines of a function that do host work other than calling ops.

    Attributes:
        spans: When the lines ran, without called functions of the program.
        working: Part of `spans` in which no thread ran an op.
        sampled_ps: Estimate of the length of `working` from the share of samples.
        looks: Number of samples of the lines.
        most: If one of several lines has half of the samples: its number; else None.
    """

    first: int
    last: int
    spans: Spans
    working: Spans
    sampled_ps: int
    looks: int
    most: int | None = None

    def part_of_function(self, function: Part, share_percent: float) -> Part:
        """Return the lines as a part of their function."""
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
        hz: Stack samples per second.
        tracks: Rows of tracks of the threads.
        inside: Time to which results are limited.
        working: When the host computed and no op ran on `tracks`.
        unshared: When the host computed and no op ran on any thread.
    """

    lines: FunctionLines
    frames: FunctionFrames
    hz: float
    tracks: tuple[int, ...]
    inside: Spans
    working: Spans
    unshared: Spans

    def working_lines(self, kinds: Sequence[int]) -> tuple[OwnLines, ...]:
        """Return a function's lines that do host work other than calling ops.

        In nearly all samples of such a line the host computes, no op runs on `tracks`,
        and these threads are not in a framework's function, which prepares ops.

        Args:
            kinds: Types of the function, as in `FunctionLines.type`.
        """
        pieces: list[list[OwnLines]] = []
        spans_by_line = self.lines.own_spans(kinds, tracks=self.tracks)
        for number, line_spans in spans_by_line.items():
            spans = line_spans & self.inside
            times = _sample_times(spans, self.hz)
            if not len(times):
                continue
            free = (self.working.holding(times) >= 0) & ~self._in_frameworks(times)
            if free.sum() < _MIN_FREE_SHARE * len(times):
                continue
            is_unshared = free & (self.unshared.holding(times) >= 0)
            sampled_ps = int(spans.length_ps * is_unshared.sum() / len(times))
            line = OwnLines(
                *(number, number, spans, spans & self.unshared, sampled_ps, len(times))
            )
            if not pieces or number - pieces[-1][-1].last > _MAX_LINE_DISTANCE:
                pieces.append([])
            pieces[-1].append(line)
        return tuple(_merge_lines(lines) for lines in pieces)

    def _in_frameworks(self, times_ps: Int64s) -> Bools:
        """Return, for each time, whether any thread runs a framework's function."""
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
    """Merge neighbouring lines; leave out rarely sampled lines at either end."""
    top = max(lines, key=lambda line: line.looks)
    often = [
        i
        for i, line in enumerate(lines)
        if line.looks >= _MIN_EDGE_SAMPLES_RATIO * top.looks
    ]
    chosen = lines[often[0] : often[-1] + 1]
    samples = sum(line.looks for line in chosen)
    return OwnLines(
        first=chosen[0].first,
        last=chosen[-1].last,
        spans=Spans.union_of(line.spans for line in chosen),
        working=Spans.union_of(line.working for line in chosen),
        sampled_ps=sum(line.sampled_ps for line in chosen),
        looks=samples,
        most=top.first if len(chosen) > 1 and 2 * top.looks >= samples else None,
    )


def _sample_times(spans: Spans, hz: float) -> Int64s:
    """Return the times of samples, spread evenly over the given spans."""
    lengths = spans.end_ps - spans.start_ps
    counts = np.maximum(np.rint(lengths * (hz / PS_PER_S)).astype(np.int64), 1)
    place = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    share = (place + 0.5) / np.repeat(counts, counts)
    times_ps: Int64s = np.repeat(spans.start_ps, counts) + (
        share * np.repeat(lengths, counts)
    ).astype(np.int64)
    return times_ps


#: A reported function must contain at least this share of the host work.
_MIN_WORK_SHARE: Final = 0.8
#: Host work must be this share of a function's time or more; this excludes step loops.
_MIN_FUNCTION_SHARE: Final = 0.6


@of_each_device
def enclosing_functions(
    *, account: Account, function_frames: FunctionFrames, windows: Windows
) -> dict[int | None, Part]:
    """Return, by device, the innermost function with most of its host work.

    Devices without such a function are left out. Hosts without devices are left out
    too: their host work includes the ops of the model.
    """
    judged = windows.judged
    parts: dict[int | None, Part] = {}
    for device in account.devices:
        work = (device.idle["host_compute"] & judged) - device.between
        tracks = [track for track in device.walked_by if track >= 0]
        part = function_around_work(
            function_frames, work, tracks, total_ps=judged.length_ps
        )
        if device.device is not None and part is not None:
            parts[device.device] = part
    return parts


def function_around_work(
    frames: FunctionFrames, work: Spans, tracks: list[int], *, total_ps: int
) -> Part | None:
    """Return the threads' innermost function that contains most of the host work."""
    chosen = np.isin(frames.track, tracks)
    if not len(work) or not chosen.any():
        return None
    start, end, kind = (
        column[chosen] for column in (frames.start_ps, frames.end_ps, frames.type)
    )
    kinds, index = np.unique(kind, return_inverse=True)
    # An upper bound: if calls of one function are nested, their time counts twice.
    longest_ps = np.bincount(index, weights=work.within(start, end))
    min_work_ps = _MIN_WORK_SHARE * work.length_ps
    best: tuple[int, int, int] | None = None
    for number in np.flatnonzero(longest_ps >= min_work_ps).tolist():
        rows = index == number
        calls = Spans.from_bounds(start[rows], end[rows])
        held = (work & calls).length_ps
        if held < min_work_ps or held < _MIN_FUNCTION_SHARE * calls.length_ps:
            continue
        function = (calls.length_ps, held, int(kinds[number]))
        if best is None or _is_deeper(frames, function, best):
            best = function
    if best is None:
        return None
    return Part.from_function(frames.names[best[2]], 100 * best[1] / total_ps)


def _is_deeper(
    frames: FunctionFrames, function: tuple[int, int, int], best: tuple[int, int, int]
) -> bool:
    """Return whether a function explains the host work better than the best so far.

    Both functions are given as (time of calls, host work in the calls, type). The
    function with less time is usually the inner one. If one function calls the other,
    samples may give both equal times or miss the caller. In both cases the function
    with more host work is better.
    """
    below_best, below_function = (
        frames.rows_called_from(frames.type == kind) for kind in (best[2], function[2])
    )
    if (below_best & (frames.type == function[2])).any():
        return function[0] <= best[0] or function[1] >= best[1]
    if (below_function & (frames.type == best[2])).any():
        return function[0] < best[0] and function[1] > best[1]
    return function[0] < best[0]
