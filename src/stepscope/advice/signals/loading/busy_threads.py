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

__all__ = ["BusyThreads", "Slowed", "busy_threads", "slowed_by_input"]

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


class Slowed(Frozen, frozen=True, eq=True):
    """By how much input threads may slow a step's own work.

    Attributes:
        most_ms: Mean of a judged step, where its ops want every core.
        full_ms: The part of it while input threads and one of the step's keep every
            core busy: then they share these, whatever the ops want.
    """

    most_ms: float
    full_ms: float


@signal(account, host_classes, windows, seldom=True)
def slowed_by_input(profile: ProfileData, _: Thresholds) -> dict[str, Slowed]:
    """Return by how much input threads may slow a step's own work, by host.

    A core's time goes evenly to the threads that want it. The ops of a step are taken
    to want every core: beside p input threads on C cores they get C ÷ (C + p) of these,
    so that p ÷ (C + p) of their time would go with the threads. Hosts are left out
    where a device does the steps' work, and where the number of cores is not known.
    """
    found = {}
    for host in profile.hosts:
        slowed = _slowed(profile, host)
        if slowed is not None:
            found[host] = slowed
    return found


def _slowed(profile: ProfileData, host: str) -> Slowed | None:
    accounted = profile.derived(host, account)
    classes = profile.derived(host, host_classes)
    cores = cores_of(profile, host)
    if (
        isinstance(accounted, Unavailable)
        or isinstance(classes, Unavailable)
        or cores is None
    ):
        return None
    own = [it.idle["host_compute"] for it in accounted.devices if it.device is None]
    measured = present(profile.derived(host, windows)).measured
    busy = busy_threads(classes) if own and len(measured) else None
    if busy is None:
        return None
    starts, ends = ints(measured, "start_ps"), ints(measured, "end_ps")
    most = full = 0.0
    for many in np.unique(busy.count[busy.count > 0]).tolist():
        beside = own[0] & busy.exactly(many)
        taken = int(beside.within(starts, ends).sum()) * many / (cores + many)
        most += taken
        full += taken if many + 1 >= cores else 0.0
    if not most:
        return None
    steps = len(measured) * PS_PER_MS
    return Slowed(most_ms=most / steps, full_ms=full / steps)
