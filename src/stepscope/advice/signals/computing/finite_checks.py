"""Whether the program checks that its gradients are finite."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.advice.signals.signal import signal
from stepscope.derive.account.unfed import FINITE_CHECK
from stepscope.derive.columns.arrays import handles
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.derive.profile_data import ProfileData
    from stepscope.thresholds import Thresholds


@signal("device_activity", "event_types")
def finite_checks(profile: ProfileData, _: Thresholds) -> int | Unavailable | None:
    """Return how many kernels check, None where no op does either.

    Unavailable where ops check and no kernel is named so, or no kernel was recorded.
    """
    kernels, ops = 0, False
    reasons: list[Unavailable] = []
    for host in profile.hosts:
        types = profile.table(host, "event_types")
        activity = profile.table(host, "device_activity")
        if isinstance(types, Unavailable):
            reasons.append(types)
            continue
        if isinstance(activity, Unavailable):
            reasons.append(activity)
            continue
        checks = types["name"].str.contains(FINITE_CHECK).to_numpy()
        ops |= bool(checks.any())
        if checks.any():
            used = np.bincount(handles(activity, "type"), minlength=len(checks))
            kernels += int(used[checks].sum())
    if len(reasons) == len(profile.hosts):
        return reasons[0]
    if ops and not kernels:
        return _UNNAMED
    return kernels or None


_UNNAMED: Final = Unavailable(
    code="NO_KERNEL_DETAILS",
    reason="Ops check whether gradients are finite, but no kernel is named after one.",
    remedy="Look in the trace for a copy of a few bytes before the optimizer.",
)
