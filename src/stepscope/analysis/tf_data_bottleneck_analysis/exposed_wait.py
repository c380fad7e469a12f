"""How long the steps of a host wait for input while nothing else keeps them busy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_MS

if TYPE_CHECKING:
    from stepscope.derive.profile_data import ProfileData

__all__ = ["ExposedWait", "exposed_wait"]

_NO_TIME: Final = Unavailable(
    code="ZERO_DENOMINATOR",
    reason="the steps of this host last no time.",
    remedy="Mark steps that contain the work of a step.",
)


class ExposedWait(msgspec.Struct, frozen=True, kw_only=True):
    """Waiting for input, averaged over the devices of a host where it has some.

    Attributes:
        steps: Steps that were looked at: those whose end is known.
        ms_per_step: Mean of their waiting.
        percent: Of their time, all together.
    """

    steps: int
    ms_per_step: float
    percent: float


def exposed_wait(profile: ProfileData, host: str) -> ExposedWait | Unavailable:
    """The waiting of one host's steps, or why it cannot be told."""
    windows = profile.derived(host, "windows")
    breakdown = profile.derived(host, "breakdown")
    for value in (windows, breakdown):
        if isinstance(value, Unavailable):
            return value
    if not windows.has_steps:
        steps = profile.derived(host, "steps")
        return steps if isinstance(steps, Unavailable) else _NO_TIME
    if "host_wait" in breakdown.missing:
        why: Unavailable = breakdown.missing["host_wait"]
        return why
    open_end = windows.rows["open_end"]
    judged = breakdown.rows
    if not open_end.all():
        judged = judged.filter(~open_end.gather(judged["window"]))
    waited = int(judged["host_wait_ps"].sum())
    whole = int(judged["window_ps"].sum())
    if not whole:
        return _NO_TIME
    return ExposedWait(
        steps=judged["window"].n_unique(),
        ms_per_step=waited / len(judged) / PS_PER_MS,
        percent=100.0 * waited / whole,
    )
