"""Lengths of a run's measured steps, and the steps' time by cause (owner)."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Final

import msgspec
import polars as pl

from stepscope.analysis.steps.measured_hosts import measured_rows, measured_run
from stepscope.analysis.steps.rows import OWNER_COLUMNS, mean_over_devices
from stepscope.derive.step_time.owners import OWNERS
from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_MS

if TYPE_CHECKING:
    from stepscope.derive.profile_data import ProfileData

#: Cause of the time spent on starting, stopping and writing the recording.
_RECORDING: Final = "profiler"


class RunTimes(msgspec.Struct, frozen=True, kw_only=True):
    """The measured steps of a run, in order; times are means over the devices.

    Attributes:
        window_ps: Length of each step without the cost of the recording, host by host.
        owners_ps: Cause (owner) → its time in each step; the causes add up to the step.
            Causes that could not be measured are left out.
        hosts: Number of hosts; each has an equal number of the steps.
        recording_ps: Cost of the recording in all steps, which their lengths exclude.
    """

    window_ps: tuple[int, ...]
    owners_ps: dict[str, tuple[int, ...]] = {}
    hosts: int = 1
    recording_ps: int = 0

    @property
    def mean_ms(self) -> float | None:
        """Return the mean length of a step, in ms; None without steps."""
        if not self.window_ps:
            return None
        return sum(self.window_ps) / len(self.window_ps) / PS_PER_MS

    @property
    def median_ms(self) -> float | None:
        """Return the median length of a step, in ms; None without steps."""
        return statistics.median(self.window_ps) / PS_PER_MS if self.window_ps else None

    def times_per_batch(self, batches: float) -> RunTimes:
        """Return the times per batch, for steps with this number of batches."""
        if batches == 1:
            return self
        return msgspec.structs.replace(
            self,
            window_ps=tuple(round(time_ps / batches) for time_ps in self.window_ps),
            owners_ps={
                name: tuple(round(time_ps / batches) for time_ps in times)
                for name, times in self.owners_ps.items()
            },
        )

    def values_by_step(self, values: tuple[int, ...]) -> list[float]:
        """Return one value per step of the run: the mean over hosts in lock step.

        As hosts in lock step wait for each other, their steps are not independent.
        """
        each = len(values) // self.hosts
        if self.hosts == 1 or each * self.hosts != len(values):
            return [float(value) for value in values]
        return [sum(values[step::each]) / self.hosts for step in range(each)]


def run_times(profile: ProfileData) -> RunTimes | Unavailable:
    """Measure the steps that a report's statistics use, with their time by cause.

    The cost of the recording is left out, because it exists only in recordings, and
    affects a few steps by chance.
    """
    measured = measured_run(profile)
    if isinstance(measured, Unavailable):
        return measured
    for host in measured.hosts:
        if isinstance(host.steps, Unavailable):
            return host.steps
    rows = pl.concat(
        [mean_over_devices(measured_rows(host, ())) for host in measured.hosts]
    )
    known = [
        (owner.name, column)
        for owner, column in zip(OWNERS, OWNER_COLUMNS, strict=True)
        if not rows[column].null_count()
    ]
    owners = {name: tuple(rows[column].to_list()) for name, column in known}
    recording = owners.pop(_RECORDING, (0,) * len(rows))
    return RunTimes(
        window_ps=tuple(
            window - lost
            for window, lost in zip(rows["window_ps"].to_list(), recording, strict=True)
        ),
        owners_ps=owners,
        hosts=len(measured.hosts),
        recording_ps=sum(recording),
    )
