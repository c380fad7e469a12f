"""Copies between one host and several devices that make the steps longer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.derive.columns.arrays import (
    ACTIVITY_CODES,
    codes,
    handles,
    ints,
    rows_of_kinds,
)
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.run_derivation import first_reason, known_hosts, of_run
from stepscope.derive.step_windows.windows import windows_of_times
from stepscope.derive.verdicts.effect_status import JudgedSteps, step_basis
from stepscope.frozen import Frozen
from stepscope.thresholds import THRESHOLDS
from stepscope.trace.reading.nullable import fill_nulls

if TYPE_CHECKING:
    import polars as pl

    from stepscope.array_types import Bools, Int32s, Int64s, UInt8s
    from stepscope.derive.account.time_by_cause import Account
    from stepscope.derive.device.activity_classes import Exposure
    from stepscope.derive.run_derivation import OfHosts
    from stepscope.derive.step_windows.windows import Windows
    from stepscope.derive.steps.chosen import Steps
    from stepscope.trace.model import TraceData
    from stepscope.unavailable import Unavailable

_FEED, _RESULT, _PEER = (ACTIVITY_CODES[name] for name in ("h2d", "d2h", "p2p_copy"))
_MIN_DEVICES: Final = 2


class MovedData(JudgedSteps, frozen=True, kw_only=True):
    """The copies of a host's devices in its judged steps; times in ps.

    Attributes:
        devices: Labels of the devices; first the device that receives its input last.
        in_turn_ps: If devices receive their input one after another: idle time of the
            last device while the other devices receive their input.
        between_ps: Exposed time of device-to-device copies, on the device with the
            most.
        gathered_ps: Exposed time of result copies to the host, if from only one device.
        gathering: Label of the device that copies results; None if there are several.
        bytes: (source, destination) → bytes in a step, without copies of unknown size.
    """

    host: str
    devices: tuple[str, ...]
    in_turn_ps: tuple[int, ...]
    between_ps: tuple[int, ...]
    gathered_ps: tuple[int, ...]
    gathering: str | None
    bytes: dict[tuple[str, str], float]


class _Rows(Frozen, frozen=True):
    """Copies in judged steps; `large` is False for copies the size of a few numbers."""

    device: Int32s
    kind: UInt8s
    start_ps: Int64s
    dur_ps: Int64s
    alone_ps: Int64s
    size: Int64s
    window: Int64s
    large: Bools

    def sum_by_window(self, chosen: Bools, values: Int64s, windows: int) -> Int64s:
        """Sum the values of the chosen rows by window."""
        sums = np.zeros(windows, np.int64)
        np.add.at(sums, self.window[chosen], values[chosen])
        return sums


@of_run
def moved_data(
    *, host_moves: OfHosts[MovedData | None]
) -> MovedData | Unavailable | None:
    """Return the copies of the host with most copy delay; None for a single device."""
    moves = known_hosts(host_moves).values()
    if not moves:
        return first_reason(host_moves)
    return max(
        moves,
        key=lambda host: (
            sum((*host.in_turn_ps, *host.between_ps, *host.gathered_ps))
            / max(host.total_ps, 1)
        ),
    )


def host_moves(
    *,
    trace: TraceData,
    device_activity: pl.DataFrame,
    account: Account,
    exposure: Exposure,
    steps: Steps | Unavailable,
    windows: Windows,
) -> MovedData | None:
    """Return the copies of one host; None without several devices."""
    idle = {
        device.device: Spans.union_of(device.idle.values())
        for device in account.devices
        if device.device is not None
    }
    if len(idle) < _MIN_DEVICES:
        return None
    host, measured = trace.host, windows.measured
    rows = _judged_copies(device_activity, exposure.alone_ps, measured)
    count = len(measured)
    waits, last = _waits_in_turn(rows, idle, count)
    results = rows.large & (rows.kind == _RESULT)
    returning = [device for device in idle if (results & (rows.device == device)).any()]
    gathered, gathering = np.zeros(count, np.int64), None
    if len(returning) == 1:
        gathered = rows.sum_by_window(results, rows.alone_ps, count)
        gathering = f"{host}:{returning[0]}"
    order = sorted(idle, key=lambda device: (device != last, device))
    source, confidence = step_basis(steps)
    sums = [
        rows.sum_by_window(
            (rows.kind == _PEER) & (rows.device == device), rows.alone_ps, count
        )
        for device in idle
    ]
    return MovedData(
        host=host,
        devices=tuple(f"{host}:{device}" for device in order),
        step_source=source,
        step_confidence=confidence,
        window_ps=tuple((measured["end_ps"] - measured["start_ps"]).to_list()),
        in_turn_ps=tuple(waits.tolist()),
        between_ps=tuple(max(sums, key=lambda times_ps: int(times_ps.sum())).tolist()),
        gathered_ps=tuple(gathered.tolist()),
        gathering=gathering,
        bytes=_direction_bytes(rows, host, count),
    )


def _judged_copies(
    activity: pl.DataFrame, alone_ps: Int64s, measured: pl.DataFrame
) -> _Rows:
    rows = rows_of_kinds(activity, (_FEED, _RESULT, _PEER))
    begin = ints(activity, "start_ps")[rows]
    window = windows_of_times(measured, begin)
    judged = window >= 0
    rows, begin, window = rows[judged], begin[judged], window[judged]
    # A copy of unknown size counts as large.
    size = activity["bytes"].gather(rows)
    large = (size >= THRESHOLDS.small_copy.value).fill_null(value=True)
    return _Rows(
        handles(activity, "device")[rows],
        codes(activity, "kind")[rows],
        begin,
        ints(activity, "dur_ps")[rows],
        alone_ps[rows],
        fill_nulls(size, 0),
        window,
        large.to_numpy(),
    )


def _waits_in_turn(
    rows: _Rows, idle: dict[int, Spans], count: int
) -> tuple[Int64s, int | None]:
    """Return how long the device with the last input waits for other devices' input.

    The second value is the device that gets its input last in most steps. The wait is 0
    in steps whose devices receive their input in parallel.
    """
    waits = np.zeros(count, np.int64)
    lasts: list[int] = []
    feeds = rows.large & (rows.kind == _FEED)
    for window in np.unique(rows.window[feeds]).tolist():
        fed = np.flatnonzero(feeds & (rows.window == window))
        own = {
            device: Spans.from_events(
                *(
                    values[fed[rows.device[fed] == device]]
                    for values in (rows.start_ps, rows.dur_ps)
                )
            )
            for device in np.unique(rows.device[fed]).tolist()
        }
        if len(own) < _MIN_DEVICES:
            continue
        total = sum(spans.length_ps for spans in own.values())
        together = Spans.union_of(own.values())
        if 100 * together.length_ps < THRESHOLDS.in_turn.value * total:
            continue
        last = max(own, key=lambda device: int(own[device].start_ps[0]))
        begin = int(together.start_ps[0])
        waits[window] = (
            idle[last].clip(begin, int(own[last].start_ps[0])) & (together - own[last])
        ).length_ps
        lasts.append(last)
    return waits, max(dict.fromkeys(lasts), key=lasts.count, default=None)


def _direction_bytes(
    rows: _Rows, host: str, count: int
) -> dict[tuple[str, str], float]:
    per_step: dict[tuple[str, str], float] = {}
    for device in np.unique(rows.device).tolist():
        label = f"{host}:{device}"
        directions = ((_FEED, ("host", label)), (_RESULT, (label, "host")))
        for kind, direction in (*directions, (_PEER, (label, "other devices"))):
            chosen = (rows.kind == kind) & (rows.device == device)
            total = int(rows.size[chosen].sum())
            if total:
                per_step[direction] = total / count
    return per_step
