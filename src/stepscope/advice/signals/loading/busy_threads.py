"""How many threads of the input pipeline work at each time, and whom they slow down."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.advice.signals.counters import cores_of
from stepscope.advice.signals.signal import signal
from stepscope.derive.account.owned_time import account
from stepscope.derive.columns.arrays import ints
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.step_time.host_classes import host_classes
from stepscope.derive.step_time.host_codes import HostCode
from stepscope.derive.step_windows.windows import windows
from stepscope.frozen import Frozen
from stepscope.unavailable import Unavailable, present
from stepscope.units import PS_PER_MS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.derive.profile_data import ProfileData
    from stepscope.derive.step_time.host_classes import HostClasses
    from stepscope.thresholds import Thresholds

__all__ = ["BusyThreads", "busy_threads", "slowed_by_input"]

_PIPELINE: Final = (HostCode.PIPELINE, HostCode.ITERATOR)


class BusyThreads(Frozen, frozen=True):
    """How many threads of the input pipeline are busy, other than those of the steps.

    Attributes:
        start_ps: When the number changes.
        lasting_ps: How long it stays; 0 after the last change.
        count: The number.
    """

    start_ps: NDArray[np.int64]
    lasting_ps: NDArray[np.int64]
    count: NDArray[np.int64]

    def at_least(self, many: float) -> Spans:
        """Return when at least so many are busy."""
        return self._chosen(self.count >= many)

    def exactly(self, many: int) -> Spans:
        """Return when so many are busy."""
        return self._chosen(self.count == many)

    def _chosen(self, chosen: NDArray[np.bool_]) -> Spans:
        return Spans.from_events(self.start_ps[chosen], self.lasting_ps[chosen])


def busy_threads(classes: HostClasses) -> BusyThreads | None:
    """Count the busy threads of the input pipeline; None where none was recorded."""
    driving = set(classes.threads.tracks())
    sets = [
        found[code]
        for track, found in classes.by_thread.items()
        if track not in driving
        for code in _PIPELINE
        if code in found
    ]
    if not sets:
        return None
    begins = np.sort(np.concatenate([one.start_ps for one in sets]))
    ends = np.sort(np.concatenate([one.end_ps for one in sets]))
    times = np.unique(np.concatenate((begins, ends)))
    busy = np.searchsorted(begins, times, side="right") - np.searchsorted(
        ends, times, side="right"
    )
    return BusyThreads(times, np.diff(times, append=times[-1:]), busy)


@signal(account, host_classes, windows, seldom=True)
def slowed_by_input(profile: ProfileData, _: Thresholds) -> dict[str, float]:
    """Return by how much input threads may slow a step's own work, in ms, by host.

    A core's time goes evenly to the threads that want it. The ops of a step are taken
    to want every core: beside p input threads on C cores they get C ÷ (C + p) of these,
    so that p ÷ (C + p) of their time would go with the threads. Hosts are left out
    where a device does the steps' work, and where the number of cores is not known.
    """
    found = {}
    for host in profile.hosts:
        slowed = _slowed_ms(profile, host)
        if slowed:
            found[host] = slowed
    return found


def _slowed_ms(profile: ProfileData, host: str) -> float:
    accounted = profile.derived(host, account)
    classes = profile.derived(host, host_classes)
    cores = cores_of(profile, host)
    if (
        isinstance(accounted, Unavailable)
        or isinstance(classes, Unavailable)
        or cores is None
    ):
        return 0.0
    own = [it.idle["host_compute"] for it in accounted.devices if it.device is None]
    measured = present(profile.derived(host, windows)).measured
    busy = busy_threads(classes) if own and len(measured) else None
    if busy is None:
        return 0.0
    starts, ends = ints(measured, "start_ps"), ints(measured, "end_ps")
    slowed = 0.0
    for many in np.unique(busy.count[busy.count > 0]).tolist():
        beside = own[0] & busy.exactly(many)
        time_ps = int(beside.within(starts, ends).sum())
        slowed += time_ps * many / (cores + many)
    return slowed / len(measured) / PS_PER_MS
