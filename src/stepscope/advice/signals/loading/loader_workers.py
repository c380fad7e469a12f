"""How many worker processes a program had while its judged steps ran."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.advice.signals.counters import cores_of, counter
from stepscope.advice.signals.signal import signal
from stepscope.derive.columns.arrays import ints
from stepscope.derive.step_windows.windows import windows
from stepscope.frozen import Frozen
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.derive.profile_data import ProfileData
    from stepscope.thresholds import Thresholds

__all__ = ["LoaderWorkers", "loader_workers"]

_WORKERS: Final = "worker processes"


class LoaderWorkers(Frozen, frozen=True, eq=True):
    """The processes that a program has begun to work for it, of one host.

    Attributes:
        workers: Their usual number.
        cores: Number of the machine's cores.
    """

    workers: int
    cores: int


@signal(windows, seldom=True)
def loader_workers(profile: ProfileData, _: Thresholds) -> dict[str, LoaderWorkers]:
    """Return the workers of each host that counted any."""
    found = {}
    for host in profile.hosts:
        cores = cores_of(profile, host)
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
            found[host] = LoaderWorkers(workers, cores)
    return found
