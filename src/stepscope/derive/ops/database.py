"""`host_ops` and `device_ops`: time by op, on the host and on each device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.derive.columns.dense_codes import totals_by_code
from stepscope.derive.device.attribution import OpEvidence
from stepscope.derive.device.precision import KERNEL_KIND
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.names.event_kinds import OpCategory
from stepscope.derive.names.op_names import HLO_TEXTS
from stepscope.derive.reasons import WHY
from stepscope.frozen import Frozen
from stepscope.patterns import Pattern
from stepscope.trace.reading.nullable import nullable_series
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.derive.device.activity_classes import (
        ActivityClasses,
        ClassTotals,
        DeviceExecutions,
        Exposure,
    )
    from stepscope.derive.device.attribution import ActivityOps
    from stepscope.derive.device.correlation import Correlation
    from stepscope.derive.device.precision import TensorCores
    from stepscope.derive.host.event_nesting import LaunchingOps
    from stepscope.derive.host.op_events import HostOpEvents
    from stepscope.derive.step_windows.windows import Windows
    from stepscope.derive.steps.chosen import Steps

#: Columns of `HostOps.rows`; null means unknown.
HOST_OP_ROWS: Final[dict[str, pl.DataType]] = {
    "name": pl.String(),
    "type": pl.String(),
    "category": pl.UInt8(),  # code of `OpCategory`
    **{name: dtype for name, dtype in HLO_TEXTS.items() if name != "hlo"},
    "instructions": pl.List(pl.String()),  # those of compiled programs; else empty
    "occurrences": pl.Int64(),
    "total_ps": pl.Int64(),  # of recursive calls, only the outermost
    "self_ps": pl.Int64(),
    "eager": pl.Int64(),  # executions known to be eager
    "function": pl.Int64(),  # executions known to be part of a function
    "eager_self_ps": pl.Int64(),
    "launching": pl.Int64(),  # executions that put work on a device; null unknown
    "step_self_ps": pl.Int64(),  # part of self_ps in steps; null without steps
}

#: Columns of `DeviceOps.rows`; null means unknown.
DEVICE_OP_ROWS: Final[dict[str, pl.DataType]] = {
    "device": pl.Int32(),
    "name": pl.String(),
    "type": pl.String(),
    "category": pl.String(),
    "module": pl.String(),
    "source_file": pl.String(),
    "source_line": pl.Int64(),
    "instructions": pl.List(pl.String()),  # those of compiled programs; else empty
    "evidence": pl.UInt8(),  # code of the strongest `OpEvidence` of its instructions
    "occurrences": pl.Int64(),  # executions of the op
    "activities": pl.Int64(),  # kernels, copies and memsets of all executions
    "largest_kernel_count": pl.Int64(),
    "total_ps": pl.Int64(),  # also the self time, because device ops do not nest
    "exposed_ps": pl.Int64(),
    "kernel_ps": pl.Int64(),  # time of kernels that compute
    "tensor_core_ps": pl.Int64(),  # time of kernels that use matrix units
    "tensor_core_unknown_ps": pl.Int64(),  # time of kernels with unknown use
    "tensor_core_eligible": pl.Boolean(),
    "eager": pl.Int64(),
    "function": pl.Int64(),
    "step_ps": pl.Int64(),  # part of total_ps in steps; null without steps
}

_INSTRUCTIONS: Final = (
    pl.col("hlo_op").drop_nulls().unique().sort().alias("instructions")
)


class HostOps(Frozen, frozen=True):
    """Ops on the threads of one host.

    Attributes:
        rows: One row per op, by self time descending, then name; `HOST_OP_ROWS`.
        hull_ps: Time from the first start to the last end of all op events.
        idle_ps: The part of `hull_ps` in which no thread ran an op.
        step_count: Number of steps that `step_self_ps` covers; None without steps.
        without_values: Why the values of events, which identify some ops, could not be
            read; None if they could be read.
    """

    rows: pl.DataFrame
    hull_ps: int
    idle_ps: int
    step_count: int | None
    without_values: Unavailable | None


class DeviceOps(Frozen, frozen=True):
    """Ops on the devices of one host.

    Attributes:
        rows: One row per device and op, by device, then total time descending, then
            name; `DEVICE_OP_ROWS`. Instructions of one framework op share one row.
        hull_ps: By device, time from its first start to its last end.
        idle_ps: By device, the part of `hull_ps` in which the device did nothing.
        step_count: Number of steps that `step_ps` covers; None without steps.
    """

    rows: pl.DataFrame
    hull_ps: dict[int, int]
    idle_ps: dict[int, int]
    step_count: int | None


def host_ops(
    *,
    host_op_events: HostOpEvents,
    event_types: pl.DataFrame,
    launching_ops: LaunchingOps | Unavailable,
    correlation: Correlation | Unavailable,
    windows: Windows | Unavailable,
) -> HostOps | Unavailable:
    """Sum the executions of each op on the host.

    Definition: docs/tools/framework_op_stats.md#what-counts-as-an-execution-of-an-op.
    """
    ops = host_op_events
    if not len(ops.event):
        nameless = len(event_types) and not event_types["known"].any()
        return WHY["nameless_ops"] if nameless else WHY["no_host_ops"]
    count = len(ops.ops)
    own = totals_by_code(ops.op, ops.self_ps, count=count)
    eager = totals_by_code(ops.op, ops.self_ps, count=count, where=ops.eager == 1)
    step_count = None
    step_self = pl.Series("step_self_ps", [None] * count, dtype=pl.Int64)
    if not isinstance(windows, Unavailable) and windows.has_steps:
        # Windows follow each other without gaps, so one comparison is enough.
        in_steps = ops.start_ps >= int(windows.rows["start_ps"][0])
        in_steps &= ops.start_ps < int(windows.rows["end_ps"][-1])
        step_count = len(windows.rows)
        inside = totals_by_code(ops.op, ops.self_ps, count=count, where=in_steps)
        step_self = pl.Series("step_self_ps", inside.total)
    # In recursive calls, the total time includes only the outermost call.
    columns = {
        "occurrences": own.count,
        "total_ps": totals_by_code(
            ops.op, ops.dur_ps, count=count, where=ops.outermost
        ).total,
        "self_ps": own.total,
        "eager": eager.count,
        "function": np.bincount(ops.op[ops.eager == 0], minlength=count),
        "eager_self_ps": eager.total,
    }
    sums = [*(pl.Series(*item) for item in columns.items()), step_self]
    if isinstance(launching_ops, Unavailable) or isinstance(correlation, Unavailable):
        launching = pl.Series("launching", [None] * count, dtype=pl.Int64)
    else:
        effective = correlation.activity_count_of_launch > 0
        execution = launching_ops.execution[effective & (launching_ops.execution >= 0)]
        launches = np.zeros(len(ops.event), np.bool_)
        launches[execution] = True
        counts = np.bincount(ops.op[launches], minlength=count)
        launching = pl.Series("launching", counts.astype(np.int64))
    range_ps = int((ops.start_ps + ops.dur_ps).max()) - int(ops.start_ps.min())
    return HostOps(
        _unite_recompiled(ops.ops.hstack([*sums, launching]), tuple(columns)),
        hull_ps=range_ps,
        idle_ps=range_ps - Spans.from_events(ops.start_ps, ops.dur_ps).length_ps,
        step_count=step_count,
        without_values=ops.without_values,
    )


def _unite_recompiled(rows: pl.DataFrame, summed: tuple[str, ...]) -> pl.DataFrame:
    """Combine rows of one (module, name): a module may be compiled repeatedly."""
    doubtful = ("launching", "step_self_ps")
    handled = ("module", "name", "instructions", *summed, *doubtful)
    united = rows.group_by("module", "name", maintain_order=True).agg(
        pl.col(summed).sum(),
        pl.col([name for name in HOST_OP_ROWS if name not in handled])
        .drop_nulls()
        .first(),
        _INSTRUCTIONS,
        *(
            pl.when(pl.col(name).is_not_null().any()).then(pl.col(name).sum())
            for name in doubtful
        ),
    )
    return united.select(
        pl.col(name).cast(dtype) for name, dtype in HOST_OP_ROWS.items()
    ).sort("self_ps", "name", "module", descending=[True, False, False])


def device_ops(
    *,
    activity_classes: ActivityClasses,
    class_totals: ClassTotals,
    activity_ops: ActivityOps,
    exposure: Exposure,
    device_executions: DeviceExecutions,
    tensor_cores: TensorCores | Unavailable,
    steps: Steps | Unavailable,
) -> DeviceOps:
    """Sum the activities of each op on each device.

    Definition: docs/tools/framework_op_stats.md#what-counts-as-an-execution-of-an-op.
    """
    executions = device_executions.rows
    group = executions["group"].to_numpy()
    named = activity_ops.ops.sort("evidence", maintain_order=True).group_by(
        "group", maintain_order=True
    )
    described = named.agg(
        pl.col("name").first(),
        pl.col("module").first(),
        *(
            pl.col(name).drop_nulls().first()
            for name in ("type", "category", "source_file", "source_line")
        ),
        _INSTRUCTIONS,
        pl.col("evidence").first(),
    )
    row_of_group = np.argsort(described["group"].to_numpy())
    device = executions["device"].to_numpy()
    exposed_ps, known = np.zeros(len(device), np.int64), np.zeros(len(device), np.bool_)
    for number, spent in exposure.group_ps.items():
        on_device = device == number
        exposed_ps[on_device] = spent[group[on_device]]
        known |= on_device
    rows = (
        executions.rename({"executions": "occurrences"})
        .hstack(described.drop("group")[row_of_group[group]])
        .hstack([nullable_series("exposed_ps", exposed_ps, known)])
        .hstack(
            _device_sums(
                activity_classes, class_totals, device_executions, tensor_cores
            )
        )
        .select(pl.col(name).cast(dtype) for name, dtype in DEVICE_OP_ROWS.items())
    )
    order = ["device", "total_ps", "name", "module"]
    with_steps = class_totals.step_ps is not None
    return DeviceOps(
        rows.sort(order, descending=[name == "total_ps" for name in order]),
        hull_ps=dict(exposure.hull_ps),
        idle_ps={
            device: exposure.hull_ps[device] - busy
            for device, busy in exposure.busy_ps.items()
        },
        step_count=len(steps.rows)
        if with_steps and not isinstance(steps, Unavailable)
        else None,
    )


def _device_sums(
    activity_classes: ActivityClasses,
    class_totals: ClassTotals,
    executions: DeviceExecutions,
    tensor_cores: TensorCores | Unavailable,
) -> list[pl.Series]:
    classes, step_ps = activity_classes.rows, class_totals.step_ps
    code, count = executions.of_class, len(executions.rows)
    computes = classes["kind"].to_numpy() == KERNEL_KIND
    total = class_totals.all.total
    known = not isinstance(tensor_cores, Unavailable)
    verdicts = (
        np.full((len(classes), 2), -1, np.int8)
        if isinstance(tensor_cores, Unavailable)
        else tensor_cores.of_class
    )
    uses, eligible = verdicts[:, 0], verdicts[:, 1]
    columns = {
        "activities": class_totals.all.count,
        "total_ps": total,
        "kernel_ps": np.where(computes, total, 0),
        "tensor_core_ps": np.where(computes & (uses == 1), total, 0),
        "tensor_core_unknown_ps": np.where(computes & (uses < 0), total, 0),
        "step_ps": np.zeros(len(classes), np.int64) if step_ps is None else step_ps,
    }
    sums = {
        name: totals_by_code(code, values, count=count).total
        for name, values in columns.items()
    }
    # An op can use tensor cores if any of its kernels can, and cannot if none can.
    can = np.where(computes, eligible, 0)
    some = np.bincount(code[can == 1], minlength=count) > 0
    open_ = np.bincount(code[can < 0], minlength=count) > 0
    return [
        *(pl.Series(name, total) for name, total in sums.items() if name != "step_ps"),
        nullable_series("tensor_core_eligible", some, (some | ~open_) & known),
        nullable_series(
            "step_ps", sums["step_ps"], np.full(count, step_ps is not None)
        ),
    ]


#: Evidence that identifies a program's op; copies and unnamed work have none of it.
PROGRAM_EVIDENCE: Final = (
    OpEvidence.HLO,
    OpEvidence.HLO_NAME,
    OpEvidence.ANNOTATION,
    OpEvidence.LAUNCH,
)
#: Pattern of scopes that differentiation adds to op names. Definition:
#: docs/definitions/phases.md#training-or-not.
_GRADIENT: Final = Pattern(r"(?:^|/)(?:gradient_tape|gradients|transpose\()[^/]*/")
_UPDATE: Final = Pattern(r"^(?:Resource)?(?:Sparse)?Apply[A-Z]")


class OpPlacement(Frozen, frozen=True):
    """Executions and self times of a host's ops, separately for host and devices.

    Definition: docs/tools/overview_page.md#other-fields.

    Attributes:
        host_executions: Executions that put no work on a device; None if unknown.
        device_executions: Executions of ops on devices; None without device activity.
        dataset_executions: Executions of input pipeline ops, which `host_executions`
            and `device_executions` do not include.
        host_self_ps: Self time of all host ops except those of input pipelines.
        device_self_ps: Self time of all device ops; None without device activity.
        host_eager_self_ps: The part of `host_self_ps` that ran eagerly; None if no
            execution is known to be eager or not.
        device_eager_self_ps: The part of `device_self_ps` that ran eagerly.
        is_training: True if some op computes a gradient or updates parameters; False if
            no op does and most work has names that would show it; else None.
    """

    host_executions: int | None
    device_executions: int | None
    dataset_executions: int | None
    host_self_ps: int | None
    device_self_ps: int | None
    dataset_self_ps: int | None
    host_eager_self_ps: int | None
    device_eager_self_ps: int | None
    is_training: bool | None


def op_placement(
    *, host_ops: HostOps | Unavailable, device_ops: DeviceOps | Unavailable
) -> OpPlacement | Unavailable:
    """Divide ops into host and device ops; Unavailable if both tables are."""
    if isinstance(host_ops, Unavailable) and isinstance(device_ops, Unavailable):
        return host_ops
    names: list[tuple[str, str | None]] = []
    # Whether most of the computing has names that would show a gradient.
    is_named = False
    host: dict[str, int | None] = {}
    device: dict[str, int | None] = {}
    if not isinstance(host_ops, Unavailable):
        is_dataset = pl.col("category") == int(OpCategory.DATASET)
        dataset, ops = (
            host_ops.rows.filter(is_dataset),
            host_ops.rows.filter(~is_dataset),
        )
        launching: int | None = int(ops["launching"].sum())
        if ops["launching"].null_count():
            # If there is no device, no execution put work on a device.
            nothing = (
                isinstance(device_ops, Unavailable)
                and device_ops.code == "NO_DEVICE_PLANE"
            )
            launching = 0 if nothing else None
        executions = int(ops["occurrences"].sum())
        known = int(ops["eager"].sum()) + int(ops["function"].sum())
        host = {
            "executions": None if launching is None else executions - launching,
            "dataset_executions": int(dataset["occurrences"].sum()),
            "self_ps": int(ops["self_ps"].sum()),
            "dataset_self_ps": int(dataset["self_ps"].sum()),
            "eager_self_ps": int(ops["eager_self_ps"].sum()) if known else None,
        }
        names += host_ops.rows[["name", "type"]].rows()
        # Instructions of XLA do not name the scope of their op.
        frameworks = [int(OpCategory.TENSORFLOW), int(OpCategory.TORCH)]
        scoped = pl.col("category").is_in(frameworks) | pl.col("name").str.contains("/")
        known_ps = int(ops.filter(scoped)["self_ps"].sum())
        is_named = 0 < int(ops["self_ps"].sum()) <= 2 * known_ps
    if not isinstance(device_ops, Unavailable):
        ours = [int(evidence) for evidence in PROGRAM_EVIDENCE]
        rows = device_ops.rows.filter(pl.col("evidence").is_in(ours))
        # Unnamed work counts too, but the number of its executions is unknown.
        if len(rows):
            marked = pl.col("eager") + pl.col("function")
            eager_ps = pl.col("total_ps") * pl.col("eager") / marked
            of_known = rows.filter(marked > 0)
            eager = of_known.select(eager_ps.sum().round()).item()
            device = {
                "executions": int(rows["occurrences"].sum()),
                "self_ps": int(rows["total_ps"].sum()),
                "eager_self_ps": int(eager) if len(of_known) else None,
            }
        names += rows[["name", "type"]].rows()
        telling = rows.filter(pl.col("evidence") != int(OpEvidence.HLO_NAME))
        computing = pl.col("evidence") != int(OpEvidence.COPY)
        total_ps = int(device_ops.rows.filter(computing)["total_ps"].sum())
        if total_ps:
            is_named = 2 * int(telling["total_ps"].sum()) >= total_ps
    is_training = any(
        _GRADIENT.search(name) or _UPDATE.match(op_type or "")
        for name, op_type in names
    )
    return OpPlacement(
        host_executions=host.get("executions"),
        device_executions=device.get("executions"),
        dataset_executions=host.get("dataset_executions"),
        host_self_ps=host.get("self_ps"),
        device_self_ps=device.get("self_ps"),
        dataset_self_ps=host.get("dataset_self_ps"),
        host_eager_self_ps=host.get("eager_self_ps"),
        device_eager_self_ps=device.get("eager_self_ps"),
        is_training=is_training or (False if is_named else None),
    )
