"""Changes that findings suggest for a step, as edits of the step's dependency graph."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Final, Literal

import numpy as np
from msgspec.structs import replace

from stepscope.derive.columns.stat_values import values_of_owners
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.replay.critical import claimed_ps, without_owners
from stepscope.derive.replay.nodes import (
    EdgeKind,
    NodeKind,
    collectives_at_rate,
    copies_moved,
    joint_edit,
    kernels_scaled,
    launched_as_one,
    synchronising_removed,
    threads_faster,
)
from stepscope.frozen import Frozen
from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_MS

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    import polars as pl

    from stepscope.array_types import Bools, Int32s
    from stepscope.derive.account.time_by_cause import Account
    from stepscope.derive.replay.nodes import Edit, Graph
    from stepscope.derive.step_time.device_sets import DeviceSets
    from stepscope.derive.step_time.host_classes import HostClasses


class Gone(Frozen, frozen=True):
    """Removes all time that has one of the given causes.

    Attributes:
        place: "inside" steps, "between" steps or "any".
    """

    owners: Collection[str]
    place: str


class Quiet(Frozen, frozen=True):
    """Removes what some threads do while a function runs.

    Attributes:
        spans: Time in which the function runs, including the functions that it calls.
        threads: Rows of tracks of the threads.
        effect_ms: Length of `spans` in a mean step.
    """

    spans: Spans
    threads: Collection[int]
    effect_ms: float


class Faster(Frozen, frozen=True):
    """Shortens kernels.

    Attributes:
        classes: Rows of `activity_classes` of the kernels.
        left: Remaining fractions of the time, for the smallest and the largest change.
    """

    classes: Collection[int]
    left: tuple[float, float]


class Joined(Frozen, frozen=True):
    """Merges consecutive kernels of a stream into one.

    Attributes:
        classes: Rows of `activity_classes` of the kernels that are merged.
        shortest: Minimum number of consecutive kernels that are merged.
        left: Remaining fractions of the time, for the smallest and the largest change.
    """

    classes: Collection[int]
    shortest: int
    left: tuple[float, float] = (1.0, 1.0)


class Levelled(Frozen, frozen=True):
    """Shortens activities, except collectives, towards the median of all devices.

    Attributes:
        left: Remaining fractions of the time, for the smallest and the largest change.
    """

    left: tuple[float, float]


class Carried(Frozen, frozen=True):
    """Shortens collectives to the time that their bytes need.

    Attributes:
        needed_ps: Row of device_activity → duration after the change.
    """

    needed_ps: Mapping[int, int]


class CopiesInParallel(Frozen, frozen=True):
    """Runs copies in parallel with kernels, from memory that needs no staging copy.

    Attributes:
        owners: Directions of the copies: "copy_in" or "copy_out" or both.
        effect_ms: Time of these copies in a mean step.
    """

    owners: Collection[str]
    effect_ms: float


class NotAwaited(Frozen, frozen=True):
    """Removes host waits that end during the device's idle time of one topic."""

    topic: str


Change = (
    Gone | Quiet | Faster | Joined | Levelled | Carried | CopiesInParallel | NotAwaited
)
Changes = tuple[Change, ...]

#: Causes whose time a change rarely removes completely: with more workers, batches are
#: ready sooner but may still be late.
_PARTLY: Final = frozenset({"input"})


class Recorded(Frozen, frozen=True):
    """Data of one host from which changes of its dependency graph are computed.

    Attributes:
        class_of: Class of each row of device_activity; empty without devices.
        copies: Direction → whether each row of device_activity is a copy in it.
        exchanges: Whether each row of device_activity is a collective.
        topics: Device → kind of host work in its idle time → when the host did it.
    """

    graph: Graph
    account: Account
    host_classes: HostClasses
    device_sets: DeviceSets | Unavailable
    tracks: pl.DataFrame
    class_of: Int32s
    copies: Mapping[str, Bools]
    exchanges: Bools
    topics: Mapping[int | None, Mapping[str, Spans]]

    @property
    def device_busy(self) -> Spans:
        """Return when any device was busy in the replayed windows."""
        if isinstance(self.device_sets, Unavailable):
            return Spans.empty()
        chosen = self.graph.sampled
        return Spans.union_of(
            device.busy.clip(chosen.lead_ps, chosen.last_ps)
            for device in self.device_sets.devices
        )


