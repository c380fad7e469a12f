"""`device_timeline`: the activities of each device in order of time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepscope.derive.columns.arrays import handles, ints
from stepscope.frozen import Frozen

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray


class DeviceRows(Frozen, frozen=True):
    """One device's activities, all streams together.

    Attributes:
        rows: Rows of device_activity by start; equal starts in the table's order.
    """

    device: int
    rows: NDArray[np.int64]
    start_ps: NDArray[np.int64]
    dur_ps: NDArray[np.int64]


class DeviceTimeline(Frozen, frozen=True):
    """All activities, device by device.

    Attributes:
        devices: One entry per device that has activity, ordinals ascending.
    """

    devices: tuple[DeviceRows, ...]
    row_count: int


def device_timeline(*, device_activity: pl.DataFrame) -> DeviceTimeline:
    """Order activities by start within each device."""
    device = handles(device_activity, "device")
    start_ps = ints(device_activity, "start_ps")
    dur_ps = ints(device_activity, "dur_ps")
    ordinals = np.flatnonzero(np.bincount(device)).tolist() if len(device) else []
    alone = len(ordinals) == 1
    found = []
    for ordinal in ordinals:
        # The columns themselves where they are all of one device, in order.
        rows = np.arange(len(device)) if alone else np.flatnonzero(device == ordinal)
        starts, durs = (
            column if alone else column[rows] for column in (start_ps, dur_ps)
        )
        if (starts[1:] < starts[:-1]).any():
            # Streams are in order already: a merge sort only merges them.
            order = np.argsort(starts, kind="stable")
            rows = order if alone else rows[order]
            starts, durs = starts[order], durs[order]
        found.append(DeviceRows(ordinal, rows, starts, durs))
    return DeviceTimeline(tuple(found), len(device))
