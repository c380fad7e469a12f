"""Convert events of lines to rows of tracks, with one time base and in checked order.

Nearly every real file is in order already, and the decoder's columns become the table
without copying. Refused rows, unordered lines, or several lines of one track require a
new row order, which is kept to assign stats to the new rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope._core.nesting import first_unordered
from stepscope._core.spans import survey_track
from stepscope.formats.assemble import PlacedEvents
from stepscope.formats.xplane.decoded.columns import BLOCK_ROWS
from stepscope.formats.xplane.decoded.device_clock import use_device_clock
from stepscope.frozen import Frozen
from stepscope.units import PS_PER_NS
from stepscope.xspace.reading.fill import divide_into_tasks, run_tasks, thread_pool

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.array_types import Int32s, Int64s
    from stepscope.formats.xplane.decoded.tracks import Track
    from stepscope.xspace.reading.columns import Lines, XSpace

#: If a line starts later than this, in ns, the start counts from 1970: a relative start
#: would be three years after the start of the recording.
_EPOCH_NS: Final = 10**17

#: Largest time in ps whose sum with another such time fits 64 bits: 53 days.
_LAST_PS: Final = 2**63 // 2 - 1
_LAST_NS: Final = _LAST_PS // PS_PER_NS

#: Minimum number of events that one task of a thread checks, in whole lines.
_EVENTS_PER_TASK: Final = 1 << 16

_NO_ROWS: Final = np.zeros(0, dtype=np.int64)


class TimeBase(Frozen, frozen=True, kw_only=True, eq=True):
    """Time 0 of the trace.

    Attributes:
        epoch_ns: Time 0 in nanoseconds since 1970; None if all line times are relative.
        shift_ps: Time to add to the event offsets of each line.
        anchored: Number of lines with a relative time in a file that also has absolute
            times; these lines start at 0.
        impossible: Number of lines with an impossible time; these lines start at 0.
    """

    epoch_ns: int | None
    shift_ps: Int64s
    anchored: int
    impossible: int


class Timeline(PlacedEvents, frozen=True, kw_only=True, eq=True):
    """The events of all tracks, in the final order of rows.

    Attributes:
        rows: Final row → row in the file; None if all are equal.
        negative: Number of events refused for a negative duration.
        impossible: Number of events refused for an impossible time.
        unordered: Tracks whose events had to be sorted.
        last_ps: Last end of each track; meaningless for a track without events.
        moved_ps: Largest difference between recorded times and the device-clock times
            that replace them; 0 if the file has no device-clock times.
        file_rows: Number of events in the file, including refused events.
    """

    rows: Int64s | None
    aggregate_track: Int32s
    aggregate_type: Int32s
    aggregate_count: Int64s
    aggregate_ps: Int64s
    negative: int
    impossible: int
    unordered: tuple[int, ...]
    last_ps: Int64s
    moved_ps: int
    file_rows: int

    def time_range(self, tracks: Sequence[int]) -> tuple[int, int] | None:
        """Return first start and last end of events on tracks; None if none exist."""
        filled = [row for row in tracks if self.event_end[row] > self.event_begin[row]]
        if not filled:
            return None
        # The rows of a track are sorted by start.
        first = int(self.start_ps[self.event_begin[filled]].min())
        return first, int(self.last_ps[filled].max())

    def aggregates_table(self) -> pl.DataFrame:
        """Return the table `aggregates`."""
        return pl.DataFrame(
            {
                "track": self.aggregate_track,
                "type": self.aggregate_type,
                "occurrences": self.aggregate_count,
                "dur_ps": self.aggregate_ps,
            }
        )


def time_base(lines: Lines) -> TimeBase:
    """Find time 0 of a file, and the time shift of each line.

    Times are usually relative to the start of the recording. If a file has absolute
    times, time 0 is the earliest absolute line start; relative starts are unchanged.
    """
    stamps = lines.timestamp_ns
    absolute = stamps > _EPOCH_NS
    epoch = int(stamps[absolute].min()) if absolute.any() else None
    relative = np.where(absolute, stamps - (epoch or 0), stamps)
    impossible = (relative > _LAST_NS) | (relative < -_LAST_NS)
    return TimeBase(
        epoch_ns=epoch,
        shift_ps=np.where(impossible, 0, relative) * PS_PER_NS,
        anchored=int((~absolute).sum()) if epoch is not None else 0,
        impossible=int(impossible.sum()),
    )


def build_timeline(space: XSpace, tracks: Sequence[Track], base: TimeBase) -> Timeline:
    """Assign every event to its track, and replace event offsets by starts in place."""
    start = space.events.offset_ps
    dur = space.events.dur_ps
    begins, ends = space.lines.event_begin.tolist(), space.lines.event_end.tolist()
    odd, disorder, last = _survey_lines(space, base).T
    beyond = _out_of_range(start) if odd.any() else _NO_ROWS
    start[beyond] = 0
    for line, shift in enumerate(base.shift_ps.tolist()):
        if shift:
            start[begins[line] : ends[line]] += shift
    moved_ps = use_device_clock(space, tracks, start, dur)
    # Nearly all files are regular; for a regular file, skip the checks below.
    is_plain = not odd.any() and not moved_ps
    negative = impossible = _NO_ROWS
    if not is_plain:
        negative = np.flatnonzero(dur < 0)
        beyond = np.concatenate([beyond, _out_of_range(start), _out_of_range(dur)])
        impossible = np.setdiff1d(beyond, negative)
    aggregated = space.events.aggregated
    drop = np.unique(np.concatenate([negative, impossible, aggregated]))
    parts: list[Int64s | range] = []
    unordered: list[int] = []
    for row, track in enumerate(tracks):
        ranges = [range(begins[line], ends[line]) for line in track.lines]
        ordered = is_plain and not disorder[list(track.lines)].any()
        part, was_ordered = _rows_of_track(ranges, drop, start, dur, ordered=ordered)
        if not was_ordered and (not moved_ps or track.role.device_type is None):
            unordered.append(row)
        parts.append(part)
    counts = np.array([len(part) for part in parts], dtype=np.int64)
    event_end = np.cumsum(counts)
    rows = _order_of_rows(parts, len(start))
    types = space.events.type
    line_track = np.zeros(len(begins), dtype=np.int32)
    for row, track in enumerate(tracks):
        line_track[list(track.lines)] = row
    aggregate_line = np.searchsorted(space.lines.event_end, aggregated, side="right")
    start_ps = start if rows is None else start[rows]
    dur_ps = dur if rows is None else dur[rows]
    if is_plain and not len(drop):
        ended = [last[list(track.lines)] for track in tracks]
    else:
        bounds = zip((event_end - counts).tolist(), event_end.tolist(), strict=True)
        ended = [_last_ends(start_ps, dur_ps, *bound) for bound in bounds]
    return Timeline(
        track=np.repeat(np.arange(len(parts), dtype=np.int32), counts),
        type=types if rows is None else types[rows],
        start_ps=start_ps,
        dur_ps=dur_ps,
        last_ps=np.array([part.max() if len(part) else 0 for part in ended], np.int64),
        event_begin=event_end - counts,
        event_end=event_end,
        rows=rows,
        aggregate_track=line_track[aggregate_line],
        aggregate_type=types[aggregated],
        aggregate_count=space.events.occurrences,
        aggregate_ps=dur[aggregated],
        negative=len(negative),
        impossible=len(impossible),
        unordered=tuple(unordered),
        moved_ps=moved_ps,
        file_rows=len(start),
    )


def _survey_lines(space: XSpace, base: TimeBase) -> Int64s:
    """Return for each line its out-of-range times, unordered rows, and last end."""
    start, dur = space.events.offset_ps, space.events.dur_ps
    begin, end = space.lines.event_begin, space.lines.event_end
    shift = base.shift_ps.tolist()
    table = np.zeros((len(begin), 3), np.int64)

    def survey(lines: tuple[int, int]) -> None:
        for line in range(*lines):
            rows = int(begin[line]), int(end[line])
            if survey_track(start, dur, *rows, shift[line], _LAST_PS, table[line]) < 0:
                raise ValueError("the events of a line are outside of the columns")

    with thread_pool(len(space.data)) as pool:
        run_tasks(
            survey, divide_into_tasks(end - begin, begin[:0], _EVENTS_PER_TASK), pool
        )
    return table


def _last_ends(start_ps: Int64s, dur_ps: Int64s, begin: int, end: int) -> Int64s:
    """Return the last end of each block of rows, without a column of all ends."""
    blocks = (
        slice(row, min(row + BLOCK_ROWS, end)) for row in range(begin, end, BLOCK_ROWS)
    )
    return np.array(
        [(start_ps[block] + dur_ps[block]).max() for block in blocks], np.int64
    )


def _out_of_range(times: Int64s) -> Int64s:
    """Return the rows with a time so large that the sum of two would overflow."""
    if not len(times) or (times.min() >= -_LAST_PS and times.max() <= _LAST_PS):
        return _NO_ROWS
    return np.flatnonzero((times < -_LAST_PS) | (times > _LAST_PS))


def _rows_of_track(
    ranges: Sequence[range], drop: Int64s, start: Int64s, dur: Int64s, *, ordered: bool
) -> tuple[Int64s | range, bool]:
    """Return the rows of a track in order, and whether the file has the same order.

    Rows are sorted by ascending start, then descending duration, then file order. If
    `ordered` is set, each range is already sorted.
    """
    if len(ranges) == 1:
        (only_range,) = ranges
        low, high = np.searchsorted(drop, (only_range.start, only_range.stop))
        if low == high:
            end = only_range.stop
            if ordered or first_unordered(start, dur, only_range.start, end) == end:
                return only_range, True
            rows = np.arange(only_range.start, only_range.stop, dtype=np.int64)
        else:
            rows = np.setdiff1d(
                np.arange(only_range.start, only_range.stop, dtype=np.int64),
                drop[low:high],
                assume_unique=True,
            )
    else:
        joined = [np.arange(part.start, part.stop, dtype=np.int64) for part in ranges]
        rows = np.concatenate(joined)
        rows = rows[~np.isin(rows, drop)]
    starts, durs = start[rows], dur[rows]
    if first_unordered(starts, durs, 0, len(rows)) == len(rows):
        return rows, True
    return rows[np.lexsort((-durs, starts))], False


def _order_of_rows(parts: Sequence[Int64s | range], file_rows: int) -> Int64s | None:
    """Return the rows of all tracks, concatenated; None if they are in file order."""
    next_row = 0
    for part in parts:
        if not isinstance(part, range) or (len(part) and part.start != next_row):
            break
        next_row += len(part)
    else:
        if next_row == file_rows:
            return None
    arrays = [np.asarray(part, dtype=np.int64) for part in parts]
    return np.concatenate(arrays) if arrays else np.zeros(0, dtype=np.int64)
