"""Whether launches are slower while threads of the input pipeline are busy."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.derive.columns.arrays import handles, ints
from stepscope.derive.host.core_time import core_count
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.run_derivation import of_each_device_or_why
from stepscope.derive.step_time.host_time import HostCode
from stepscope.derive.step_windows.windows import window_bounds
from stepscope.frozen import Frozen
from stepscope.remedies import Remedy
from stepscope.thresholds import THRESHOLDS
from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_MS

if TYPE_CHECKING:
    import polars as pl

    from stepscope.array_types import Bools, Int32s, Int64s
    from stepscope.derive.account.time_by_cause import Account
    from stepscope.derive.step_time.host_classes import HostClasses
    from stepscope.derive.step_windows.windows import Windows
    from stepscope.trace.model import TraceData

_PIPELINE: Final = (HostCode.PIPELINE, HostCode.ITERATOR)


class BusyThreads(Frozen, frozen=True):
    """Number of busy input pipeline threads over time; step threads are not counted.

    Attributes:
        start_ps: Times at which the number changes.
        lasting_ps: Time until the next change; 0 after the last change.
        count: Number of busy threads from `start_ps` on.
    """

    start_ps: Int64s
    lasting_ps: Int64s
    count: Int64s

    def spans_with_at_least(self, thread_count: float) -> Spans:
        """Return when at least the given number of threads are busy."""
        chosen = self.count >= thread_count
        return Spans.from_events(self.start_ps[chosen], self.lasting_ps[chosen])


def busy_threads(classes: HostClasses) -> BusyThreads | None:
    """Count the busy threads of the input pipeline; None if it has no threads."""
    driving = set(classes.threads.driving_tracks())
    sets = [
        spans[code]
        for track, spans in classes.by_thread.items()
        if track not in driving
        for code in _PIPELINE
        if code in spans
    ]
    if not sets:
        return None
    begins = np.sort(np.concatenate([part.start_ps for part in sets]))
    ends = np.sort(np.concatenate([part.end_ps for part in sets]))
    times = np.unique(np.concatenate((begins, ends)))
    busy = np.searchsorted(begins, times, side="right") - np.searchsorted(
        ends, times, side="right"
    )
    return BusyThreads(times, np.diff(times, append=times[-1:]), busy)


#: Maximum gap between two launches that is compared; in longer gaps the launching
#: thread is assumed to do other work.
_PAUSE_PS: Final = PS_PER_MS
_HIGH: Final = 90


class Contention(Frozen, frozen=True):
    """Gaps between launches, with and without a busy input pipeline.

    "Busy time" is the time in which input threads use most of the cores.

    Attributes:
        contended_ps: Busy time in which the device waits for launches, by judged step.
        busy_launches: Number of compared gaps in busy time.
        quiet_launches: Number of compared gaps in other time.
        busy_pace_ps: 90th percentile of the gaps in busy time; None without gaps.
        quiet_pace_ps: 90th percentile of the gaps in other time; None without gaps.
        chance: Probability that gaps in busy time are longer only by chance; None
            without gaps of both kinds.
    """

    cores: int
    contended_ps: tuple[int, ...]
    busy_launches: int
    quiet_launches: int
    busy_pace_ps: float | None
    quiet_pace_ps: float | None
    chance: float | None

    @property
    def pace(self) -> float | None:
        """Return the length of gaps in busy time, relative to gaps in other time."""
        if not self.busy_pace_ps or not self.quiet_pace_ps:
            return None
        return self.busy_pace_ps / self.quiet_pace_ps


@of_each_device_or_why
def contention_signals(
    *,
    trace: TraceData,
    account: Account,
    host_classes: HostClasses,
    launches: pl.DataFrame,
    windows: Windows,
) -> dict[int | None, Contention] | Unavailable:
    """Compare the gaps between launches in busy time with those in other time."""
    cores = core_count(trace)
    if cores is None:
        return _NO_CORES
    busy = busy_threads(host_classes)
    if busy is None:
        return _NO_THREADS
    crowded = busy.spans_with_at_least(THRESHOLDS.contended_cores.value / 100 * cores)
    starts, ends = window_bounds(windows.measured)
    busy_pauses, quiet_pauses = _pauses_by_load(
        ints(launches, "start_ps"), handles(launches, "track"), windows.judged, crowded
    )
    enough = bool(len(busy_pauses) and len(quiet_pauses))
    return {
        device.device: Contention(
            cores=cores,
            contended_ps=tuple(
                (device.idle["launch"] & crowded).within(starts, ends).tolist()
            ),
            busy_launches=len(busy_pauses),
            quiet_launches=len(quiet_pauses),
            busy_pace_ps=_high_percentile(busy_pauses),
            quiet_pace_ps=_high_percentile(quiet_pauses),
            chance=_chance_of_longer(busy_pauses, quiet_pauses) if enough else None,
        )
        for device in account.devices
        if device.device is not None
    }


def _pauses_by_load(
    called_ps: Int64s, track: Int32s, judged: Spans, crowded: Spans
) -> tuple[Int64s, Int64s]:
    """Return the short gaps between launches, in busy time and in other time."""
    order = np.lexsort((called_ps, track))
    begin, lane = called_ps[order], track[order]
    pause = np.diff(begin)
    ends_ps = begin[1:]
    chosen = (
        (lane[1:] == lane[:-1])
        & (pause <= _PAUSE_PS)
        & _contains_times(judged, ends_ps)
    )
    busy = _contains_times(crowded, ends_ps)
    return pause[chosen & busy], pause[chosen & ~busy]


def _contains_times(spans: Spans, times_ps: Int64s) -> Bools:
    return spans.within(times_ps, times_ps + 1) > 0


def _high_percentile(pauses: Int64s) -> float | None:
    return float(np.percentile(pauses, _HIGH)) if len(pauses) else None


def _chance_of_longer(a: Int64s, b: Int64s) -> float:
    """Return the one-sided Mann-Whitney p-value for "values of `a` are larger"."""
    values, code, count = np.unique(
        np.concatenate((a, b)), return_inverse=True, return_counts=True
    )
    before = np.cumsum(count) - count
    rank = (before + (count + 1) / 2)[code]
    n, m = len(a), len(b)
    total = n + m
    excess = float(rank[:n].sum()) - n * (n + 1) / 2 - n * m / 2
    tied = float((count.astype(np.float64) ** 3 - count).sum())
    spread = n * m / 12 * (total + 1 - tied / (total * max(total - 1, 1)))
    if spread <= 0 or len(values) == 1:
        return 1.0
    return 0.5 * math.erfc(excess / math.sqrt(2 * spread))


_NO_CORES: Final = Unavailable(
    code="NOT_RECORDED",
    reason="The number of cores of the machine was not recorded.",
    remedy=Remedy.RECORD_WITH_STEPSCOPE,
)
_NO_THREADS: Final = Unavailable(
    code="NO_TFDATA_EVENTS",
    reason="No thread of an input pipeline was recorded, so its use of the cores is "
    "unknown.",
    remedy=Remedy.RECORD_PIPELINE,
)
