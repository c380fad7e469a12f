"""Claims: what would be different, as a change of a graph's arrays.

Each is a pure function from a graph to an `Edit`. Only what lies in the measured
windows changes, so that the recorded begin of the first window stays comparable.

Definition: docs/replay.md#what-if-edits.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from stepscope.derive.replay.nodes import NEVER, EdgeKind, NodeKind
from stepscope.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from stepscope.array_types import Bools, Int32s, Int64s, UInt8s
    from stepscope.derive.intervals.spans import Spans
    from stepscope.derive.replay.nodes import Graph


class Edit(Frozen, frozen=True):
    """What a claim makes of a graph.

    Attributes:
        lag_ps: By edge: its lag; `NEVER` takes the edge away.
        from_start: By edge: whether the lag counts from the begin of its source.
        most_delay_ps: By node: the longest slack that it keeps.
        comes: By node: whether what came from outside just before it still comes no
            sooner than it came.
    """

    dur_ps: Int64s
    lag_ps: Int64s
    from_start: UInt8s
    most_delay_ps: Int64s
    comes: Bools


def unchanged_edit(graph: Graph) -> Edit:
    """Return the edit that changes nothing."""
    edges = graph.edges
    return Edit(
        graph.nodes.dur_ps,
        edges.lag_ps,
        edges.from_start,
        graph.slack_ps,
        graph.arrival_of >= 0,
    )


def joint_edit(graph: Graph, edits: Iterable[Edit]) -> Edit:
    """Return what several claims make of a graph together."""
    whole = unchanged_edit(graph)

    def added(a: Edit, b: Edit) -> Edit:
        return Edit(
            # What each takes away is taken away, but no more than there is.
            np.maximum(a.dur_ps + b.dur_ps - whole.dur_ps, 0),
            np.minimum(a.lag_ps, b.lag_ps),
            np.maximum(a.from_start, b.from_start),
            np.maximum(a.most_delay_ps + b.most_delay_ps - whole.most_delay_ps, 0),
            a.comes & b.comes,
        )

    return reduce(added, edits, whole)


def threads_faster(
    graph: Graph, spans: Spans, *, factor: float, tracks: Collection[int] | None = None
) -> Edit:
    """Let what threads do at some instants take less time.

    Args:
        spans: The instants: where a function runs, or a stage of input works.
        factor: How much faster it becomes; infinity takes it away.
        tracks: Rows of tracks of the threads that become faster; None for all.
    """
    nodes, edit = graph.nodes, unchanged_edit(graph)
    chosen = (nodes.kind != NodeKind.DEVICE) & graph.measured
    if tracks is not None:
        chosen &= np.isin(nodes.track, list(tracks))
    inside = spans.within(nodes.start_ps, graph.end_ps)
    less = np.where(chosen, inside * (1 - 1 / factor), 0).astype(np.int64)
    made = np.where(chosen & (2 * inside >= nodes.dur_ps), less > 0, False)  # noqa: FBT003
    arrival = graph.arrival_of
    arrives_sooner = (arrival >= 0) & made[np.maximum(arrival, 0)]
    return msgspec.structs.replace(
        edit, dur_ps=nodes.dur_ps - less, comes=edit.comes & ~arrives_sooner
    )


def kernels_scaled(graph: Graph, chosen: Bools, *, factor: float) -> Edit:
    """Let some activities take `factor` of their time.

    Args:
        chosen: By node: whether it is meant; only activities are changed.
    """
    nodes = graph.nodes
    meant = chosen & (nodes.kind == NodeKind.DEVICE) & graph.measured
    scaled = (nodes.dur_ps * min(max(factor, 0.0), 1.0)).astype(np.int64)
    dur_ps = np.where(meant, scaled, nodes.dur_ps)
    return msgspec.structs.replace(unchanged_edit(graph), dur_ps=dur_ps)


def exchanges_at_rate(graph: Graph, chosen: Bools, *, needed_ps: Int64s) -> Edit:
    """Let some exchanges take what their bytes need; none becomes longer.

    Args:
        needed_ps: By node: its bytes at the rate of the link, and what it waits for
            other members.
    """
    nodes = graph.nodes
    meant = chosen & (nodes.kind == NodeKind.DEVICE) & graph.measured
    dur_ps = np.where(meant, np.minimum(needed_ps, nodes.dur_ps), nodes.dur_ps)
    return msgspec.structs.replace(unchanged_edit(graph), dur_ps=dur_ps)


def copies_moved(graph: Graph, chosen: Bools) -> Edit:
    """Let the device no longer wait for some of its copies.

    The rest of their stream goes on next to them, and other streams do not wait for
    them, as where they had been asked for a step earlier. Whoever synchronises still
    waits for them.
    """
    edit, edges = unchanged_edit(graph), graph.edges
    of_copy = chosen[edges.source] & graph.measured[edges.source]
    moved = of_copy & (edges.kind == EdgeKind.STREAM)
    awaited = of_copy & np.isin(edges.kind, (EdgeKind.EVENT, EdgeKind.ACROSS))
    # A copy of these does not wait for a stream to be moved to another.
    awaited &= ~chosen[edges.target]
    lag = np.where(moved, np.minimum(edges.lag_ps, 0), edges.lag_ps)
    return msgspec.structs.replace(
        edit,
        lag_ps=np.where(awaited, NEVER, lag),
        # The next one follows the begin of the copy: what was before it still counts.
        from_start=np.where(moved, np.uint8(1), edges.from_start),
    )


def synchronising_removed(graph: Graph, chosen: Bools) -> Edit:
    """Let some calls no longer wait for a device.

    Args:
        chosen: By node: whether it is a piece of a thread that goes on after such a
            call.
    """
    edit, edges = unchanged_edit(graph), graph.edges
    gone = chosen[edges.target] & graph.measured[edges.target]
    gone &= edges.kind == EdgeKind.SYNCHRONISE
    return msgspec.structs.replace(edit, lag_ps=np.where(gone, NEVER, edges.lag_ps))


def launched_as_one(graph: Graph, group: Int32s) -> Edit:
    """Let the activities of each group be launched by the call of its first one.

    Args:
        group: By node: number of its group; -1 for none.
    """
    edit, edges, nodes = unchanged_edit(graph), graph.edges, graph.nodes
    launch = np.flatnonzero(edges.kind == EdgeKind.LAUNCH)
    number = group[edges.target[launch]]
    launch = launch[(number >= 0) & graph.measured[edges.target[launch]]]
    number = group[edges.target[launch]]
    order = np.lexsort((nodes.start_ps[edges.source[launch]], number))
    launch, number = launch[order], number[order]
    first = np.ones(len(launch), np.bool_)
    first[1:] = number[1:] != number[:-1]
    later = launch[~first]
    lag = edges.lag_ps.copy()
    lag[later] = NEVER
    # What the host did from each call to the next is not needed; what it did after the
    # last one is its own.
    dur = nodes.dur_ps.copy()
    before = launch[:-1][~first[1:]]
    dur[edges.source[before][edges.from_start[before] > 0]] = 0
    # Nor may its slack hold it back: one call hands over all.
    delay = edit.most_delay_ps.copy()
    delay[edges.target[later]] = 0
    return msgspec.structs.replace(edit, dur_ps=dur, lag_ps=lag, most_delay_ps=delay)
