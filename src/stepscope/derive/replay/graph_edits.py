"""What-if edits, as changes to the arrays of a graph.

Each function takes a graph and returns an `Edit`. Edits change only the measured
windows, so that the recorded start of the first window stays comparable.

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
    """The arrays of a graph after a what-if edit.

    Attributes:
        lag_ps: By edge: lag of the edge; `NEVER` removes the edge.
        from_start: By edge: whether the lag counts from the start of the source node.
        max_delay_ps: By node: maximum slack that the node keeps.
        comes: By node: whether it waits for something from outside the graph, such as a
            batch, that arrives no earlier than recorded.
    """

    dur_ps: Int64s
    lag_ps: Int64s
    from_start: UInt8s
    max_delay_ps: Int64s
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
    """Return the combination of several edits of a graph."""
    unchanged = unchanged_edit(graph)

    def added(a: Edit, b: Edit) -> Edit:
        return Edit(
            # Durations decrease by the sum of both reductions, to at least 0.
            np.maximum(a.dur_ps + b.dur_ps - unchanged.dur_ps, 0),
            np.minimum(a.lag_ps, b.lag_ps),
            np.maximum(a.from_start, b.from_start),
            np.maximum(a.max_delay_ps + b.max_delay_ps - unchanged.max_delay_ps, 0),
            a.comes & b.comes,
        )

    return reduce(added, edits, unchanged)


def threads_faster(
    graph: Graph, spans: Spans, *, factor: float, tracks: Collection[int] | None = None
) -> Edit:
    """Shorten what threads do during the given spans.

    Args:
        spans: Times at which a function or an input stage runs.
        factor: How many times faster the spans become; infinity removes them.
        tracks: Rows of tracks of the threads that become faster; None for all.
    """
    nodes, edit = graph.nodes, unchanged_edit(graph)
    chosen = (nodes.kind != NodeKind.DEVICE) & graph.measured
    if tracks is not None:
        chosen &= np.isin(nodes.track, list(tracks))
    inside = spans.within(nodes.start_ps, graph.end_ps)
    saved_ps = np.where(chosen, inside * (1 - 1 / factor), 0).astype(np.int64)
    mostly = (saved_ps > 0) & (2 * inside >= nodes.dur_ps)
    return msgspec.structs.replace(
        edit,
        dur_ps=nodes.dur_ps - saved_ps,
        comes=edit.comes & ~mostly[graph.arrival_of],
    )


def kernels_scaled(graph: Graph, chosen: Bools, *, factor: float) -> Edit:
    """Scale the duration of some activities by `factor`.

    Args:
        chosen: By node: whether to scale the node. Nodes of threads are never scaled.
    """
    nodes = graph.nodes
    meant = chosen & (nodes.kind == NodeKind.DEVICE) & graph.measured
    scaled = (nodes.dur_ps * min(max(factor, 0.0), 1.0)).astype(np.int64)
    dur_ps = np.where(meant, scaled, nodes.dur_ps)
    return msgspec.structs.replace(unchanged_edit(graph), dur_ps=dur_ps)


def collectives_at_rate(graph: Graph, chosen: Bools, *, needed_ps: Int64s) -> Edit:
    """Shorten some collectives to the time that their bytes need; lengthen none.

    Args:
        needed_ps: By node: time to transfer the collective's bytes at the rate of the
            link, plus the time of waiting for other members.
    """
    nodes = graph.nodes
    meant = chosen & (nodes.kind == NodeKind.DEVICE) & graph.measured
    dur_ps = np.where(meant, np.minimum(needed_ps, nodes.dur_ps), nodes.dur_ps)
    return msgspec.structs.replace(unchanged_edit(graph), dur_ps=dur_ps)


def copies_moved(graph: Graph, chosen: Bools) -> Edit:
    """Remove waits for some copies, as if the copies were requested a step earlier.

    The copy's stream goes on in parallel, and other streams do not wait for the copy.
    Synchronising calls still wait for the copy.
    """
    edit, edges = unchanged_edit(graph), graph.edges
    of_copy = chosen[edges.source] & graph.measured[edges.source]
    moved = of_copy & (edges.kind == EdgeKind.STREAM)
    awaited = of_copy & np.isin(edges.kind, (EdgeKind.EVENT, EdgeKind.ACROSS))
    # Edges between two chosen copies remain.
    awaited &= ~chosen[edges.target]
    lag = np.where(moved, np.minimum(edges.lag_ps, 0), edges.lag_ps)
    return msgspec.structs.replace(
        edit,
        lag_ps=np.where(awaited, NEVER, lag),
        # The next activity waits for the copy's start, so it stays in stream order.
        from_start=np.where(moved, np.uint8(1), edges.from_start),
    )


def synchronising_removed(graph: Graph, chosen: Bools) -> Edit:
    """Make some calls return without waiting for the device.

    Args:
        chosen: By node: whether it is the piece of a thread just after a waiting call.
    """
    edit, edges = unchanged_edit(graph), graph.edges
    removed = chosen[edges.target] & graph.measured[edges.target]
    removed &= edges.kind == EdgeKind.SYNCHRONISE
    return msgspec.structs.replace(edit, lag_ps=np.where(removed, NEVER, edges.lag_ps))


def launched_as_one(graph: Graph, group: Int32s) -> Edit:
    """Launch all activities of each group with the call of the first one.

    Args:
        group: By node: number of its group; -1 for no group.
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
    # Remove host work between the calls of a group. Work after the last call remains.
    dur = nodes.dur_ps.copy()
    before = launch[:-1][~first[1:]]
    dur[edges.source[before][edges.from_start[before] > 0]] = 0
    # Remove the slack of later activities too, because one call launches the group.
    delay = edit.max_delay_ps.copy()
    delay[edges.target[later]] = 0
    return msgspec.structs.replace(edit, dur_ps=dur, lag_ps=lag, max_delay_ps=delay)
