"""How many ops run on the host and on devices, and how much time they take there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.advice.signals.signal import signal
from stepscope.derive.ops.placement import op_placement
from stepscope.frozen import Frozen
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.derive.profile_data import ProfileData
    from stepscope.thresholds import Thresholds


class OpsOnSides(Frozen, frozen=True):
    """Share of the ops that run on devices, input pipelines left out.

    Attributes:
        count_percent: By number of executions; null where one side is unknown.
        time_percent: By their own time; null where one side is unknown.
    """

    count_percent: float | None
    time_percent: float | None


@signal(op_placement)
def ops_on_sides(profile: ProfileData, _: Thresholds) -> OpsOnSides | Unavailable:
    """Add up the ops of all hosts."""
    host_count = device_count = host_ps = device_ps = 0
    counted = timed = False
    reasons: list[Unavailable] = []
    for host in profile.hosts:
        found = profile.derived(host, op_placement)
        if isinstance(found, Unavailable):
            reasons.append(found)
            continue
        if found.host_executions is not None and found.device_executions is not None:
            counted = True
            host_count += found.host_executions
            device_count += found.device_executions
        if found.host_self_ps is not None and found.device_self_ps is not None:
            timed = True
            host_ps += found.host_self_ps
            device_ps += found.device_self_ps
    if reasons and not counted and not timed:
        return reasons[0]
    return OpsOnSides(
        count_percent=_percent(device_count, host_count) if counted else None,
        time_percent=_percent(device_ps, host_ps) if timed else None,
    )


def _percent(part: int, rest: int) -> float | None:
    return 100 * part / (part + rest) if part + rest else None