class Edits(Frozen, frozen=True, eq=True):
    """The edits of the dependency graph with which a change is replayed.

    Attributes:
        least: Edit for the smallest effect of the change.
        most: Edit for the largest effect of the change.
        claimed_ms: Time per replayed step that the change removes or moves.
        compared: Measured time to which `claimed_ms` is scaled: the finding's lost time
            ("effect"), its greatest possible saving ("bound"), or "nothing".
        effect_ms: This time in a mean step; None if it is the finding's lost time.
        partly: Whether the change rarely removes all of the time.
        device: Whether the change affects device activities or waits for a device. If
            it does, unrecorded time of threads may also be a wait for the device.
        only_faster: Whether the change only makes kernels faster.
    """

    least: Edit
    most: Edit
    claimed_ms: float = 0.0
    compared: Literal["effect", "bound", "nothing"] = "nothing"
    effect_ms: float | None = None
    partly: bool = False
    device: bool = True
    only_faster: bool = False


def apply_change(  # noqa: PLR0911 - one return for each kind of change
    change: Change, recorded: Recorded, device: int | None
) -> Edits:
    """Return the edits of a host's dependency graph for a change on a device."""
    match change:
        case Gone():
            return _remove_owners(change, recorded, device)
        case Quiet():
            return _quieten_threads(change, recorded.graph)
        case Carried():
            return _carry_bytes(change, recorded.graph)
        case NotAwaited():
            return _await_nothing(change, recorded, device)
        case CopiesInParallel():
            return _overlap_copies(change, recorded, device)
        case Levelled():
            on_device = _nodes_of_device(recorded, device)
            on_device[on_device] = ~recorded.exchanges[
                recorded.graph.nodes.row[on_device]
            ]
            return _scale_work(recorded.graph, on_device, change.left)
        case _:
            return _speed_up_kernels(change, recorded)


def _remove_owners(change: Gone, recorded: Recorded, device: int | None) -> Edits:
    owners, place = change.owners, change.place
    edit = without_owners(
        recorded.graph,
        owners,
        place=place,
        device=device,
        account=recorded.account,
        host_classes=recorded.host_classes,
        device_sets=recorded.device_sets,
        tracks=recorded.tracks,
    )
    return Edits(
        edit,
        edit,
        claimed_ms=_claimed_ms(recorded, owners, place, device),
        compared="effect",
        device=False,
        partly=not _PARTLY.isdisjoint(owners),
    )


def _claimed_ms(
    recorded: Recorded, owners: Collection[str], place: str, device: int | None
) -> float:
    time = claimed_ps(
        recorded.graph,
        owners,
        place=place,
        device=device,
        account=recorded.account,
        device_sets=recorded.device_sets,
    )
    return _per_step_ms(recorded.graph, time)


def _per_step_ms(graph: Graph, time_ps: float) -> float:
    return time_ps / graph.sampled.count / PS_PER_MS


def _spans_per_step_ms(graph: Graph, spans: Spans) -> float:
    chosen = graph.sampled
    return _per_step_ms(graph, spans.clip(chosen.first_ps, chosen.last_ps).length_ps)


def _quieten_threads(change: Quiet, graph: Graph) -> Edits:
    edit = threads_faster(graph, change.spans, factor=inf, tracks=change.threads)
    return Edits(
        edit,
        edit,
        claimed_ms=_spans_per_step_ms(graph, change.spans),
        compared="effect",
        effect_ms=change.effect_ms,
        device=False,
        partly=True,
    )


def _carry_bytes(change: Carried, graph: Graph) -> Edits:
    rows = np.fromiter(change.needed_ps, np.int64, len(change.needed_ps))
    needed = np.fromiter(change.needed_ps.values(), np.int64, len(rows))
    order = np.argsort(rows)
    node_ps, chosen = values_of_owners(graph.nodes.row, rows[order], needed[order])
    edit = collectives_at_rate(graph, chosen, needed_ps=node_ps)
    return Edits(edit, edit)


