"""`model_work`: the data of one host from which the views of a model are made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np
import polars as pl

from stepscope._core.nesting import inherit
from stepscope.derive.columns.arrays import handles, ints
from stepscope.derive.columns.dense_codes import combined
from stepscope.derive.device.attribution import OpEvidence
from stepscope.derive.model.charges import (
    DeviceWork,
    VariableReads,
    allocation_charges,
    device_charges,
    host_charges,
    merged_charges,
    parameter_charges,
)
from stepscope.derive.model.places import Places, chained
from stepscope.derive.model.view_names import VIEWS, View
from stepscope.frozen import Frozen
from stepscope.trace.reading.by_row import by_row
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from stepscope.derive.device.attribution import ActivityOps
    from stepscope.derive.device.correlation import Correlation
    from stepscope.derive.host.event_nesting import LaunchingOps
    from stepscope.derive.host.op_events import HostOpEvents
    from stepscope.derive.intervals.nesting import Nesting
    from stepscope.derive.model.program_places import EventPlaces, ProgramPlaces
    from stepscope.derive.ops.execution_costs import ExecutionCosts
    from stepscope.derive.step_windows.windows import Windows
    from stepscope.derive.steps.chosen import Steps

#: Views that show the variables that a recording describes.
_DESCRIBED: Final[tuple[View, ...]] = ("scope", "op")


class Hung(Frozen, frozen=True):
    """Charges of one view, and the tree of their places.

    Attributes:
        charges: Columns `CHARGES`.
        places: The tree; None where there is none.
        texts: Names of the keys of the tree.
    """

    charges: pl.DataFrame
    places: Places | None
    texts: list[str]


class ModelWork(Frozen, frozen=True):
    """What ran on one host and its devices, with costs and places.

    Attributes:
        events: The table of that name.
        nesting: Which event contains which.
        host: Executions on the host, or why there are none.
        costs: What each execution on the host computed.
        places: Frames around host events.
        device_ops: Ops of device activities, or why there are none.
        device: What else is known of the activities; None without activities.
        launch_event: int32 by row of device_activity; the event of its launch call,
            -1 for none.
        activity_steps: Row of steps by row of device_activity, -1 for none.
        allocations: The table of that name.
        windows: Windows of the steps.
        step_numbers: Displayed number by row of steps; empty without steps.
        parameters: The table of that name.
    """

    events: pl.DataFrame
    nesting: Nesting
    host: HostOpEvents | Unavailable
    costs: ExecutionCosts | Unavailable
    places: ProgramPlaces
    device_ops: ActivityOps | Unavailable
    device: DeviceWork | None
    launch_event: NDArray[np.int32]
    activity_steps: NDArray[np.int32] | Unavailable
    allocations: pl.DataFrame | Unavailable
    windows: Windows | Unavailable
    step_numbers: tuple[int, ...]
    parameters: pl.DataFrame | Unavailable

    def sees_host(self, steps: Sequence[int] | None) -> bool:
        """Return True where it is known what the host ran (in those steps)."""
        recorded = not isinstance(self.host, Unavailable) and len(self.host.event) > 0
        return recorded and (steps is None or not isinstance(self.windows, Unavailable))

    def sees_device(self, steps: Sequence[int] | None) -> bool:
        """Return True where it is known what the devices ran (in those steps)."""
        recorded = self.device is not None and len(self.device.op) > 0
        return recorded and (
            steps is None or not isinstance(self.activity_steps, Unavailable)
        )


def model_work(
    *,
    events: pl.DataFrame,
    event_nesting: Nesting,
    program_places: ProgramPlaces,
    host_op_events: HostOpEvents | Unavailable,
    execution_costs: ExecutionCosts | Unavailable,
    device_activity: pl.DataFrame | Unavailable,
    activity_ops: ActivityOps | Unavailable,
    correlation: Correlation | Unavailable,
    launches: pl.DataFrame | Unavailable,
    launching_ops: LaunchingOps | Unavailable,
    run_costs: pl.DataFrame | Unavailable,
    allocations: pl.DataFrame | Unavailable,
    steps: Steps | Unavailable,
    activity_steps: NDArray[np.int32] | Unavailable,
    windows: Windows | Unavailable,
    parameters: pl.DataFrame | Unavailable,
) -> ModelWork:
    """Collect what the views need, without adding anything up."""
    device = None
    launch_event = np.empty(0, np.int32)
    if not isinstance(device_activity, Unavailable) and not isinstance(
        activity_ops, Unavailable
    ):
        execution = _own_executions(
            activity_ops, host_op_events, correlation, launching_ops
        )
        device = DeviceWork(
            device=handles(device_activity, "device"),
            op=activity_ops.op,
            kernel=_kernels(activity_ops, handles(device_activity, "type")),
            dur_ps=ints(device_activity, "dur_ps"),
            execution=execution,
            execution_count=0
            if isinstance(host_op_events, Unavailable)
            else len(host_op_events.event),
            flops_of_op=_flops_of_ops(len(activity_ops.ops), run_costs),
        )
        launch_event = _launch_events(len(device_activity), correlation, launches)
    numbers = () if isinstance(steps, Unavailable) else tuple(steps.rows["step"])
    return ModelWork(
        events=events,
        nesting=event_nesting,
        host=host_op_events,
        costs=execution_costs,
        places=program_places,
        device_ops=activity_ops,
        device=device,
        launch_event=launch_event,
        activity_steps=activity_steps,
        allocations=allocations,
        windows=windows,
        step_numbers=numbers,
        parameters=parameters,
    )


def model_charges(*, model_work: ModelWork) -> dict[View, Hung]:
    """Return the charges of the whole profile, with all variables."""
    return charges_of(model_work, None)


def charges_of(
    work: ModelWork, steps: Sequence[int] | None, *, trainable_only: bool = False
) -> dict[View, Hung]:
    """Add up what ran by op and by place in the tree of each view.

    Where the recording describes the model's variables, each is charged in its own
    scope, with the type of variables, not to the op that read it first.

    Args:
        work: The work of the host.
        steps: Rows of the steps, or None for everything.
        trainable_only: Leave out described variables that are not trained.
    """
    found: dict[View, Hung] = {}
    nowhere: Hung | None = None
    for view in VIEWS:
        tree = _tree(work, view)
        if tree.places is not None or nowhere is None:
            found[view] = _charged(work, view, tree, steps)
        else:
            # Views without places of their own are made from the same charges.
            found[view] = nowhere
        if tree.places is None:
            nowhere = found[view]
    if not isinstance(work.parameters, Unavailable):
        described = parameter_charges(work.parameters, trainable_only=trainable_only)
        unread = pl.lit(None, pl.Int64).alias("parameters")
        for view in _DESCRIBED:
            charges = found[view].charges.with_columns(unread)
            found[view] = msgspec.structs.replace(
                found[view], charges=pl.concat([charges, described])
            )
    return found


def _charged(
    work: ModelWork, view: View, tree: _Tree, steps: Sequence[int] | None
) -> Hung:
    of_execution, of_event = tree.of_execution, tree.of_event
    host = device = allocated = None
    if (
        work.sees_host(steps)
        and not isinstance(work.host, Unavailable)
        and not isinstance(work.costs, Unavailable)
    ):
        host = host_charges(
            work.host,
            work.costs,
            place=of_execution,
            chosen=_began_in(work, work.host.start_ps, steps),
            reads=_reads(work.host, work.costs, work.places.modules),
        )
    if (
        work.sees_device(steps)
        and work.device is not None
        and not isinstance(work.device_ops, Unavailable)
    ):
        chosen = np.ones(len(work.device.op), np.bool_)
        if steps is not None and not isinstance(work.activity_steps, Unavailable):
            chosen = np.isin(work.activity_steps, np.array(steps, np.int32))
        # Activities that another op launched have a place of their own among ops.
        place = (
            _places_at(of_execution, work.device.execution)
            if view == "graph"
            else _places_at(of_event, work.launch_event)
        )
        device = device_charges(
            work.device_ops, work.device, place=place, chosen=chosen
        )
    if not isinstance(work.allocations, Unavailable) and (
        steps is None or not isinstance(work.windows, Unavailable)
    ):
        allocated = allocation_charges(
            work.allocations,
            place=_places_at(of_event, handles(work.allocations, "event")),
            chosen=_began_in(work, ints(work.allocations, "start_ps"), steps),
        )
    return Hung(merged_charges(host, device, allocated), tree.places, tree.texts)


def _places_at(place: NDArray[np.int32], rows: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return the places of some rows, -1 for row -1 and where there are no places."""
    if not len(place):
        return np.full(len(rows), -1, np.int32)
    return by_row(place, rows, none=-1)


