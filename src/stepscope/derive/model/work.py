"""`model_work`: the data of one host from which the trees of a model are built."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, Literal

import msgspec
import numpy as np
import polars as pl

from stepscope.derive.columns.arrays import handles, ints
from stepscope.derive.columns.dense_codes import number_rows
from stepscope.derive.device.attribution import OpEvidence
from stepscope.derive.model.call_trees import CallTree, inherit_labels, merge_nodes
from stepscope.derive.model.charges import (
    DeviceWork,
    VariableReads,
    allocation_charges,
    device_charges,
    host_charges,
    merged_charges,
    parameter_charges,
)
from stepscope.derive.model.view_names import VIEWS, View
from stepscope.frozen import Frozen
from stepscope.trace.reading.by_row import values_by_row
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.array_types import Bools, Int32s, Int64s
    from stepscope.derive.device.attribution import ActivityOps
    from stepscope.derive.device.correlation import Correlation
    from stepscope.derive.host.event_nesting import LaunchingOps
    from stepscope.derive.host.op_events import HostOpEvents
    from stepscope.derive.intervals.nesting import Nesting
    from stepscope.derive.model.call_trees import EventTree, ProgramTrees
    from stepscope.derive.ops.execution_costs import ExecutionCosts
    from stepscope.derive.step_windows.windows import Windows


Side = Literal["host", "device"]
SIDES: Final[tuple[Side, ...]] = ("host", "device")


class Grouping(Frozen, frozen=True):
    """Nodes of executions, activities and allocations in one tree, -1 for none.

    Attributes:
        of_execution: int32 by execution on the host.
        of_activity: int32 by row of device_activity.
        of_allocation: int32 by row of allocations.
        places: The tree; None if the view has no tree.
        texts: Names of the keys of the tree.
    """

    of_execution: Int32s
    of_activity: Int32s
    of_allocation: Int32s
    places: CallTree | None
    texts: list[str]


class PlacedCharges(Frozen, frozen=True):
    """A tree, and the charges at its nodes (columns `CHARGES`)."""

    rows: pl.DataFrame
    places: CallTree | None
    texts: list[str]


class ModelWork(Frozen, frozen=True):
    """Executions on one host and its devices, with their costs and tree nodes.

    Attributes:
        host: Executions on the host, or why there are none.
        reads: Variables that the executions read; None if unknown.
        device_ops: Ops of device activities, or why there are none.
        device: Other facts about the activities; None without activities.
        activity_steps: Row of steps by row of device_activity, -1 for none.
        groupings: View → nodes of executions, activities and allocations.
    """

    host: HostOpEvents | Unavailable
    costs: ExecutionCosts | Unavailable
    reads: VariableReads | None
    device_ops: ActivityOps | Unavailable
    device: DeviceWork | None
    activity_steps: Int32s | Unavailable
    allocations: pl.DataFrame | Unavailable
    windows: Windows | Unavailable
    parameters: pl.DataFrame | Unavailable
    groupings: dict[View, Grouping]

    def runs_and_steps(self, side: Side) -> tuple[object, object]:
        """Return executions on host or device, and their steps, or reasons."""
        if side == "host":
            return self.host, self.windows
        return self.device_ops, self.activity_steps

    def shows_side(self, side: Side, steps: Sequence[int] | None) -> bool:
        """Return whether the executions on host or device (in some steps) are known."""
        ran = self.host if side == "host" else self.device
        recorded = not isinstance(ran, Unavailable | None) and len(ran.op) > 0
        _, in_steps = self.runs_and_steps(side)
        return recorded and (steps is None or not isinstance(in_steps, Unavailable))


def model_work(
    *,
    event_nesting: Nesting,
    program_places: ProgramTrees,
    host_op_events: HostOpEvents | Unavailable,
    execution_costs: ExecutionCosts | Unavailable,
    device_activity: pl.DataFrame | Unavailable,
    activity_ops: ActivityOps | Unavailable,
    correlation: Correlation | Unavailable,
    launching_ops: LaunchingOps | Unavailable,
    run_costs: pl.DataFrame | Unavailable,
    allocations: pl.DataFrame | Unavailable,
    activity_steps: Int32s | Unavailable,
    windows: Windows | Unavailable,
    parameters: pl.DataFrame | Unavailable,
) -> ModelWork:
    """Collect the data for the trees, before summing."""
    device = None
    launch_event = allocation_event = executed = np.empty(0, np.int32)
    if not isinstance(host_op_events, Unavailable):
        executed = host_op_events.event
    if not isinstance(allocations, Unavailable):
        allocation_event = handles(allocations, "event")
    if not isinstance(device_activity, Unavailable) and not isinstance(
        activity_ops, Unavailable
    ):
        device = _device_work(
            device_activity,
            activity_ops,
            run_costs,
            _own_executions(activity_ops, host_op_events, correlation, launching_ops),
            execution_count=len(executed),
        )
        launch_event = np.full(len(device_activity), -1, np.int32)
        if not isinstance(correlation, Unavailable):
            launch_event = correlation.launch_events
    items = (executed, launch_event, allocation_event)
    nowhere = _group_by(None, *items)
    reads, calls = None, nowhere
    if not isinstance(host_op_events, Unavailable) and not isinstance(
        execution_costs, Unavailable
    ):
        reads = _variable_reads(host_op_events, execution_costs, program_places.modules)
        # An activity that its op did not launch has a separate node in the op tree.
        own = nowhere.of_activity if device is None else device.execution
        calls = _group_by_call(
            host_op_events, execution_costs, event_nesting, own, allocation_event
        )
    return ModelWork(
        host=host_op_events,
        costs=execution_costs,
        reads=reads,
        device_ops=activity_ops,
        device=device,
        activity_steps=activity_steps,
        allocations=allocations,
        windows=windows,
        parameters=parameters,
        groupings={
            "scope": _group_by(program_places.modules, *items),
            "graph": calls,
            "op": nowhere,
            "code": _group_by(program_places.lines, *items),
        },
    )


def model_charges(*, model_work: ModelWork) -> dict[View, PlacedCharges]:
    """Return the charges for the whole profile and all of the model's variables."""
    return charges_in_steps(model_work, None)


