"""`Graph`: which work has to wait for which other work, as arrays; and what-if edits.

An `Edit` contains the arrays of a graph that differ after a change. Edits change only
the measured windows, so that the recorded start of the first window stays comparable.

Definition: docs/replay.md#what-if-edits.
"""

from __future__ import annotations

from enum import IntEnum
from functools import reduce
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
import numpy as np

from stepscope._core import launches as kernels
from stepscope.derive.columns.arrays import accepted_answer
from stepscope.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from numpy.typing import NDArray

    from stepscope.array_types import Bools, Int32s, Int64s, UInt8s
    from stepscope.derive.intervals.spans import Spans
    from stepscope.derive.replay.activities import Sampled

#: Value of `not_before_ps` for a node whose start depends on its edges only.
NEVER: Final = -(2**61 - 1)


class NodeKind(IntEnum):
    """Kind of a node. A wait is not a node, because edges determine its end."""

    #: A piece of a thread's time.
    HOST = 0
    #: A piece of a thread's time that begins at the end of a wait.
    RESUMED = 1
    #: A wait whose end is unexplained, and which keeps its recorded duration.
    OUTSIDE = 2
    #: One activity of a device.
    DEVICE = 3


class EdgeKind(IntEnum):
    """Reason why one node follows another."""

    #: The next piece of the same thread.
    THREAD = 0
    #: A launch call and the activity that it launches.
    LAUNCH = 1
    #: The next activity of the same stream.
    STREAM = 2
    #: A recorded wait of a stream for another stream.
    EVENT = 3
    #: An otherwise unexplained start just after work of another stream ends.
    ACROSS = 4
    #: A call returns when device work is done.
    SYNCHRONISE = 5
    #: A thread continues because another thread handed over or finished work.
    HANDOVER = 6
    #: Members of a collective wait for the last member.
    COLLECTIVE = 7


class Nodes(NamedTuple):
    """Nodes, one entry per node.

    Attributes:
        row: int32; row of device_activity, -1 for host nodes.
    """

    kind: UInt8s
    track: Int32s
    start_ps: Int64s
    dur_ps: Int64s
    row: Int32s


class Edges(NamedTuple):
    """Edges in any order, one entry per edge.

    Attributes:
        from_start: Whether the lag counts from the start of the source, not its end.
        lag_ps: Minimum time between source and target; negative if they overlap.
    """

    source: Int32s
    target: Int32s
    from_start: UInt8s
    lag_ps: Int64s
    kind: UInt8s

    @classmethod
    def make_edges(
        cls,
        kind: EdgeKind,
        source: NDArray[np.signedinteger],
        target: NDArray[np.signedinteger],
        *,
        lag_ps: Int64s | int = 0,
        from_start: Bools | bool = False,
    ) -> Edges:
        """Return edges of one kind."""
        count = len(source)
        return cls(
            source.astype(np.int32),
            target.astype(np.int32),
            np.broadcast_to(np.asarray(from_start, np.uint8), count).copy(),
            np.broadcast_to(np.asarray(lag_ps, np.int64), count).copy(),
            np.full(count, kind, np.uint8),
        )

    @classmethod
    def join_edges(cls, parts: Sequence[Edges]) -> Edges:
        """Join sets of edges; edges without a source or target (-1) are left out."""
        if not parts:
            return cls.make_edges(
                EdgeKind.THREAD, np.empty(0, np.int32), np.empty(0, np.int32)
            )
        columns = zip(*parts, strict=True)
        joined = cls(*(np.concatenate(column) for column in columns))
        return joined.choose_edges((joined.source >= 0) & (joined.target >= 0))

    def choose_edges(self, chosen: Bools | NDArray[np.intp]) -> Edges:
        """Return the chosen edges, in the given order."""
        return Edges._make(np.ascontiguousarray(column[chosen]) for column in self)


class Graph(Frozen, frozen=True):
    """The dependencies of some windows of one host.

    Attributes:
        begin: int64, nodes + 1 numbers; edges of node `v` are `begin[v]:begin[v + 1]`.
        slack_ps: By node: how much later it began than its edges require.
        kept: By node: whether its slack is too long to be explained by its edges. A
            node with `kept` keeps its recorded start.
        not_before_ps: By node: its recorded start if it has no edge, else `NEVER`.
        may_wait: By node: whether its start can be delayed (activities, and pieces
            after a wait). The other nodes just continue a thread.
        arrival_of: By node: the `OUTSIDE` node before it, -1 for none. The awaited
            object arrives when this node begins.
        boundary: By bound of the windows: the node that begins there; -1 for none.
        completes: By node: the first bound by which the node must be done; the number
            of bounds if there is none.
    """

    nodes: Nodes
    begin: Int64s
    edges: Edges
    order: Int32s
    slack_ps: Int64s
    kept: Bools
    not_before_ps: Int64s
    may_wait: Bools
    arrival_of: Int32s
    sampled: Sampled
    boundary: Int32s
    completes: Int32s

    @property
    def count(self) -> int:
        """Number of nodes."""
        return len(self.nodes.kind)

    @property
    def end_ps(self) -> Int64s:
        """End of each node."""
        return self.nodes.start_ps + self.nodes.dur_ps

    @property
    def measured(self) -> Bools:
        """Mask of the nodes that begin within the measured windows."""
        start = self.nodes.start_ps
        begun: Bools = start >= self.sampled.first_ps
        return begun & (start < self.sampled.last_ps)

    @property
    def unexplained_share(self) -> float:
        """Share of unexplained starts among the starts that can be delayed."""
        counted = self.may_wait & self.measured
        total = int(counted.sum())
        return float((self.kept & counted).sum()) / total if total else 0.0


def link_edges(nodes: Nodes, edges: Edges) -> tuple[Edges, Int64s, Int32s]:
    """Sort edges by target and order the nodes.

    Returns:
        The edges, the first edge of each node, and the order of nodes. The order is
        incomplete if edges form a cycle.
    """
    count = len(nodes.kind)
    edges = edges.choose_edges(np.argsort(edges.target, kind="stable"))
    begin = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(edges.target, minlength=count), out=begin[1:])
    order = np.empty(count, np.int32)
    placed = accepted_answer(
        kernels.order_nodes(
            begin,
            edges.source,
            np.empty(count + 1, np.int64),
            np.empty(len(edges.source), np.int32),
            np.empty(count, np.int32),
            order,
        )
    )
    return edges, begin, order[:placed]


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