class _Tree(Frozen, frozen=True, eq=True):
    """The places of a view by execution and by row of events.

    Places by event are left out where there are none.
    """

    of_execution: NDArray[np.int32]
    of_event: NDArray[np.int32]
    places: Places | None
    texts: list[str]


def _tree(work: ModelWork, view: View) -> _Tree:
    executions = 0 if isinstance(work.host, Unavailable) else len(work.host.event)
    frames: EventPlaces | None = None
    if view == "scope":
        frames = work.places.modules
    elif view == "code":
        frames = work.places.lines
    elif view == "graph":
        return _graph(work)
    if frames is None:
        nowhere = np.empty(0, np.int32)
        return _Tree(np.full(executions, -1, np.int32), nowhere, None, [])
    of_execution = np.empty(0, np.int32)
    if not isinstance(work.host, Unavailable):
        of_execution = frames.node[work.host.event]
    return _Tree(of_execution, frames.node, frames.places, frames.texts.to_list())


def _graph(work: ModelWork) -> _Tree:
    """Arrange executions inside executions as ops inside ops."""
    nothing = np.empty(0, np.int32)
    if isinstance(work.host, Unavailable) or isinstance(work.costs, Unavailable):
        return _Tree(nothing, nothing, None, [])
    of_event = np.full(len(work.events), -1, np.int32)
    places = chained(work.costs.parent, work.host.op)
    if len(places.node):
        of_event[work.host.event] = places.node
        first = int(work.host.event[0])
        answer = inherit(work.nesting.parent, of_event, first, len(of_event))
        if answer < 0:
            raise ValueError(f"the kernel refused its arrays ({answer})")
    return _Tree(places.node, of_event, places, _names(work.host).to_list())


