"""How many worker processes a program had in its judged steps, and their room."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.advice.signals.counters import cores_of, counter, usable_cores
from stepscope.advice.signals.running.processors import mean_by_window
from stepscope.advice.signals.signal import signal
from stepscope.derive.columns.arrays import ints
from stepscope.derive.step_windows.windows import windows
from stepscope.frozen import Frozen
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.derive.profile_data import ProfileData
    from stepscope.thresholds import Thresholds

_WORKERS: Final = "worker processes"
_USED: Final = "worker processes CPU (percent)"
_MACHINE: Final = "machine CPU (percent)"
#: Workers that use less than this of a core each wait for something else most of the
#: time.
_COMPUTES: Final = 0.5
#: So many more of these may wait at the same time.
_TIMES: Final = 2


class LoaderWorkers(Frozen, frozen=True, eq=True):
    """The processes that a program has begun to work for it, of one host.

    Attributes:
        workers: Their usual number.
        cores: Number of cores that the program may use.
        used: Cores that the workers use together; None where not recorded.
        full: Whether hardly a core of the machine is ever free; None where not
            recorded.
    """

    workers: int
    cores: int
    used: float | None = None
    full: bool | None = None

    @property
    def compute(self) -> bool | None:
        """Return whether they compute, and do not wait for a disk or a network.

        None where that was not recorded.
        """
        return None if self.used is None else self.used >= _COMPUTES * self.workers

    @property
    def could_be(self) -> int | None:
        """Return how many workers there is room for; None for no more than there are.

        Workers that compute need a core each. Those that wait, for a disk or a network,
        leave theirs to others.
        """
        if self.full:
            return None
        if self.compute is False:
            return max(_TIMES * self.workers, self.cores)
        return self.cores if self.workers < self.cores else None


@signal(windows, seldom=True)
def loader_workers(
    profile: ProfileData, thresholds: Thresholds
) -> dict[str, LoaderWorkers]:
    """Return the workers of each host that counted any."""
    found = {}
    for host in profile.hosts:
        cores = usable_cores(profile, host)
        readings = counter(profile, host, _WORKERS)
        placed = profile.derived(host, windows)
        if cores is None or readings is None or isinstance(placed, Unavailable):
            continue
        starts = ints(placed.measured, "start_ps")
        if not len(starts):
            continue
        # Readings are rare: the last one before the steps counts as well.
        ends = ints(placed.measured, "end_ps")
        first = max(int(np.searchsorted(readings.time_ps, starts[0])) - 1, 0)
        past = int(np.searchsorted(readings.time_ps, ends[-1], side="right"))
        counted = readings.value[first : max(past, first + 1)]
        workers = round(float(np.median(counted)))
        if workers:
            every = cores_of(profile, host)
            in_use = _mean_cores(profile, host, _MACHINE, starts, ends)
            full = None
            if every is not None and in_use is not None:
                full = 100 * in_use >= thresholds.busy_cores.value * every
            used = _mean_cores(profile, host, _USED, starts, ends)
            found[host] = LoaderWorkers(workers, cores, used, full)
    return found


@signal("environment", "event_types", seldom=True)
def machine_cores(profile: ProfileData, _: Thresholds) -> dict[str, int]:
    """Return how many cores the program may use, of each host that says so."""
    found = {host: usable_cores(profile, host) for host in profile.hosts}
    return {host: cores for host, cores in found.items() if cores is not None}


def _mean_cores(
    profile: ProfileData,
    host: str,
    name: str,
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
) -> float | None:
    """Return the mean of a counter of processor time in the steps, in cores."""
    readings = counter(profile, host, name)
    if readings is None:
        return None
    lengths = ends - starts
    weighted = mean_by_window(readings, starts, ends) * lengths
    return float(weighted.sum() / max(int(lengths.sum()), 1)) / 100
