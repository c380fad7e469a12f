"""`device_timeline`: the activities of each device in order of time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepscope.derive.columns.arrays import ints
from stepscope.frozen import Frozen

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray

__all__ = ["DeviceRows", "DeviceTimeline", "device_timeline"]


class DeviceRows(Frozen, frozen=True):
    """One device's activities, all streams together.

    Attributes:
        device: Ordinal of the device.
        rows: Rows of device_activity by start; equal starts in the table's order.
        start_ps: Starts of `rows`.
        dur_ps: Durations of `rows`.
    """

    device: int
    rows: NDArray[np.int64]
    start_ps: NDArray[np.int64]
    dur_ps: NDArray[np.int64]


class DeviceTimeline(Frozen, frozen=True):
    """All activities, device by device.

    Attributes:
        devices: One entry per device that has activity, ordinals ascending.
        row_count: Number of rows of device_activity.
    """

    devices: tuple[DeviceRows, ...]
    row_count: int


def device_timeline(*, device_activity: pl.DataFrame) -> DeviceTimeline:
    """Order activities by start within each device."""
    device = ints(device_activity, "device")
    start_ps = ints(device_activity, "start_ps")
    dur_ps = ints(device_activity, "dur_ps")
    ordinals = np.flatnonzero(np.bincount(device)).tolist() if len(device) else []
    found = []
    for ordinal in ordinals:
        rows = (
            np.arange(len(device))
            if len(ordinals) == 1
            else np.flatnonzero(device == ordinal)
        )
        starts = start_ps[rows] if len(ordinals) > 1 else start_ps
        if (starts[1:] < starts[:-1]).any():
            # Streams are in order already: a merge sort only merges them.
            order = np.argsort(starts, kind="stable")
            rows, starts = rows[order], starts[order]
        found.append(DeviceRows(ordinal, rows, starts, dur_ps[rows]))
    return DeviceTimeline(tuple(found), len(device))
