"""Silence that ends as a batch is copied to the device, where no fetch was recorded.

Profilers that know no loader (Nsight Systems without ranges of PyTorch, JAX fed with
arrays) show nothing of how a batch is made: the program is silent, and what it does
next is to copy the batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.derive.account.host_states import long_stretch_ps
from stepscope.derive.columns.arrays import codes, handles, ints
from stepscope.derive.intervals.spans import Spans
from stepscope.trace.device_activity import ACTIVITY_KINDS

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray

    from stepscope.derive.account.owned_time import DeviceAccount
    from stepscope.derive.device.correlation import Correlation
    from stepscope.derive.step_windows.windows import Windows

__all__ = ["UNFED_OWNERS", "unfed_waits"]

#: Owners of time of which nothing says what the program did.
UNFED_OWNERS: Final = ("between", "unexplained")
#: What is smaller is a scalar or a few indices, no batch.
_LEAST_BYTES: Final = 4096
#: A batch is copied in this share of the closed windows, at least.
_USUAL: Final = 0.8
_H2D: Final = ACTIVITY_KINDS.categories.to_list().index("h2d")


def unfed_waits(
    one: DeviceAccount,
    *,
    windows: Windows,
    device_activity: pl.DataFrame,
    launches: pl.DataFrame,
    correlation: Correlation,
    latency_ps: int,
    doing: Spans,
) -> Spans:
    """Return the long silence of a device's program before it copies a batch.

    Args:
        one: The idle time of the device.
        windows: The windows, most of which must copy a batch.
        device_activity: The table.
        launches: The table.
        correlation: The launch of each activity.
        latency_ps: The usual launch latency.
        doing: When something says what a step thread does.
    """
    nothing = Spans.empty()
    called = _copy_calls(one.device, device_activity, launches, correlation)
    rows = windows.rows.filter(~windows.rows["open_end"])
    if not rows.height or not len(called):
        return nothing
    starts, ends = ints(rows, "start_ps"), ints(rows, "end_ps")
    copies = np.searchsorted(called, ends) - np.searchsorted(called, starts)
    if (copies > 0).mean() < _USUAL:
        return nothing
    soon = long_stretch_ps(latency_ps)
    silent = Spans.union_of(one.idle[owner] for owner in UNFED_OWNERS)
    # Small work may be launched between the silence and the copy.
    walks = _ending_before(Spans.union_of(one.walked_by.values()), called, soon)
    found = (silent & walks) - doing
    long = found.end_ps - found.start_ps > soon
    return Spans(found.start_ps[long], found.end_ps[long])


def _copy_calls(
    device: int | None,
    device_activity: pl.DataFrame,
    launches: pl.DataFrame,
    correlation: Correlation,
) -> NDArray[np.int64]:
    """Return when calls began that copy as much as a batch to a device, ascending."""
    mine = codes(device_activity, "kind") == _H2D
    mine &= handles(device_activity, "device") == device
    size = device_activity["bytes"].fill_null(0).to_numpy()
    mine &= (size > _LEAST_BYTES) & (correlation.launch_of_activity >= 0)
    called = ints(launches, "start_ps")[correlation.launch_of_activity[mine]]
    return np.sort(called)


def _ending_before(walks: Spans, called_ps: NDArray[np.int64], soon_ps: int) -> Spans:
    """Return the stretches that end less than some time before a call, or with it."""
    at = np.searchsorted(called_ps, walks.end_ps)
    next_call = np.append(called_ps, np.iinfo(np.int64).max)[at]
    soon = next_call - walks.end_ps <= soon_ps
    return Spans(walks.start_ps[soon], walks.end_ps[soon])