def _await_nothing(change: NotAwaited, recorded: Recorded, device: int | None) -> Edits:
    graph = recorded.graph
    spans = recorded.topics[device][change.topic]
    begun = graph.nodes.start_ps
    # The device is idle from the end of its last activity, when the waiting call ends.
    resumed = (graph.nodes.kind == NodeKind.RESUMED) & (
        spans.within(begun, begun + 1) > 0
    )
    edit = synchronising_removed(graph, resumed)
    claimed_ms = _spans_per_step_ms(graph, spans)
    return Edits(edit, edit, claimed_ms=claimed_ms, compared="effect")


def _overlap_copies(
    change: CopiesInParallel, recorded: Recorded, device: int | None
) -> Edits:
    graph = recorded.graph
    edges, row = graph.edges, graph.nodes.row
    on_device = _nodes_of_device(recorded, device)
    into, out_of = (
        on_device & recorded.copies[owner][row] & (owner in change.owners)
        for owner in ("copy_in", "copy_out")
    )
    # The edited copy call returns at once, but reading the result waits for the copy.
    staged = np.zeros(graph.count, np.bool_)
    waits = edges.kind == EdgeKind.SYNCHRONISE
    staged[edges.target[waits & into[edges.source]]] = True
    edit = joint_edit(
        graph,
        (copies_moved(graph, into | out_of), synchronising_removed(graph, staged)),
    )
    return Edits(
        edit,
        edit,
        claimed_ms=_claimed_ms(recorded, change.owners, "any", device),
        compared="effect",
        effect_ms=change.effect_ms,
    )


def _nodes_of_device(recorded: Recorded, device: int | None) -> Bools:
    nodes = recorded.graph.nodes
    of_track = recorded.tracks["device"].fill_null(-1).to_numpy()
    on_device: Bools = (nodes.row >= 0) & (of_track[nodes.track] == device)
    return on_device


def _speed_up_kernels(change: Faster | Joined, recorded: Recorded) -> Edits:
    graph = recorded.graph
    row = graph.nodes.row
    classes = np.fromiter(change.classes, np.int32, len(change.classes))
    chosen = (row >= 0) & np.isin(recorded.class_of[row], classes)
    joined: list[Edit] = []
    if isinstance(change, Joined):
        runs = _number_runs(graph, chosen, change.shortest)
        chosen = runs >= 0
        joined = [launched_as_one(graph, runs)]
    edits = _scale_work(graph, chosen, change.left, joined)
    return replace(edits, only_faster=isinstance(change, Faster))


def _scale_work(
    graph: Graph, chosen: Bools, left: tuple[float, float], joined: Sequence[Edit] = ()
) -> Edits:
    """Return the edits that shorten the chosen nodes and apply `joined`."""
    low, high = (kernels_scaled(graph, chosen, factor=factor) for factor in left)
    removed = int((graph.nodes.dur_ps - high.dur_ps).sum())
    return Edits(
        joint_edit(graph, [low, *joined]),
        joint_edit(graph, [high, *joined]),
        claimed_ms=_per_step_ms(graph, removed),
        compared="bound" if removed else "nothing",
    )


def _number_runs(graph: Graph, chosen: Bools, shortest: int) -> Int32s:
    """Number the groups of consecutive chosen nodes; -1 for nodes in no group.

    Device nodes are sorted by stream and start. A group does not cross a window's end.
    """
    nodes = graph.nodes
    device = np.flatnonzero(nodes.kind == NodeKind.DEVICE)
    run, track = chosen[device], nodes.track[device]
    window = np.searchsorted(graph.sampled.bounds_ps, nodes.start_ps[device], "right")
    fresh = np.ones(len(device), np.bool_)
    fresh[1:] = (
        (run[1:] != run[:-1]) | (track[1:] != track[:-1]) | (window[1:] != window[:-1])
    )
    number = np.cumsum(fresh)
    long = np.bincount(number)[number] >= shortest
    run_of_node = np.full(graph.count, -1, np.int32)
    run_of_node[device[run & long]] = number[run & long]
    return run_of_node