def charges_in_steps(
    work: ModelWork, steps: Sequence[int] | None, *, trainable_only: bool = False
) -> dict[View, PlacedCharges]:
    """Sum the charges by op and by node of each tree.

    If the recording describes the model's variables, each is charged in its scope with
    op type `VARIABLE`, instead of to the op that read it first.

    Args:
        steps: Rows of the steps, or None for the whole profile.
        trainable_only: Leave out described variables that are not trained.
    """
    charges: dict[View, PlacedCharges] = {}
    for view in VIEWS:
        group = work.groupings[view]
        # Views without a tree all have the same charges.
        same = next(
            (each for each in charges if group.places is work.groupings[each].places),
            None,
        )
        charges[view] = charges[same] if same else _charges_by_node(work, group, steps)
    if not isinstance(work.parameters, Unavailable):
        described = parameter_charges(work.parameters, trainable_only=trainable_only)
        unread = pl.lit(None, pl.Int64).alias("parameters")
        for view in ("scope", "op"):
            rows = pl.concat([charges[view].rows.with_columns(unread), described])
            charges[view] = msgspec.structs.replace(charges[view], rows=rows)
    return charges


def _charges_by_node(
    work: ModelWork, grouping: Grouping, steps: Sequence[int] | None
) -> PlacedCharges:
    host = device = allocated = None
    if (
        work.shows_side("host", steps)
        and not isinstance(work.host, Unavailable)
        and not isinstance(work.costs, Unavailable)
    ):
        host = host_charges(
            work.host,
            work.costs,
            place=grouping.of_execution,
            chosen=_begins_in_steps(work, work.host.start_ps, steps),
            reads=work.reads,
        )
    if (
        work.shows_side("device", steps)
        and work.device is not None
        and not isinstance(work.device_ops, Unavailable)
    ):
        chosen = np.ones(len(work.device.op), np.bool_)
        if steps is not None and not isinstance(work.activity_steps, Unavailable):
            chosen = np.isin(work.activity_steps, np.array(steps, np.int32))
        device = device_charges(
            work.device_ops, work.device, place=grouping.of_activity, chosen=chosen
        )
    if not isinstance(work.allocations, Unavailable) and (
        steps is None or not isinstance(work.windows, Unavailable)
    ):
        allocated = allocation_charges(
            work.allocations,
            place=grouping.of_allocation,
            chosen=_begins_in_steps(work, ints(work.allocations, "start_ps"), steps),
        )
    rows = merged_charges(host, device, allocated)
    return PlacedCharges(rows, grouping.places, grouping.texts)


