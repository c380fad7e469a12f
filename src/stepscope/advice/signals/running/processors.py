"""Whether threads wait for a core while the steps run, and whose threads they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from stepscope.advice.signals.counters import cores_of, counter
from stepscope.advice.signals.signal import signal
from stepscope.derive.columns.arrays import ints
from stepscope.derive.step_windows.windows import windows
from stepscope.frozen import Frozen
from stepscope.remedies import Remedy
from stepscope.unavailable import Unavailable, present

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.advice.signals.counters import Readings
    from stepscope.derive.profile_data import ProfileData
    from stepscope.thresholds import Thresholds

_PRESSURE: Final = "CPU pressure (percent)"
_MACHINE: Final = "machine CPU (percent)"
_OWN: Final = ("process CPU (percent)", "worker processes CPU (percent)")
_THREADS: Final = ("threads", "worker processes")


class Processors(Frozen, frozen=True):
    """The cores of one host while its judged steps ran.

    Attributes:
        cores: Number of cores.
        waiting_percent: By judged step, how much of the time some thread of the machine
            waited for a core.
        machine: Cores in use, mean of the steps.
        own: Those that the program and its workers use; None where not recorded.
        threads: Threads of the program, and one for each worker process; None where
            not recorded.
        workers: Cores that its worker processes use; None where it has none.
    """

    cores: int
    waiting_percent: tuple[float, ...]
    machine: float
    own: float | None
    threads: int | None
    workers: float | None = None

    def are_full(self, thresholds: Thresholds) -> bool:
        """Return whether hardly a core is ever free, whoever uses them."""
        return 100 * self.machine >= thresholds.busy_cores.value * self.cores

    def crowded_by(self, thresholds: Thresholds) -> Literal["own", "others"] | None:
        """Return whose threads are too many; None where the cores have room."""
        if not self.are_full(thresholds):
            return None
        if self.own is not None and 2 * self.own < self.machine:
            return "others"
        most = thresholds.threads_of_a_core.value * self.cores
        return "own" if self.threads is not None and self.threads > most else None


@signal(windows)
def processor_signals(
    profile: ProfileData, _: Thresholds
) -> dict[str, Processors] | Unavailable:
    """Read the counters of every host that has them."""
    found = {}
    for host in profile.hosts:
        cores = cores_of(profile, host)
        pressure = counter(profile, host, _PRESSURE)
        machine = counter(profile, host, _MACHINE)
        placed = profile.derived(host, windows)
        if (
            cores is None
            or pressure is None
            or machine is None
            or isinstance(placed, Unavailable)
        ):
            continue
        measured = present(placed).measured
        starts, ends = ints(measured, "start_ps"), ints(measured, "end_ps")
        own = [_mean(counter(profile, host, one), starts, ends) for one in _OWN]
        threads = [_mean(counter(profile, host, one), starts, ends) for one in _THREADS]
        waiting = np.clip(mean_by_window(pressure, starts, ends), 0.0, 100.0)
        found[host] = Processors(
            cores=cores,
            waiting_percent=tuple(waiting.tolist()),
            machine=(_mean(machine, starts, ends) or 0.0) / 100,
            own=None if own[0] is None else (own[0] + (own[1] or 0.0)) / 100,
            threads=None
            if threads[0] is None
            else round(threads[0] + (threads[1] or 0.0)),
            workers=None if own[1] is None else own[1] / 100,
        )
    return found or _NOT_RECORDED


def mean_by_window(
    readings: Readings, starts: NDArray[np.int64], ends: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return the mean of a counter in each window.

    A reading is what held since the one before; the first also before that.
    """
    times, values = readings.time_ps, readings.value
    lasted = np.diff(times, prepend=times[:1]).astype(np.float64)
    total = np.concatenate(([0.0], np.cumsum(values * lasted)))

    def before(at: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the integral of the counter from its first reading on."""
        place = np.searchsorted(times, at, side="right")
        last = np.where(place > 0, times[np.maximum(place, 1) - 1], times[0])
        value = values[np.minimum(place, len(values) - 1)]
        found: NDArray[np.float64] = total[place] + (at - last) * value
        return found

    found: NDArray[np.float64] = (before(ends) - before(starts)) / np.maximum(
        ends - starts, 1
    )
    return found


def _mean(
    readings: Readings | None, starts: NDArray[np.int64], ends: NDArray[np.int64]
) -> float | None:
    """Return the mean of a counter over some windows together."""
    if readings is None:
        return None
    lengths = ends - starts
    weighted = mean_by_window(readings, starts, ends) * lengths
    return float(weighted.sum() / max(int(lengths.sum()), 1))


_NOT_RECORDED: Final = Unavailable(
    code="NOT_RECORDED",
    reason="Whether threads waited for a core was not recorded: it takes Linux, and "
    "its /proc/pressure/cpu.",
    remedy=Remedy.RECORD_WITH_STEPSCOPE,
)
