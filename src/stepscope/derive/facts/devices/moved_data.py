"""Copies among the host and its devices that hold up a step on several devices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.derive.columns.arrays import codes, handles, ints, of_kinds
from stepscope.derive.facts.judged_steps import step_basis
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.run_derivation import first_reason, known_hosts, of_run
from stepscope.frozen import Frozen
from stepscope.thresholds import THRESHOLDS
from stepscope.trace.tables import ACTIVITY_KINDS

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray

    from stepscope.derive.account.owned_time import Account
    from stepscope.derive.device.activity_classes import Exposure
    from stepscope.derive.run_derivation import OfHosts
    from stepscope.derive.step_windows.windows import Windows
    from stepscope.derive.steps.chosen import Steps
    from stepscope.trace.model import TraceData
    from stepscope.unavailable import Unavailable

_KINDS: Final = ACTIVITY_KINDS.categories.to_list()
_FEED, _RESULT, _PEER = (_KINDS.index(name) for name in ("h2d", "d2h", "p2p_copy"))
_SEVERAL: Final = 2


class MovedData(Frozen, frozen=True):
    """The copies of a host's devices in its judged steps; times in ps.

    Attributes:
        devices: Labels of the devices that take part, the one that is fed last first.
        step_source: Where the steps come from; None where the recording is one window.
        step_confidence: 0 to 1.
        window_ps: Length of each judged step.
        in_turn_ps: Idle time of the device that is fed last while the others are fed,
            where they are fed one after another.
        between_ps: Copies between devices beside which nothing ran, on the device on
            which they last longest.
        gathered_ps: Copies of results to the host beside which nothing ran, where a
            single one of the devices has any.
        gathering: Label of that device; None where there is none.
        bytes: (source, destination) → bytes in a step; those of unknown size left out.
    """

    host: str
    devices: tuple[str, ...]
    step_source: str | None
    step_confidence: float
    window_ps: tuple[int, ...]
    in_turn_ps: tuple[int, ...]
    between_ps: tuple[int, ...]
    gathered_ps: tuple[int, ...]
    gathering: str | None
    bytes: dict[tuple[str, str], float]


class _Rows(Frozen, frozen=True):
    """Copies in judged steps; `large` are those that are more than a number."""

    device: NDArray[np.int32]
    kind: NDArray[np.uint8]
    start_ps: NDArray[np.int64]
    dur_ps: NDArray[np.int64]
    alone_ps: NDArray[np.int64]
    size: NDArray[np.int64]
    window: NDArray[np.int64]
    large: NDArray[np.bool_]

    def sum_by_window(
        self, chosen: NDArray[np.bool_], values: NDArray[np.int64], windows: int
    ) -> NDArray[np.int64]:
        """Sum some rows by window."""
        found = np.zeros(windows, np.int64)
        np.add.at(found, self.window[chosen], values[chosen])
        return found


@of_run
def moved_data(
    *, host_moves: OfHosts[MovedData | None]
) -> MovedData | Unavailable | None:
    """Look at the host whose copies hold its devices up most; None without several."""
    found = known_hosts(host_moves).values()
    if not found:
        return first_reason(host_moves)
    return max(
        found,
        key=lambda host: (
            sum((*host.in_turn_ps, *host.between_ps, *host.gathered_ps))
            / max(sum(host.window_ps), 1)
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
    """Look at the copies of one host; None without several devices."""
    idle = {
        one.device: Spans.union_of(one.idle.values())
        for one in account.devices
        if one.device is not None
    }
    if len(idle) < _SEVERAL:
        return None
    host, measured = trace.host, windows.measured
    starts, ends = ints(measured, "start_ps"), ints(measured, "end_ps")
    rows = _judged_copies(device_activity, exposure.alone_ps, starts, ends)
    waits, last = _waits_in_turn(rows, idle, len(starts))
    gathered, gathering = _gathered_results(rows, idle, len(starts))
    order = sorted(idle, key=lambda device: (device != last, device))
    basis = step_basis(steps)
    count = len(starts)
    sums = [
        rows.sum_by_window(
            (rows.kind == _PEER) & (rows.device == device), rows.alone_ps, count
        )
        for device in idle
    ]
    return MovedData(
        host=host,
        devices=tuple(f"{host}:{device}" for device in order),
        step_source=basis.source,
        step_confidence=basis.confidence,
        window_ps=tuple((ends - starts).tolist()),
        in_turn_ps=tuple(waits.tolist()),
        between_ps=tuple(max(sums, key=lambda one: int(one.sum())).tolist()),
        gathered_ps=tuple(gathered.tolist()),
        gathering=None if gathering is None else f"{host}:{gathering}",
        bytes=_bytes_by_way(rows, host, len(starts)),
    )


def _judged_copies(
    activity: pl.DataFrame,
    alone_ps: NDArray[np.int64],
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
) -> _Rows:
    # Copies are few of all activities.
    at = of_kinds(activity, (_FEED, _RESULT, _PEER))
    begin = ints(activity, "start_ps")[at]
    window = np.searchsorted(starts, begin, side="right") - 1
    judged = (window >= 0) & (begin < ends[np.maximum(window, 0)])
    at, begin, window = at[judged], begin[judged], window[judged]
    size = activity["bytes"].to_numpy()[at]
    known = ~np.isnan(size) if size.dtype.kind == "f" else np.ones(len(at), np.bool_)
    whole = np.where(known, size, 0).astype(np.int64)
    return _Rows(
        handles(activity, "device")[at],
        codes(activity, "kind")[at],
        begin,
        ints(activity, "dur_ps")[at],
        alone_ps[at],
        whole,
        window,
        # Of unknown size a copy that lasts is one of data.
        ~known | (whole >= THRESHOLDS.small_copy.value),
    )


def _waits_in_turn(
    rows: _Rows, idle: dict[int, Spans], count: int
) -> tuple[NDArray[np.int64], int | None]:
    """Return how long the device that is fed last idles while the others are fed.

    Also which device that is in most steps. Steps whose devices are fed side by side
    count nothing.
    """
    waits = np.zeros(count, np.int64)
    lasts: list[int] = []
    feeds = rows.large & (rows.kind == _FEED)
    for window in np.unique(rows.window[feeds]).tolist():
        mine = np.flatnonzero(feeds & (rows.window == window))
        own = {
            device: Spans.from_events(
                *(
                    it[mine[rows.device[mine] == device]]
                    for it in (rows.start_ps, rows.dur_ps)
                )
            )
            for device in np.unique(rows.device[mine]).tolist()
        }
        if len(own) < _SEVERAL:
            continue
        total = sum(one.length_ps for one in own.values())
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


def _gathered_results(
    rows: _Rows, idle: dict[int, Spans], count: int
) -> tuple[NDArray[np.int64], int | None]:
    """Return the results alone where one device copies all of them, and which."""
    results = rows.large & (rows.kind == _RESULT)
    by_device = [one for one in idle if (results & (rows.device == one)).any()]
    if len(by_device) != 1:
        return np.zeros(count, np.int64), None
    return rows.sum_by_window(results, rows.alone_ps, count), by_device[0]


def _bytes_by_way(rows: _Rows, host: str, count: int) -> dict[tuple[str, str], float]:
    found: dict[tuple[str, str], float] = {}
    for device in np.unique(rows.device).tolist():
        label = f"{host}:{device}"
        ways = ((_FEED, ("host", label)), (_RESULT, (label, "host")))
        for kind, way in (*ways, (_PEER, (label, "other devices"))):
            mine = (rows.kind == kind) & (rows.device == device)
            total = int(rows.size[mine].sum())
            if total:
                found[way] = total / max(count, 1)
    return found
