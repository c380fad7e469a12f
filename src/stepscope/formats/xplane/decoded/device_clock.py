"""Replace the times of device events by those of the device's clock, if recorded.

Some producers convert device times to the host's clock in pieces, with errors up to a
fifth of a second, and also record the original device time of each event. For such
files the original times are used, with one clock offset for all devices of a file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.formats.xplane.decoded.columns import Values

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.array_types import Bools, Int64s
    from stepscope.formats.xplane.decoded.tracks import Track
    from stepscope.xspace.reading.columns import XSpace

_OFFSET: Final = "device_offset_ps"
_DURATION: Final = "device_duration_ps"
#: Percentile of (converted - original time) that is used as the clock offset. Converted
#: times are exact or late, so low differences are exact, except for a few errors.
_UNDELAYED_PERCENT: Final = 5
#: Largest time in ps whose sum with another such time fits 64 bits.
_LAST_PS: Final = 2**62 - 1


def use_device_clock(
    space: XSpace, tracks: Sequence[Track], start: Int64s, dur: Int64s
) -> int:
    """Replace, in place, the times of devices whose events have original times.

    Events of these devices that lack original times are moved, so that they stay
    between the same neighbours.

    Args:
        start: Start of each event of the file, on one time base.
        dur: Duration of each event of the file.

    Returns:
        Largest correction of a start or duration, in ps; 0 if all stayed the same.
    """
    of_key = [_stat_by_event(space, key, len(start)) for key in (_OFFSET, _DURATION)]
    if any(column is None for column in of_key):
        return 0
    (own_start, has_start), (own_dur, has_dur) = (column for column in of_key if column)
    sane = has_start & has_dur & (own_dur >= 0) & (own_dur <= _LAST_PS)
    sane &= np.abs(own_start) <= _LAST_PS
    rows = np.flatnonzero(sane)
    own_start, own_dur = own_start[rows], own_dur[rows]
    begins, ends = space.lines.event_begin.tolist(), space.lines.event_end.tolist()
    lines: dict[str, list[int]] = {}
    for track in tracks:
        if track.role.device_type is not None:
            lines.setdefault(track.role.group, []).extend(track.lines)
    by_device = [
        np.concatenate(
            [np.arange(begins[line], ends[line], dtype=np.int64) for line in some]
        )
        for some in lines.values()
    ]
    on_device = np.zeros(len(start), np.bool_)
    for some in by_device:
        on_device[some] = True
    kept = on_device[rows]
    rows, own_start, own_dur = (rows[kept], own_start[kept], own_dur[kept])
    if not len(rows):
        return 0
    differences = start[rows] - own_start
    shift = int(np.percentile(differences, _UNDELAYED_PERCENT, method="lower"))
    own_start = own_start + shift
    moved = max(
        int(np.abs(start[rows] - own_start).max()),
        int(np.abs(dur[rows] - own_dur).max()),
    )
    of_row = np.full(len(start), -1, np.int64)
    of_row[rows] = np.arange(len(rows))
    for some in by_device:
        positions = of_row[some]
        has = positions >= 0
        if has.any():
            own = own_start[positions[has]], own_dur[positions[has]]
            _move_between((start, dur), some, has, own)
    start[rows], dur[rows] = own_start, own_dur
    return moved


def _stat_by_event(space: XSpace, name: str, count: int) -> tuple[Int64s, Bools] | None:
    keys = [handle for handle, text in enumerate(space.strings) if text == name]
    if not keys:
        return None
    stats = space.stats
    rows = np.flatnonzero(np.isin(stats.key, keys))
    if not len(rows):
        return None
    values = Values.of_rows(stats, rows)
    number, is_number = values.integer_values()
    numbers, present = np.zeros(count, np.int64), np.zeros(count, np.bool_)
    event = stats.event[rows]
    numbers[event], present[event] = number, is_number
    return numbers, present


def _move_between(
    times: tuple[Int64s, Int64s], rows: Int64s, has: Bools, own: tuple[Int64s, Int64s]
) -> None:
    """Correct the events of one device that have no original times, in place.

    Args:
        has: True for each of `rows` that has original times.
    """
    start, dur = times
    known, moved_rows = rows[has], rows[~has]
    if not len(moved_rows):
        return
    recorded = np.concatenate([start[known], start[known] + dur[known]])
    own_ps = np.concatenate([own[0], own[0] + own[1]])
    order = np.argsort(recorded, kind="stable")
    recorded, own_ps = recorded[order], np.maximum.accumulate(own_ps[order])
    begin = _translate_times(start[moved_rows], recorded, own_ps)
    end = _translate_times(start[moved_rows] + dur[moved_rows], recorded, own_ps)
    start[moved_rows], dur[moved_rows] = begin, np.maximum(end - begin, 0)


def _translate_times(times: Int64s, recorded: Int64s, own: Int64s) -> Int64s:
    inside = np.clip(times, recorded[0], recorded[-1])
    # The differences are small enough for floats to be exact.
    moved = np.interp(inside - recorded[0], recorded - recorded[0], own - own[0])
    translated: Int64s = np.rint(moved).astype(np.int64) + own[0]
    return translated + (times - inside)
