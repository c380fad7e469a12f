"""Threads become nodes: pieces between the moments at which something hangs on them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.derive.intervals.spans import Spans
from stepscope.derive.replay.nodes import NodeKind
from stepscope.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from stepscope.derive.replay.device_waits import Waits
    from stepscope.derive.replay.sampled import Sampled
    from stepscope.derive.replay.threads import Thread

_NONE: Final = -1


class Lines(Frozen, frozen=True, eq=True):
    """All threads put one behind the other, so that (thread, time) is one number.

    Attributes:
        origin_ps: Time that is 0 on every line.
        length_ps: Length of a line.
    """

    origin_ps: int
    length_ps: int

    @classmethod
    def of(cls, sampled: Sampled, threads: Sequence[Thread]) -> Lines:
        """Make room for the life of every thread."""
        hulls = [one.alive.hull for one in threads]
        first = min((it[0] for it in hulls if it), default=sampled.lead_ps)
        last = max((it[1] for it in hulls if it), default=sampled.last_ps)
        return cls(first, last - first + 2)

    def key(
        self, thread: NDArray[np.int64] | int, time_ps: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return the numbers of moments; what lies outside is moved to the edge."""
        inside = np.clip(time_ps - self.origin_ps, 0, self.length_ps - 1)
        found: NDArray[np.int64] = thread * self.length_ps + inside
        return found

    def thread(self, key: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the thread of each number."""
        return key // self.length_ps

    def time_ps(self, key: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the time of each number."""
        return key % self.length_ps + self.origin_ps


class HostNodes(Frozen, frozen=True, eq=True):
    """The pieces of all threads, thread by thread in order of time.

    Attributes:
        lines: How moments are numbered.
        kind: `NodeKind` of each piece.
        start_key: Number of the moment at which it begins.
        end_key: Number of the moment at which it ends.
        resumed: By wait: the piece with which the thread goes on; -1 for none.
        outside: By wait: the piece that stands for it where nothing explains its end.
    """

    lines: Lines
    kind: NDArray[np.uint8]
    start_key: NDArray[np.int64]
    end_key: NDArray[np.int64]
    resumed: NDArray[np.int64]
    outside: NDArray[np.int64]

    def at(
        self, thread: NDArray[np.int64] | int, time_ps: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Find the piece that stands for a moment.

        Returns:
            The piece, -1 for none, and whether its begin is meant, not its end.
        """
        key = self.lines.key(thread, time_ps)
        if not len(self.start_key):
            return np.full(len(key), _NONE, np.int64), np.zeros(len(key), np.bool_)
        piece = np.searchsorted(self.start_key, key, side="right") - 1
        begins = (piece >= 0) & (self.start_key[np.maximum(piece, 0)] == key)
        same = self.lines.thread(self.start_key[np.maximum(piece, 0)])
        known = (piece >= 0) & (same == self.lines.thread(key))
        return np.where(known, piece, _NONE), begins

    def starting_at(
        self, thread: NDArray[np.int64] | int, time_ps: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return the piece that begins at a moment, -1 for none."""
        piece, begins = self.at(thread, time_ps)
        return np.where(begins, piece, _NONE)


def host_nodes(
    threads: Sequence[Thread],
    lines: Lines,
    *,
    waits: Waits,
    explained: NDArray[np.bool_],
    moments: Sequence[tuple[NDArray[np.int64], NDArray[np.int64]]],
) -> HostNodes:
    """Cut the life of every thread, less what it waited, at some moments.

    Args:
        threads: The threads.
        lines: How moments are numbered.
        waits: Where they wait.
        explained: By wait: whether something tells when it ended. The others stay, as
            pieces of their own.
        moments: Pairs of (thread, time) at which to cut; those within a wait do not.
    """
    alive = _on_one_line(lines, [(at, one.alive) for at, one in enumerate(threads)])
    began = lines.key(waits.thread, waits.began_ps)
    resumed = lines.key(waits.thread, waits.resumed_ps)
    ended = lines.key(waits.thread, waits.ended_ps)
    gone = explained & (resumed > began)
    order = np.argsort(began[gone], kind="stable")
    waited = Spans.from_events(
        began[gone][order], resumed[gone][order] - began[gone][order]
    )
    pieces = alive - waited
    cuts = [lines.key(thread, time) for thread, time in moments]
    edges = np.unique(
        np.concatenate([pieces.start_ps, pieces.end_ps, began, resumed, ended, *cuts])
    )
    start, end = edges[:-1], edges[1:]
    place = np.searchsorted(pieces.start_ps, start, side="right") - 1
    inside = place >= 0
    inside[inside] = end[inside] <= pieces.end_ps[place[inside]]
    start, end = start[inside], end[inside]
    kind = np.full(len(start), NodeKind.HOST, np.uint8)
    after = _starting(start, resumed)
    after[~explained] = _starting(start, ended)[~explained]
    kind[after[after >= 0]] = NodeKind.RESUMED
    outside = _starting(start, began)
    outside[explained] = _NONE
    kind[outside[outside >= 0]] = NodeKind.OUTSIDE
    return HostNodes(lines, kind, start, end, after, outside)


def _on_one_line(lines: Lines, parts: Sequence[tuple[int, Spans]]) -> Spans:
    starts = [lines.key(at, spans.start_ps) for at, spans in parts]
    ends = [lines.key(at, spans.end_ps) for at, spans in parts]
    nothing = np.empty(0, np.int64)
    start = np.concatenate([nothing, *starts])
    return Spans(start, np.concatenate([nothing, *ends]))


def _starting(start: NDArray[np.int64], key: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the piece that begins with each moment, -1 for none."""
    if not len(start):
        return np.full(len(key), _NONE, np.int64)
    place = np.minimum(np.searchsorted(start, key, side="left"), len(start) - 1)
    found: NDArray[np.int64] = np.where(start[place] == key, place, _NONE)
    return found
