"""`activity_classes`: activities grouped by everything except time and stream.

`class_totals` has the total times of each class. `exposure` has the time in which an
activity runs alone on its device.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope._core import sweeps as kernels
from stepscope.derive.columns.arrays import ACTIVITY_CODES, codes, handles, ints
from stepscope.derive.columns.dense_codes import (
    Extremes,
    extremes_by_code,
    number_rows,
    totals_by_code,
)
from stepscope.derive.intervals.spans import Spans
from stepscope.frozen import Frozen
from stepscope.trace.reading.by_row import values_by_row
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.array_types import Int32s, Int64s
    from stepscope.derive.device.attribution import ActivityOps
    from stepscope.derive.device.correlation import DeviceTimeline

#: Maximum number of overlapping activities in the first pass over a device. If more
#: activities overlap, the device is processed again with memory for all of them.
_USUAL_OVERLAP: Final = 256


class Exposure(Frozen, frozen=True):
    """Time in which an activity, or a group of ops, runs alone on its device.

    Attributes:
        alone_ps: By activity: time in which no other activity of the device runs.
        group_ps: Device → time in which only activities of one group run; int64 by
            `group` of the ops of `activity_ops`.
        busy_ps: Device → time in which at least one of its activities runs.
        hull_ps: Device → time from its earliest start to its latest end.
    """

    alone_ps: Int64s
    group_ps: dict[int, Int64s]
    busy_ps: dict[int, int]
    hull_ps: dict[int, int]


class ActivityClasses(Frozen, frozen=True):
    """Classes of activities; values that depend only on the class are computed once.

    Attributes:
        code: Row of `rows`, int32 by row of device_activity.
        rows: One row per class: `type`, `op` (row of the ops of `activity_ops`),
            `device`, `kind` (code of the Enum), `geometry`, `shape`, `equation`, `hlo`
            (row of hlo_ops); -1 for unknown values.
    """

    code: Int32s
    rows: pl.DataFrame


class ClassTotals(Frozen, frozen=True):
    """Sums of counts and times, by row of `activity_classes`.

    Attributes:
        all: Counts and times; with a coarse clock many activities last 0 ps.
        alone_ps: Time in which the activity ran alone on the device, int64.
        step_ps: Time of the activities that belong to a step, int64; None without
            steps, or if no activity belongs to a step.
    """

    all: Extremes
    alone_ps: Int64s
    step_ps: Int64s | None


def overlap_factor(activity: pl.DataFrame, device: int) -> float:
    """Return the time with a kernel on a device, divided by the sum of durations.

    It is below 1 if kernels overlap, as the durations of some tracers do even on one
    stream: an estimate of time that kernels cost counts each instant once.
    """
    chosen = (codes(activity, "kind") == ACTIVITY_CODES["kernel"]) & (
        handles(activity, "device") == device
    )
    start_ps, dur_ps = (ints(activity, name)[chosen] for name in ("start_ps", "dur_ps"))
    total_ps = int(dur_ps.sum())
    busy_ps = Spans.from_events(start_ps, dur_ps).length_ps
    return busy_ps / total_ps if busy_ps < total_ps else 1.0


def class_totals(
    *,
    device_activity: pl.DataFrame,
    activity_classes: ActivityClasses,
    exposure: Exposure,
    activity_steps: Int32s | Unavailable,
) -> ClassTotals:
    """Sum counts and times of each class of activities."""
    code, count = activity_classes.code, len(activity_classes.rows)
    dur_ps = ints(device_activity, "dur_ps")
    everything = extremes_by_code(code, dur_ps, count=count)
    step_ps = None
    if not isinstance(activity_steps, Unavailable):
        inside = activity_steps >= 0
        if inside.all():
            step_ps = everything.total
        elif inside.any():
            step_ps = totals_by_code(code, dur_ps, count=count, where=inside).total
    exposed = totals_by_code(code, exposure.alone_ps, count=count).total
    return ClassTotals(everything, exposed, step_ps)


def activity_classes(
    *, device_activity: pl.DataFrame, activity_ops: ActivityOps
) -> ActivityClasses:
    """Number the distinct combinations of name, op, device and launch details."""
    columns: dict[str, NDArray[np.signedinteger]] = {
        "type": handles(device_activity, "type"),
        "op": activity_ops.op,
        "device": handles(device_activity, "device"),
        "kind": codes(device_activity, "kind").astype("int16"),
        "geometry": handles(device_activity, "geometry"),
        "shape": handles(device_activity, "shape"),
        "equation": handles(device_activity, "equation"),
    }
    distinct = number_rows(list(columns.values()))
    rows = pl.DataFrame(
        {name: column[distinct.first] for name, column in columns.items()},
        schema=dict.fromkeys(columns, pl.Int32()),
        strict=False,
    )
    hlo = activity_ops.ops["hlo"].fill_null(-1)
    return ActivityClasses(distinct.code, rows.with_columns(hlo=hlo[rows["op"]]))


def exposure(*, device_timeline: DeviceTimeline, activity_ops: ActivityOps) -> Exposure:
    """Find overlapping activities in one pass over each device.

    Definition: docs/tools/framework_op_stats.md#how-each-number-is-defined.
    """
    overlaps = Exposure(np.zeros(device_timeline.row_count, np.int64), {}, {}, {})
    group_of_op = activity_ops.ops["group"].to_numpy()
    group = values_by_row(group_of_op, activity_ops.op)
    for device in device_timeline.devices:
        key = group[device.rows]
        key_count = int(group_of_op.max()) + 1
        for capacity in (_USUAL_OVERLAP, len(key)):
            exposed_ps = np.zeros(len(key), np.int64)
            group_ps = np.zeros(key_count, np.int64)
            busy_ps: int = kernels.sweep_intervals(
                device.start_ps,
                device.dur_ps,
                key,
                np.empty((2, capacity), np.int64),
                np.zeros(key_count, np.int64),
                exposed_ps,
                group_ps,
            )
            if busy_ps != kernels.NO_ROOM:
                break
        if busy_ps < 0:
            raise ValueError(f"device {device.device} could not be swept ({busy_ps})")
        overlaps.alone_ps[device.rows] = exposed_ps
        overlaps.group_ps[device.device] = group_ps
        overlaps.busy_ps[device.device] = busy_ps
        last = int((device.start_ps + device.dur_ps).max())
        overlaps.hull_ps[device.device] = last - int(device.start_ps[0])
    return overlaps
