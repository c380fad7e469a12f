"""`device_executions`: how often each op ran on a device, and whether eagerly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.derive.columns.arrays import handles
from stepscope.derive.columns.distinct_runs import distinct_runs
from stepscope.derive.columns.stat_values import find_handle, rows_with_key
from stepscope.derive.device.attribution import OpEvidence
from stepscope.derive.host.values import int_values
from stepscope.frozen import Frozen
from stepscope.trace.reading.by_row import by_row
from stepscope.trace.reading.stat_keys import StatKey
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.derive.device.activity_classes import ActivityClasses
    from stepscope.derive.device.attribution import ActivityOps
    from stepscope.derive.device.correlation import Correlation
    from stepscope.derive.host.launching_ops import LaunchingOps
    from stepscope.derive.host.op_events import HostOpEvents
    from stepscope.trace.model import TraceData

__all__ = ["DeviceExecutions", "device_executions", "executions_of_activities"]

#: How an execution came about; any other value is unknown.
_EAGER: Final = 1
_FUNCTION: Final = 0


class DeviceExecutions(Frozen, frozen=True):
    """Counts by (device, group of ops).

    Attributes:
        rows: `device`, `group`, `executions`, `largest_kernel_count` (activities
            of one kernel, the most frequent one of each program), `eager`, `function`
            (executions known to have run eagerly, and as part of a function).
        owner: int32 by execution of `host_op_events`: the row of `rows` all of whose
            work it launched; -1 where it launched nothing, or work of several ops or
            devices.
        launched: bool by execution of `host_op_events`; True where the execution put
            work on a device.
    """

    rows: pl.DataFrame
    owner: NDArray[np.int32]
    launched: NDArray[np.bool_]


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
    """Count executions.

    An execution is one event of the op on the host inside which activities of the op
    were launched. Activities that no such event launched count by the kernel of the
    op that occurs most often among them, program by program: an execution runs each
    kernel of its program at least once.

    Definition: docs/tools/framework_op_stats.md#how-each-number-is-defined.
    """
    of_class = _kernels_of(activity_classes, activity_ops)
    key = ["device", "group"]
    places = of_class.select(key).unique(maintain_order=True)
    numbered = places.with_row_index("place")
    joined = of_class.join(numbered, on=key, how="left", maintain_order="left")
    place_of_class = joined["place"].to_numpy().astype(np.int32)
    code = activity_classes.code
    place = by_row(place_of_class, code)
    everything = np.bincount(code, minlength=len(of_class))
    eager = _eager_flags(host_op_events)
    rest, counted = everything, _Counted.nothing(len(places), len(eager))
    execution = executions_of_activities(activity_ops, correlation, launching_ops)
    if execution is not None:
        counted = _distinct_executions(place, execution, eager=eager, count=len(places))
        launched = execution >= 0
        rest = everything - np.bincount(code[launched], minlength=len(of_class))
    largest = _largest_kernel(of_class, everything)
    unlaunched = _largest_kernel(of_class, rest)
    rows = (
        places.with_columns(
            launched=counted.executions, eager=counted.eager, function=counted.function
        )
        .join(largest, on=key, how="left", maintain_order="left")
        .join(unlaunched, on=key, how="left", maintain_order="left", suffix="_rest")
        .with_columns(
            executions=pl.col("launched") + pl.col("largest_kernel_count_rest")
        )
        .drop("launched", "largest_kernel_count_rest")
    )
    stored = _stored_eager(trace, device_activity, stats)
    if stored is not None:
        rows = _with_stored(rows, place, stored)
    return DeviceExecutions(rows, counted.owner, counted.launched)


def _kernels_of(
    activity_classes: ActivityClasses, activity_ops: ActivityOps
) -> pl.DataFrame:
    """Return by class the op's device, group and program, and its kernel.

    All spellings of one copy are one op. Activities that nothing names are no single
    op: each of them counts as an execution.
    """
    classes, ops = activity_classes.rows, activity_ops.ops
    unnamed = ops["evidence"].is_in([int(OpEvidence.COPY), int(OpEvidence.NONE)])
    return classes.select(
        "device",
        group=ops["group"][classes["op"]],
        program=ops["program"][classes["op"]],
        type=pl.when(unnamed[classes["op"]]).then(-1).otherwise("type"),
    )


class _Counted(Frozen, frozen=True):
    executions: NDArray[np.int64]
    eager: NDArray[np.int64]
    function: NDArray[np.int64]
    owner: NDArray[np.int32]
    launched: NDArray[np.bool_]

    @classmethod
    def nothing(cls, places: int, executions: int) -> _Counted:
        return cls(
            np.zeros(places, np.int64),
            np.zeros(places, np.int64),
            np.zeros(places, np.int64),
            np.full(executions, -1, np.int32),
            np.zeros(executions, np.bool_),
        )

    def add_modes(
        self, place: NDArray[np.signedinteger], eager: NDArray[np.int8]
    ) -> None:
        """Count executions by how they came about, in place."""
        count = len(self.executions)
        self.eager[:] += np.bincount(place[eager == _EAGER], minlength=count)
        self.function[:] += np.bincount(place[eager == _FUNCTION], minlength=count)


def executions_of_activities(
    activity_ops: ActivityOps,
    correlation: Correlation | Unavailable,
    launching_ops: LaunchingOps | Unavailable,
) -> NDArray[np.int32] | None:
    """Return by activity the execution of its own op that launched it, -1 for none.

    None where no launch call was made inside an op.
    """
    if isinstance(correlation, Unavailable) or isinstance(launching_ops, Unavailable):
        return None
    if not (launching_ops.execution >= 0).any():
        return None
    # A call inside another op (a whole program's, say) is no execution of this one.
    equal = _same_ops(activity_ops.ops, launching_ops.ops)
    launch = correlation.launch_of_activity
    op = by_row(launching_ops.op, launch, none=-1)
    mine = op == by_row(equal, activity_ops.op)
    execution = by_row(launching_ops.execution, launch, none=-1)
    return np.where(mine, execution, np.int32(-1))


def _same_ops(device: pl.DataFrame, host: pl.DataFrame) -> NDArray[np.int32]:
    """Return by device op the row of the host op with its name and type, -2 for none.

    An annotation on the device may lack the type; then the name decides.
    """
    found = device.select("name", "type")
    rows = host.select("name", "type").with_row_index("row").cast({"row": pl.Int32})
    for key in (["name", "type"], ["name"]):
        known = rows.unique(key, keep="first").select(
            *key, pl.col("row").alias(f"by_{key[-1]}")
        )
        found = found.join(known, on=key, how="left", maintain_order="left")
    by_name = pl.when(pl.col("type").is_null()).then("by_name")
    same: NDArray[np.int32] = (
        found.select(pl.coalesce("by_type", by_name).fill_null(-2))
        .to_series()
        .to_numpy()
    )
    return same


def _eager_flags(host_op_events: HostOpEvents | Unavailable) -> NDArray[np.int8]:
    if isinstance(host_op_events, Unavailable):
        return np.empty(0, np.int8)
    return host_op_events.eager


def _distinct_executions(
    place: NDArray[np.int32],
    execution: NDArray[np.int32],
    *,
    eager: NDArray[np.int8],
    count: int,
) -> _Counted:
    """Count distinct (place, execution) pairs by place."""
    found = distinct_runs(place, execution, places=count, executions=len(eager))
    counted = _Counted.nothing(count, len(eager))
    counted.executions[:] = found.count
    np.greater_equal(found.owner, 0, out=counted.launched)
    owned = np.flatnonzero(counted.launched)
    counted.add_modes(found.owner[owned], eager[owned])
    counted.add_modes(found.further[0], eager[found.further[1]])
    counted.owner[:] = found.owner
    counted.owner[found.further[1]] = -1
    return counted


def _largest_kernel(of_class: pl.DataFrame, counts: NDArray[np.int64]) -> pl.DataFrame:
    """Count activities of each program's commonest kernel by device and group."""
    return (
        of_class.with_columns(n=pl.Series(counts).cast(pl.Int64))
        .group_by("device", "group", "program", "type")
        .agg(pl.col("n").sum())
        .group_by("device", "group", "program")
        .agg(pl.col("n").max().alias("largest_kernel_count"))
        .group_by("device", "group")
        .agg(pl.col("largest_kernel_count").sum())
    )


def _stored_eager(
    trace: TraceData, device_activity: pl.DataFrame, stats: pl.DataFrame | Unavailable
) -> NDArray[np.int8] | None:
    """Return by activity 1 or 0 as the producer stored it, -1 where it did not."""
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


def _with_stored(
    rows: pl.DataFrame, place: NDArray[np.int32], stored: NDArray[np.int8]
) -> pl.DataFrame:
    """Divide executions in the proportion of their activities' stored marks."""
    eager, function = (
        np.bincount(place[stored == flag], minlength=len(rows))
        for flag in (_EAGER, _FUNCTION)
    )
    known = eager + function
    executions = rows["executions"].to_numpy()
    share = np.divide(eager, known, out=np.zeros(len(rows)), where=known > 0)
    eager_executions = np.rint(executions * share).astype(np.int64)
    has = known > 0
    return rows.with_columns(
        eager=np.where(has, eager_executions, rows["eager"].to_numpy()),
        function=np.where(
            has, executions - eager_executions, rows["function"].to_numpy()
        ),
    )
