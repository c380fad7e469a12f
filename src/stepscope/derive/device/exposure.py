"""`exposure`: the time in which device work runs alone on its device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope._core import sweeps as kernels
from stepscope.frozen import Frozen
from stepscope.trace.reading.by_row import by_row

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.derive.device.attribution import ActivityOps
    from stepscope.derive.device.timeline import DeviceRows, DeviceTimeline

#: Streams rarely run more at once; a busier device is done again with room for all.
_USUAL_OVERLAP: Final = 256


class Exposure(Frozen, frozen=True):
    """What runs alone on its device.

    Attributes:
        alone_ps: int64 by row of device_activity; the time in which the activity runs
            and no other one of the device does.
        group_ps: Device → int64 by `group` of the ops of `activity_ops`; the time in
            which only activities of this group run on it.
        busy_ps: Device → length of the union of its activities.
        hull_ps: Device → time from its first begin to its last end.
    """

    alone_ps: NDArray[np.int64]
    group_ps: dict[int, NDArray[np.int64]]
    busy_ps: dict[int, int]
    hull_ps: dict[int, int]


def exposure(*, device_timeline: DeviceTimeline, activity_ops: ActivityOps) -> Exposure:
    """Sweep each device once.

    Definition: docs/tools/framework_op_stats.md#how-each-number-is-defined.
    """
    found = Exposure(np.zeros(device_timeline.row_count, np.int64), {}, {}, {})
    group_of_op = activity_ops.ops["group"].to_numpy()
    group = by_row(group_of_op, activity_ops.op)
    for device in device_timeline.devices:
        key = group[device.rows]
        alone_ps, group_ps, busy_ps = _swept(device, key, int(group_of_op.max()) + 1)
        found.alone_ps[device.rows] = alone_ps
        found.group_ps[device.device] = group_ps
        found.busy_ps[device.device] = busy_ps
        last = int((device.start_ps + device.dur_ps).max())
        found.hull_ps[device.device] = last - int(device.start_ps[0])
    return found


def _swept(
    device: DeviceRows, key: NDArray[np.int32], key_count: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    for room in (_USUAL_OVERLAP, len(key)):
        alone_ps = np.zeros(len(key), np.int64)
        group_ps = np.zeros(key_count, np.int64)
        answer: int = kernels.sweep(
            device.start_ps,
            device.dur_ps,
            key,
            np.empty((2, room), np.int64),
            np.zeros(key_count, np.int64),
            alone_ps,
            group_ps,
        )
        if answer != kernels.NO_ROOM:
            break
    if answer < 0:
        raise ValueError(f"device {device.device} could not be swept ({answer})")
    return alone_ps, group_ps, answer
