"""Whether launch calls wait for their kernels, as settings for debugging make them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.advice.signals.signal import signal
from stepscope.derive.columns.arrays import codes, ints
from stepscope.derive.device.correlation import correlation
from stepscope.trace.device_activity import ACTIVITY_KINDS
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.derive.profile_data import ProfileData
    from stepscope.thresholds import Thresholds

__all__ = ["blocking_calls"]

_KERNEL: Final = ACTIVITY_KINDS.categories.to_list().index("kernel")


@signal(correlation)
def blocking_calls(profile: ProfileData, thresholds: Thresholds) -> dict[str, float]:
    """Return the share of long kernels that end before their call does, in percent.

    Hosts with few long kernels are left out. Launching is asynchronous: a call that
    outlasts its kernel has waited for it.
    """
    found = {}
    for host in profile.hosts:
        activity = profile.table(host, "device_activity")
        launches = profile.table(host, "launches")
        tied = profile.derived(host, correlation)
        if (
            isinstance(activity, Unavailable)
            or isinstance(launches, Unavailable)
            or isinstance(tied, Unavailable)
        ):
            continue
        long = (
            (codes(activity, "kind") == _KERNEL)
            & (ints(activity, "dur_ps") >= thresholds.blocking_kernel.value)
            & (tied.launch_of_activity >= 0)
        )
        rows = np.flatnonzero(long)
        if len(rows) < thresholds.blocking_samples.value:
            continue
        call = tied.launch_of_activity[rows]
        returned = (ints(launches, "start_ps") + ints(launches, "dur_ps"))[call]
        ended = ints(activity, "start_ps")[rows] + ints(activity, "dur_ps")[rows]
        # A replayed graph has one call for all of its kernels.
        if len(np.unique(call)) == len(call):
            found[host] = 100 * float((returned >= ended).mean())
    return found
