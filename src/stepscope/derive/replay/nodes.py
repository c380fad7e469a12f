"""`Graph`: what has to wait for what, as arrays."""

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

#: "Not before" of a node that only its edges hold back.
NEVER: Final = -(2**61 - 1)


class NodeKind(IntEnum):
    """What a node is. Waits are none: where a wait ends follows from edges."""

    #: A piece of a thread's time.
    HOST = 0
    #: A piece of a thread's time that begins where a wait ends.
    RESUMED = 1
    #: A wait whose end nothing recorded explains: it lasts as long as it did.
    OUTSIDE = 2
    #: One activity of a device.
    DEVICE = 3


class EdgeKind(IntEnum):
    """Why one node follows another."""

    #: The next piece of the same thread.
    THREAD = 0
    #: A launch call and what it puts on a device.
    LAUNCH = 1
    #: The next activity of the same stream.
    STREAM = 2
    #: A stream waits for another one, as recorded.
    EVENT = 3
    #: A stream begins when work of another stream ends, and nothing else says why.
    ACROSS = 4
    #: A call returns when work of a device is done.
    SYNCHRONISE = 5
    #: A thread goes on when another one has done something.
    HANDOVER = 6
    #: Participants of an exchange wait for the last one.
    COLLECTIVE = 7


class Nodes(NamedTuple):
    """Nodes, one entry each.

    Attributes:
        row: int32; row of device_activity, -1 for host nodes.
    """

    kind: UInt8s
    track: Int32s
    start_ps: Int64s
    dur_ps: Int64s
    row: Int32s


class Edges(Frozen, frozen=True, eq=True):
    """Edges in any order, one entry each.

    Attributes:
        from_start: Whether the lag counts from the begin of the source, not its end.
        lag_ps: Least time between the two; negative where they overlapped.
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
        """Make edges of one kind."""
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
        """Put edges together; those that begin or end nowhere (-1) are left out."""
        if not parts:
            return cls.make_edges(
                EdgeKind.THREAD, np.empty(0, np.int32), np.empty(0, np.int32)
            )
        whole = cls(
            np.concatenate([one.source for one in parts]),
            np.concatenate([one.target for one in parts]),
            np.concatenate([one.from_start for one in parts]),
            np.concatenate([one.lag_ps for one in parts]),
            np.concatenate([one.kind for one in parts]),
        )
        return whole.choose_edges((whole.source >= 0) & (whole.target >= 0))

    def choose_edges(self, chosen: Bools | NDArray[np.intp]) -> Edges:
        """Return some of the edges, in the order asked for."""
        return Edges(
            np.ascontiguousarray(self.source[chosen]),
            np.ascontiguousarray(self.target[chosen]),
            np.ascontiguousarray(self.from_start[chosen]),
            np.ascontiguousarray(self.lag_ps[chosen]),
            np.ascontiguousarray(self.kind[chosen]),
        )


class Graph(Frozen, frozen=True):
    """The dependencies of some windows of one host.

    Attributes:
        begin: int64, one more than nodes; edges of node `v` are `begin[v]` up to
            `begin[v + 1]`.
        slack_ps: By node: how much later it began than its edges ask for.
        kept: By node: its slack is too long for its edges to explain its start, which
            is kept as recorded.
        not_before_ps: By node: `NEVER`, or its recorded start where it has no edge.
        may_wait: By node: whether its start could be held back (activities, and what
            follows a wait); the others just continue a thread.
        arrival_of: By node: the `OUTSIDE` node before it, -1 for none: what was waited
            for came when this node began.
        boundary: Node with which each bound of the windows begins; -1 for none.
        completes: By node: the first bound by which it has to be done; one more than
            there are for none.
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
        """Return the number of nodes."""
        return len(self.nodes.kind)

    @property
    def end_ps(self) -> Int64s:
        """Return when each node ended."""
        return self.nodes.start_ps + self.nodes.dur_ps

    @property
    def measured(self) -> Bools:
        """Return which nodes begin within the measured windows."""
        start = self.nodes.start_ps
        found: Bools = start >= self.sampled.first_ps
        return found & (start < self.sampled.last_ps)

    @property
    def unexplained_share(self) -> float:
        """Return the share of starts that could wait and that no edge explains."""
        counted = self.may_wait & self.measured
        whole = int(counted.sum())
        return float((self.kept & counted).sum()) / whole if whole else 0.0

    def self_check(self) -> None:
        """Raise ValueError where the recorded times contradict the edges."""
        if len(self.order) != self.count:
            raise ValueError("the edges form a circle")
        if (self.slack_ps < 0).any():
            raise ValueError("a node began before its edges allow")


def link_edges(nodes: Nodes, edges: Edges) -> tuple[Edges, Int64s, Int32s]:
    """Sort edges by target and order the nodes.

    Returns:
        The edges, where those of each node begin, and the order: shorter than the
        nodes where edges form a circle.
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
