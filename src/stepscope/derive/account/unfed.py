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
from stepscope.frozen import Frozen
from stepscope.trace.device_activity import ACTIVITY_KINDS
from stepscope.trace.reading.nullable import filled
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray

    from stepscope.derive.account.owned_time import DeviceAccount
    from stepscope.derive.device.correlation import Correlation
    from stepscope.derive.device.launch_facts import LaunchLatency
    from stepscope.derive.step_windows.windows import Windows

#: Owners of time of which nothing says what the program did.
UNFED_OWNERS: Final = ("between", "unexplained")
#: What is smaller is a scalar or a few indices, no batch.
_LEAST_BYTES: Final = 4096
#: A batch is copied in this share of the closed windows, at least.
_USUAL: Final = 0.8
_H2D: Final = ACTIVITY_KINDS.categories.to_list().index("h2d")


class BatchCopies(Frozen, frozen=True):
    """When batches were copied to devices, in a program of which no fetch is known.

    Attributes:
        windows: The windows, most of which must copy a batch.
        device_activity: The table.
        launches: The table.
        correlation: The launch of each activity.
        soon_ps: Silence is longer than this; a copy comes sooner after it.
    """

    windows: Windows
    device_activity: pl.DataFrame
    launches: pl.DataFrame
    correlation: Correlation
    soon_ps: int

    @classmethod
    def of(
        cls,
        windows: Windows,
        device_activity: pl.DataFrame | Unavailable,
        launches: pl.DataFrame | Unavailable,
        correlation: Correlation | Unavailable,
        launch_latency: LaunchLatency | Unavailable,
    ) -> BatchCopies | None:
        """Collect the copies; None where one of the tables is missing."""
        if (
            isinstance(device_activity, Unavailable)
            or isinstance(launches, Unavailable)
            or isinstance(correlation, Unavailable)
            or isinstance(launch_latency, Unavailable)
        ):
            return None
        soon_ps = long_stretch_ps(launch_latency.latency_ps)
        return cls(windows, device_activity, launches, correlation, soon_ps)

    def waits(self, one: DeviceAccount, doing: Spans, blocked: Spans) -> Spans:
        """Return the long silence of a device's program before it copies a batch.

        Args:
            one: The idle time of the device.
            doing: When something says what a step thread does.
            blocked: The part of its idle time in which the program was blocked by
                something else than a device.
        """
        called = self._calls(one.device)
        rows = self.windows.rows.filter(~self.windows.rows["open_end"])
        if not rows.height or not len(called):
            return Spans.empty()
        starts, ends = ints(rows, "start_ps"), ints(rows, "end_ps")
        copies = np.searchsorted(called, ends) - np.searchsorted(called, starts)
        if (copies > 0).mean() < _USUAL:
            return Spans.empty()
        silent = Spans.union_of((blocked, *(one.idle[owner] for owner in UNFED_OWNERS)))
        # Small work may be launched between the silence and the copy.
        walks = _ending_before(
            Spans.union_of(one.walked_by.values()), called, self.soon_ps
        )
        found = (silent & walks) - doing
        long = found.end_ps - found.start_ps > self.soon_ps
        return Spans(found.start_ps[long], found.end_ps[long])

    def _calls(self, device: int | None) -> NDArray[np.int64]:
        """Return when calls began that copy as much as a batch, ascending."""
        activity, launch = self.device_activity, self.correlation.launch_of_activity
        mine = codes(activity, "kind") == _H2D
        mine &= handles(activity, "device") == device
        size = filled(activity["bytes"], 0)
        mine &= (size > _LEAST_BYTES) & (launch >= 0)
        return np.sort(ints(self.launches, "start_ps")[launch[mine]])


def _ending_before(walks: Spans, called_ps: NDArray[np.int64], soon_ps: int) -> Spans:
    """Return the stretches that end less than some time before a call, or with it."""
    at = np.searchsorted(called_ps, walks.end_ps)
    next_call = np.append(called_ps, np.iinfo(np.int64).max)[at]
    soon = next_call - walks.end_ps <= soon_ps
    return Spans(walks.start_ps[soon], walks.end_ps[soon])
