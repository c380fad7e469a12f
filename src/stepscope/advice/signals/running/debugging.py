"""Settings for debugging: launch calls that wait, and the search for anomalies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.advice.signals.signal import signal
from stepscope.derive.columns.arrays import codes, handles, ints, picked
from stepscope.derive.device.correlation import correlation
from stepscope.derive.step_windows.windows import windows
from stepscope.trace.device_activity import ACTIVITY_KINDS
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.derive.profile_data import ProfileData
    from stepscope.thresholds import Thresholds

#: The op by which PyTorch asks of each gradient whether it is a number; it is called
#: for nothing else.
_CHECK: Final = "aten::_is_any_true"
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
        rows = np.flatnonzero(
            ints(activity, "dur_ps") >= thresholds.blocking_kernel.value
        )
        rows = rows[codes(activity, "kind")[rows] == _KERNEL]
        rows = rows[tied.launch_of_activity[rows] >= 0]
        if len(rows) < thresholds.blocking_samples.value:
            continue
        call = tied.launch_of_activity[rows]
        returned = ints(launches, "start_ps")[call] + ints(launches, "dur_ps")[call]
        ended = ints(activity, "start_ps")[rows] + ints(activity, "dur_ps")[rows]
        # A replayed graph has one call for all of its kernels.
        if np.bincount(call).max(initial=0) <= 1:
            found[host] = 100 * float((returned >= ended).mean())
    return found


@signal(windows)
def anomaly_checks(profile: ProfileData, _: Thresholds) -> dict[str, float]:
    """Return how many gradients a step are searched for what is no number.

    Hosts without such checks are left out. PyTorch makes one for each gradient of each
    op of the backward pass while it searches for anomalies.
    """
    found = {}
    for host in profile.hosts:
        events, types = (
            profile.table(host, "events"),
            profile.table(host, "event_types"),
        )
        placed = profile.derived(host, windows)
        if (
            isinstance(events, Unavailable)
            or isinstance(types, Unavailable)
            or isinstance(placed, Unavailable)
        ):
            continue
        named = (types["name"] == _CHECK).to_numpy()
        starts = ints(events, "start_ps")[picked(handles(events, "type"), named)]
        begins = ints(placed.measured, "start_ps")
        at = np.searchsorted(begins, starts, side="right") - 1
        inside = (at >= 0) & (starts < ints(placed.measured, "end_ps")[at])
        if inside.any():
            found[host] = int(inside.sum()) / len(begins)
    return found