def _began_in(
    work: ModelWork, start_ps: NDArray[np.int64], steps: Sequence[int] | None
) -> NDArray[np.bool_]:
    """Return what began in the windows of some steps; everything without a choice."""
    if steps is None or isinstance(work.windows, Unavailable):
        return np.ones(len(start_ps), np.bool_)
    began = np.zeros(len(start_ps), np.bool_)
    windows = work.windows.rows.filter(pl.col("step_row").is_in(list(steps)))
    for begin, end in windows.select("start_ps", "end_ps").iter_rows():
        began |= (start_ps >= begin) & (start_ps < end)
    return began


def _reads(
    host: HostOpEvents, costs: ExecutionCosts, modules: EventPlaces | None
) -> VariableReads | None:
    """Number variables by layer, whose number alone distinguishes those of one size."""
    if modules is None:
        return None
    module = modules.node[host.event]
    rows = np.flatnonzero((costs.weights >= 0) & (module >= 0))
    if not len(rows):
        return None
    key = modules.places.key[module[rows]]
    distinct = combined([key, costs.weights[rows]])
    unit = np.full(len(host.event), -1, np.int32)
    unit[rows] = distinct.code
    sizes = [sum(map(_product, one)) for one in costs.variables]
    which = costs.weights[rows[distinct.first]]
    return VariableReads(unit, np.array(sizes, np.int64)[which])


def _product(sizes: tuple[int, ...]) -> int:
    return int(np.prod(sizes, dtype=np.int64))


def _own_executions(
    ops: ActivityOps,
    host: HostOpEvents | Unavailable,
    correlation: Correlation | Unavailable,
    launching_ops: LaunchingOps | Unavailable,
) -> NDArray[np.int32]:
    """Return by activity the execution of its own op that launched it, -1 for none.

    A call inside another op (a whole program's, say) is no execution of this one.
    """
    if (
        isinstance(host, Unavailable)
        or isinstance(correlation, Unavailable)
        or isinstance(launching_ops, Unavailable)
    ):
        return np.full(len(ops.op), -1, np.int32)
    names = _names(host)
    both = pl.concat([names, ops.ops["name"]]).fill_null("").rank("dense")
    number = both.cast(pl.Int32).to_numpy()
    of_host, of_device = number[: len(names)], number[len(names) :]
    launch = correlation.launch_of_activity
    nothing = np.int32(-1)
    execution = by_row(launching_ops.execution, launch, none=-1)
    around = by_row(launching_ops.op, launch, none=-1)
    mine = by_row(of_host, around, none=-1) == by_row(of_device, ops.op)
    found: NDArray[np.int32] = np.where(mine, execution, nothing)
    return found


def _kernels(ops: ActivityOps, type_: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return the name of each activity, -1 where no op names it."""
    unnamed = ops.ops["evidence"].is_in([int(OpEvidence.COPY), int(OpEvidence.NONE)])
    return np.where(by_row(unnamed.to_numpy(), ops.op), np.int32(-1), type_)


def _names(host: HostOpEvents) -> pl.Series:
    """Return the name of each op."""
    return host.ops["name"]


def _launch_events(
    count: int,
    correlation: Correlation | Unavailable,
    launches: pl.DataFrame | Unavailable,
) -> NDArray[np.int32]:
    if isinstance(correlation, Unavailable) or isinstance(launches, Unavailable):
        return np.full(count, -1, np.int32)
    return by_row(handles(launches, "event"), correlation.launch_of_activity, none=-1)


def _flops_of_ops(
    count: int, run_costs: pl.DataFrame | Unavailable
) -> NDArray[np.int64]:
    """Operations of one execution by op of device activities, -1 unknown."""
    if isinstance(run_costs, Unavailable):
        return np.full(count, -1, np.int64)
    found: NDArray[np.int64] = run_costs["flops"].fill_null(-1).to_numpy()
    return found
