"""`Graph`: which work has to wait for which other work, as arrays."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from stepscope._core import launches as kernels
from stepscope.derive.columns.arrays import accepted_answer
from stepscope.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from stepscope.array_types import Bools, Int32s, Int64s, UInt8s
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