def _begins_in_steps(
    work: ModelWork, start_ps: Int64s, steps: Sequence[int] | None
) -> Bools:
    """Return whether each start is in a window of `steps`; True if `steps` is None."""
    if steps is None or isinstance(work.windows, Unavailable):
        return np.ones(len(start_ps), np.bool_)
    began = np.zeros(len(start_ps), np.bool_)
    windows = work.windows.rows.filter(pl.col("step_row").is_in(list(steps)))
    for begin, end in windows.select("start_ps", "end_ps").iter_rows():
        began |= (start_ps >= begin) & (start_ps < end)
    return began


def _device_work(
    device_activity: pl.DataFrame,
    ops: ActivityOps,
    run_costs: pl.DataFrame | Unavailable,
    execution: Int32s,
    *,
    execution_count: int,
) -> DeviceWork:
    flops = np.full(len(ops.ops), -1, np.int64)
    if not isinstance(run_costs, Unavailable):
        flops = run_costs["flops"].fill_null(-1).to_numpy()
    unnamed = ops.ops["evidence"].is_in([OpEvidence.COPY, OpEvidence.NONE])
    kernel = handles(device_activity, "type")
    return DeviceWork(
        device=handles(device_activity, "device"),
        op=ops.op,
        kernel=np.where(
            values_by_row(unnamed.to_numpy(), ops.op), np.int32(-1), kernel
        ),
        dur_ps=ints(device_activity, "dur_ps"),
        execution=execution,
        execution_count=execution_count,
        flops_of_op=flops,
    )


def _group_by(
    frames: EventTree | None,
    executed: Int32s,
    launch_event: Int32s,
    allocation_event: Int32s,
) -> Grouping:
    """Find nodes of executions, activities and allocations by their rows of events."""
    node, tree, texts = np.empty(0, np.int32), None, []
    if frames is not None:
        node, tree, texts = frames.node, frames.places, frames.texts.to_list()
    of_execution, of_activity, of_allocation = (
        values_by_row(node, rows, none=-1)
        if tree is not None
        else np.full(len(rows), -1, np.int32)
        for rows in (executed, launch_event, allocation_event)
    )
    return Grouping(of_execution, of_activity, of_allocation, tree, texts)


def _group_by_call(
    host: HostOpEvents,
    costs: ExecutionCosts,
    nesting: Nesting,
    execution_of_activity: Int32s,
    allocation_event: Int32s,
) -> Grouping:
    """Build the tree in which each op is below the op that called it."""
    tree = merge_nodes(costs.parent, host.op)
    of_event = np.full(len(nesting.parent), -1, np.int32)
    if len(host.event):
        of_event[host.event] = tree.node
        inherit_labels(nesting.parent, of_event, int(host.event[0]))
    return Grouping(
        tree.node,
        values_by_row(tree.node, execution_of_activity, none=-1),
        values_by_row(of_event, allocation_event, none=-1),
        tree,
        host.ops["name"].to_list(),
    )


def _variable_reads(
    host: HostOpEvents, costs: ExecutionCosts, modules: EventTree | None
) -> VariableReads | None:
    """Number variables layer by layer, as layers may have variables of equal size."""
    if modules is None:
        return None
    module = modules.node[host.event]
    rows = np.flatnonzero((costs.weights >= 0) & (module >= 0))
    if not len(rows):
        return None
    distinct = number_rows([modules.places.key[module[rows]], costs.weights[rows]])
    unit = np.full(len(host.event), -1, np.int32)
    unit[rows] = distinct.code
    sizes = [sum(map(math.prod, shapes)) for shapes in costs.variables]
    read = costs.weights[rows[distinct.first]]
    return VariableReads(unit, np.array(sizes, np.int64)[read])


def _own_executions(
    ops: ActivityOps,
    host: HostOpEvents | Unavailable,
    correlation: Correlation | Unavailable,
    launching_ops: LaunchingOps | Unavailable,
) -> Int32s:
    """Return for each activity the execution of its op that launched it, -1 for none.

    Launches inside another op (for example a whole program) do not count.
    """
    if (
        isinstance(host, Unavailable)
        or isinstance(correlation, Unavailable)
        or isinstance(launching_ops, Unavailable)
    ):
        return np.full(len(ops.op), -1, np.int32)
    both = pl.concat([host.ops["name"], ops.ops["name"]]).fill_null("").rank("dense")
    name = both.cast(pl.Int32).to_numpy()
    launch = correlation.launch_of_activity
    around = values_by_row(launching_ops.op, launch, none=-1)
    named_alike = values_by_row(
        name[: len(host.ops)], around, none=-1
    ) == values_by_row(name[len(host.ops) :], ops.op)
    execution = values_by_row(launching_ops.execution, launch, none=-1)
    return np.where(named_alike, execution, np.int32(-1))
