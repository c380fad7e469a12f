"""How long the steps of a host wait for input while no other work keeps them busy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from stepscope.analysis.results.tables import package_reasons
from stepscope.derive.account.time_by_cause import account
from stepscope.derive.step_windows.windows import windows
from stepscope.derive.steps.chosen import steps
from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_MS

if TYPE_CHECKING:
    from stepscope.derive.profile_data import ProfileData

_WHY: Final = package_reasons("tf_data_bottleneck_analysis")


class ExposedWait(msgspec.Struct, frozen=True, kw_only=True):
    """Waiting for input, averaged over the devices of a host if it has devices.

    Attributes:
        steps: Number of counted steps, whose ends are known.
        ms_per_step: Mean waiting time per step.
        percent: Waiting as a share of the time of all counted steps.
    """

    steps: int
    ms_per_step: float
    percent: float


def exposed_wait(profile: ProfileData, host: str) -> ExposedWait | Unavailable:
    """Return the waiting of one host's steps, or why it is unknown."""
    step_windows = profile.derived(host, windows)
    charged = profile.derived(host, account)
    if isinstance(step_windows, Unavailable):
        return step_windows
    if isinstance(charged, Unavailable):
        return charged
    if not step_windows.has_steps:
        host_steps = profile.derived(host, steps)
        return host_steps if isinstance(host_steps, Unavailable) else _WHY["no_time"]
    if "input" in charged.missing:
        return charged.missing["input"]
    judged = step_windows.rows_of_measured(charged.rows)
    waited = int(judged["input_ps"].sum())
    total_ps = int(judged["window_ps"].sum())
    if not total_ps:
        return _WHY["no_time"]
    return ExposedWait(
        steps=judged["window"].n_unique(),
        ms_per_step=waited / len(judged) / PS_PER_MS,
        percent=100.0 * waited / total_ps,
    )
