"""`activity_classes`: activities grouped by everything except time and stream.

`class_totals` has the total times of each class. `exposure` has the time in which an
activity runs alone on its device. `device_executions` has the executions of each op on
a device, eager or in a function.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope._core import sweeps as kernels
from stepscope.derive.columns.arrays import ACTIVITY_CODES, codes, handles, ints
from stepscope.derive.columns.dense_codes import (
    Extremes,
    distinct_runs,
    extremes_by_code,
    number_rows,
    totals_by_code,
)
from stepscope.derive.columns.stat_values import find_handle, rows_with_key
from stepscope.derive.device.attribution import OpEvidence
from stepscope.derive.host.values import int_values
from stepscope.derive.intervals.spans import Spans
from stepscope.frozen import Frozen
from stepscope.trace.reading.by_row import values_by_row
from stepscope.trace.reading.nullable import fill_nulls
from stepscope.trace.reading.stat_keys import StatKey
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.array_types import Bools, Int32s, Int64s
    from stepscope.derive.columns.dense_codes import Codes
    from stepscope.derive.device.attribution import ActivityOps
    from stepscope.derive.device.correlation import Correlation, DeviceTimeline
    from stepscope.derive.host.event_nesting import LaunchingOps
    from stepscope.derive.host.op_events import HostOpEvents
    from stepscope.trace.model import TraceData

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


#: Recorded modes of an execution; any other value means an unknown mode.
_EAGER: Final = 1
_FUNCTION: Final = 0


class DeviceExecutions(Frozen, frozen=True):
    """Number of executions by device and group of ops.

    Attributes:
        rows: `device`, `group`, `executions`, `largest_kernel_count` (activities of the
            most frequent kernel, summed over programs), `eager` and `function`
            (executions known to be eager, and known to be part of a function).
        of_class: Row of `rows`, int32 by class of activities.
        owner: Row of `rows` to which all activities launched by the execution belong,
            int32 by execution of `host_op_events`; -1 if none or several.
        launched: Whether the execution started any device activity.
    """

    rows: pl.DataFrame
    of_class: Int32s
    owner: Int32s
    launched: Bools


def device_executions(
    *,
    trace: TraceData,
    device_activity: pl.DataFrame,
    activity_classes: ActivityClasses,
    activity_ops: ActivityOps,
    correlation: Correlation | Unavailable,
    launching_ops: LaunchingOps | Unavailable,
    host_op_events: HostOpEvents | Unavailable,
    stats: pl.DataFrame | Unavailable,
) -> DeviceExecutions:
    """Count the executions of each op on each device.

    An execution is one event of the op on the host in which activities of the op were
    launched. Activities launched outside such events are counted by program: the number
    of executions is the number of activities of the most frequent kernel, because an
    execution runs each kernel of its program at least once.

    Definition: docs/tools/framework_op_stats.md#how-each-number-is-defined.
    """
    kernels = _number_kernels(activity_classes, activity_ops)
    device_ops = kernels.places
    code = activity_classes.code
    device_op = values_by_row(device_ops.code, code)
    every = np.bincount(code, minlength=len(device_ops.code))
    eager = np.empty(0, np.int8)
    if not isinstance(host_op_events, Unavailable):
        eager = host_op_events.eager
    execution = executions_of_activities(activity_ops, correlation, launching_ops)
    if execution is None:
        execution = np.full(len(code), -1, np.int32)
    runs = distinct_runs(
        device_op, execution, groups=device_ops.count, executions=len(eager)
    )
    launched = runs.owner >= 0
    # An execution with activities of several device ops counts for each of them.
    further_op, further = runs.further
    eager_count, function = _count_modes(
        np.concatenate((runs.owner[launched], further_op)),
        np.concatenate((eager[launched], eager[further])),
        device_ops.count,
    )
    owner = runs.owner.copy()
    owner[further] = -1
    outside = np.bincount(code[execution < 0], minlength=len(device_ops.code))
    rows = pl.DataFrame(
        {
            "device": activity_classes.rows["device"].gather(device_ops.first),
            "group": kernels.group[device_ops.first],
            "eager": eager_count,
            "function": function,
            "largest_kernel_count": kernels.largest_counts(every),
            "executions": runs.count + kernels.largest_counts(outside),
        }
    )
    stored = _stored_eager(trace, device_activity, stats)
    if stored is not None:
        # The share of eager executions is assumed to be that of eager activities.
        eager_count, function = _count_modes(device_op, stored, len(rows))
        known = eager_count + function
        executions = rows["executions"].to_numpy()
        share = np.divide(eager_count, known, out=np.zeros(len(rows)), where=known > 0)
        eager_executions = np.rint(executions * share).astype(np.int64)
        has = known > 0
        rows = rows.with_columns(
            eager=np.where(has, eager_executions, rows["eager"].to_numpy()),
            function=np.where(
                has, executions - eager_executions, rows["function"].to_numpy()
            ),
        )
    return DeviceExecutions(rows, device_ops.code, owner, launched)


def _count_modes(
    device_op: NDArray[np.signedinteger], mode: NDArray[np.int8], count: int
) -> tuple[Int64s, Int64s]:
    """Count by device and op what ran eagerly, and what ran in a function."""
    eager, function = (
        np.bincount(device_op[mode == flag], minlength=count)
        for flag in (_EAGER, _FUNCTION)
    )
    return eager, function


class _Kernels(Frozen, frozen=True):
    """Codes for device and op, program, and kernel, by class of activities.

    Attributes:
        group: Group of the op, int32 by class.
        places: Codes of the distinct pairs (device, group).
        programs: Codes of the distinct pairs (place, program); program -1 is unknown.
        kernels: Codes of the distinct kernels of each program.
    """

    group: Int32s
    places: Codes
    programs: Codes
    kernels: Codes

    def largest_counts(self, counts: Int64s) -> Int64s:
        """Return the count of each program's most frequent kernel, by device and op.

        Args:
            counts: Number of activities by class.
        """
        kernels, programs, device_ops = self.kernels, self.programs, self.places
        of_kernel = totals_by_code(kernels.code, counts, count=kernels.count).total
        program_of_kernel = programs.code[kernels.first]
        extremes = extremes_by_code(program_of_kernel, of_kernel, count=programs.count)
        place_of_program = device_ops.code[programs.first]
        return totals_by_code(
            place_of_program, extremes.greatest, count=device_ops.count
        ).total


def _number_kernels(
    activity_classes: ActivityClasses, activity_ops: ActivityOps
) -> _Kernels:
    """Number the device and op, the program and the kernel of each class.

    Copies with different names count as one kernel. All activities that have no op also
    count as one kernel, so that each activity is an execution.
    """
    classes, ops = activity_classes.rows, activity_ops.ops
    op = handles(classes, "op")
    evidence = ops["evidence"].to_numpy()[op]
    unnamed = (evidence == OpEvidence.COPY) | (evidence == OpEvidence.NONE)
    group = handles(ops, "group")[op]
    device_ops = number_rows([handles(classes, "device"), group])
    programs = number_rows([device_ops.code, fill_nulls(ops["program"], -1)[op]])
    kind = np.where(unnamed, np.int32(-1), handles(classes, "type"))
    return _Kernels(group, device_ops, programs, number_rows([programs.code, kind]))


def executions_of_activities(
    activity_ops: ActivityOps,
    correlation: Correlation | Unavailable,
    launching_ops: LaunchingOps | Unavailable,
) -> Int32s | None:
    """Return, by activity, the execution of its op that launched it; -1 for none.

    The result is None if no launch call was made inside an op.
    """
    if isinstance(correlation, Unavailable) or isinstance(launching_ops, Unavailable):
        return None
    if not (launching_ops.execution >= 0).any():
        return None
    # Calls inside another op, such as the op of a whole program, are not executions of
    # this op. The host op must have the same name and type. If the annotation on the
    # device has no type, an equal name is enough. -2 means that no host op matches.
    by_type: dict[tuple[str, str], int] = {}
    by_name: dict[str, int] = {}
    for row, (name, kind) in enumerate(launching_ops.ops[["name", "type"]].iter_rows()):
        by_type.setdefault((name, kind), row)
        by_name.setdefault(name, row)
    same = (
        by_name.get(name, -2) if kind is None else by_type.get((name, kind), -2)
        for name, kind in activity_ops.ops[["name", "type"]].iter_rows()
    )
    equal = np.fromiter(same, np.int32, len(activity_ops.ops))
    launch = correlation.launch_of_activity
    op = values_by_row(launching_ops.op, launch, none=-1)
    same_op = op == values_by_row(equal, activity_ops.op)
    execution = values_by_row(launching_ops.execution, launch, none=-1)
    return np.where(same_op, execution, np.int32(-1))


def _stored_eager(
    trace: TraceData, device_activity: pl.DataFrame, stats: pl.DataFrame | Unavailable
) -> NDArray[np.int8] | None:
    """Return each activity's recorded mode: 1 eager, 0 not eager, -1 not recorded."""
    handle = find_handle(trace.strings, StatKey.IS_EAGER)
    if handle < 0 or isinstance(stats, Unavailable):
        return None
    owner, value = int_values(rows_with_key(stats, "event", handle))
    if not len(owner):
        return None
    event = handles(device_activity, "event")
    of_event = np.full(int(max(owner.max(), event.max(initial=0))) + 2, -1, np.int8)
    of_event[owner] = value != 0
    return of_event[event]
