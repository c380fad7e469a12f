"""Which functions a stretch of one thread's time goes to.

Time is divided along the tree of calls. A function that runs around steps is the loop
itself: its time is that of the functions it calls. Within a step a function that only
calls another gives way to it, and one that calls several in turn is divided among them;
any other keeps its time, with the function to which most of it goes told beside. The
program's own functions do not give way to those of libraries.

Definition: docs/where-a-steps-time-goes.md#functions-by-name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.derive.host.function_frames import FunctionFrames
    from stepscope.derive.intervals.spans import Spans

__all__ = ["FunctionPart", "FunctionParts", "function_parts"]

#: A caller that spends this share of its time in one function gives way to it.
_ALL: Final = 0.9
#: A caller whose functions of at least `_PIECE` of its time take this share together is
#: divided among them.
_TOGETHER: Final = 0.8
_PIECE: Final = 0.1
#: A function that covers this share of a part is told beside its name.
_MOST: Final = 0.5
#: Functions below this share of the whole are told as their caller's.
_TOLD: Final = 0.02
_NONE: Final = -1


class FunctionPart(NamedTuple):
    """Time of one function, callees without a part of their own included.

    Attributes:
        type: Function, as in `FunctionFrames.type`; -1 where none ran.
        detail: Function of a library to which most of the time goes; -1 for none.
        time_ps: The time.
    """

    type: int
    detail: int
    time_ps: int


class _Node(NamedTuple):
    """One path of calls: a function, what it took, and whether steps run inside."""

    type: int
    time_ps: int
    is_loop: bool
    calls: tuple[int, ...]


class FunctionParts(NamedTuple):
    """Time divided among functions.

    Attributes:
        parts: Most time first.
        caller: The deepest function from which nearly all of it is called, with the
            time inside it; None where there is none.
    """

    parts: tuple[FunctionPart, ...]
    caller: FunctionPart | None


def function_parts(
    frames: FunctionFrames,
    spans: Spans,
    *,
    track: int,
    windows: tuple[NDArray[np.int64], NDArray[np.int64]],
) -> FunctionParts:
    """Divide the time of a set on one thread among functions.

    Args:
        frames: The functions that ran.
        spans: The instants to divide.
        track: Row of tracks of the thread.
        windows: Starts and ends of the steps, in order: a run around several is that
            of their loop.

    Returns:
        Parts that add up to the length of `spans`.
    """
    rows = np.flatnonzero(frames.track == track)
    if not len(rows) or not len(spans):
        return FunctionParts((), None)
    tree = _Tree.of(frames, spans, rows, windows)
    parts: dict[tuple[int, int], int] = {}
    whole = spans.length_ps
    for part in tree.parts(frames, whole=whole):
        key = (part.type, part.detail)
        parts[key] = parts.get(key, 0) + part.time_ps
    rest = whole - sum(parts.values())
    if rest > 0:
        parts[_NONE, _NONE] = rest
    ranked = sorted(parts.items(), key=lambda one: -one[1])
    return FunctionParts(
        tuple(FunctionPart(*key, time) for key, time in ranked if time > 0),
        tree.common_caller(whole),
    )


class _Tree(NamedTuple):
    """The paths of calls within a set of instants."""

    nodes: tuple[_Node, ...]
    roots: tuple[int, ...]

    @classmethod
    def of(
        cls,
        frames: FunctionFrames,
        spans: Spans,
        rows: NDArray[np.intp],
        windows: tuple[NDArray[np.int64], NDArray[np.int64]],
    ) -> _Tree:
        start, end = frames.start_ps[rows], frames.end_ps[rows]
        time = spans.within(start, end)
        kept = time > 0
        rows, time = rows[kept], time[kept]
        loops = _encloses_steps(start[kept], end[kept], windows)
        path, parent_path, types = _paths(frames, rows)
        count = len(types)
        total = np.bincount(path, weights=time, minlength=count).astype(np.int64)
        is_loop = np.zeros(count, np.bool_)
        np.logical_or.at(is_loop, path, loops)
        calls: list[list[int]] = [[] for _ in range(count)]
        roots: list[int] = []
        for number, above in enumerate(parent_path.tolist()):
            (roots if above < 0 else calls[above]).append(number)
        nodes = tuple(
            _Node(int(types[at]), int(total[at]), bool(is_loop[at]), tuple(calls[at]))
            for at in range(count)
        )
        return cls(nodes, tuple(roots))

    def parts(self, frames: FunctionFrames, *, whole: int) -> list[FunctionPart]:
        """Return the parts of all paths; they add up to the time of the roots."""
        least = _TOLD * whole
        found = []
        waiting = list(self.roots)
        while waiting:
            at = waiting.pop()
            node = self.nodes[at]
            calls = [call for call in node.calls if self.nodes[call].time_ps >= least]
            if not node.is_loop:
                calls = self._gives_way(at, calls, frames)
            left = node.time_ps - sum(self.nodes[call].time_ps for call in calls)
            detail = _NONE if calls else self._deepest(at, least)
            found.append(FunctionPart(node.type, detail, left))
            waiting += calls
        return found

    def _gives_way(
        self, at: int, calls: list[int], frames: FunctionFrames
    ) -> list[int]:
        """Return the calls that have parts of their own within a step."""
        whole = self.nodes[at].time_ps
        shares = {call: self.nodes[call].time_ps / whole for call in calls}
        pieces = [call for call in calls if shares[call] >= _PIECE]
        only = max(shares.values(), default=0.0) >= _ALL
        several = len(pieces) > 1 and sum(shares[it] for it in pieces) >= _TOGETHER
        if not only and not several:
            return []
        if self._is_library(at, frames):
            return pieces
        return [call for call in pieces if not self._is_library(call, frames)]

    def common_caller(self, whole: int) -> FunctionPart | None:
        """Return the deepest function from which nearly all of the time is called."""
        found, calls = None, self.roots
        while calls:
            at = max(calls, key=lambda call: self.nodes[call].time_ps)
            node = self.nodes[at]
            if node.time_ps < _ALL * whole:
                break
            found, calls = FunctionPart(node.type, _NONE, node.time_ps), node.calls
        return found

    def _is_library(self, at: int, frames: FunctionFrames) -> bool:
        name = frames.names[self.nodes[at].type]
        return name.library is True or name.file is None

    def _deepest(self, at: int, least: float) -> int:
        """Return the deepest function that takes most of a part; -1 for itself."""
        top = self.nodes[at]
        most = max(_MOST * top.time_ps, least)
        node: _Node | None = top
        while node is not None:
            found = node.type
            calls = (self.nodes[call] for call in node.calls)
            node = next((call for call in calls if call.time_ps >= most), None)
        return _NONE if found == top.type else found


def _encloses_steps(
    start_ps: NDArray[np.int64],
    end_ps: NDArray[np.int64],
    windows: tuple[NDArray[np.int64], NDArray[np.int64]],
) -> NDArray[np.bool_]:
    """Return which runs are around two whole steps, or around the only one.

    Length alone does not say it: what only some steps run is longer than a typical one,
    and samples join runs in steps that follow each other.
    """
    starts, ends = windows
    first = np.searchsorted(starts, start_ps, side="left")
    last = np.searchsorted(ends, end_ps, side="right")
    return last - first >= min(2, len(starts))


def _paths(
    frames: FunctionFrames, rows: NDArray[np.intp]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int32]]:
    """Number the paths of calls.

    Returns:
        The path of each row; of each path the one it is called from, -1 for none, and
        its function.
    """
    place = np.full(len(frames.type), _NONE, np.int64)
    place[rows] = np.arange(len(rows))
    above = frames.parent[rows]
    above = np.where(above >= 0, place[above], _NONE)
    path = np.full(len(rows), _NONE, np.int64)
    parents: list[NDArray[np.int64]] = []
    types: list[NDArray[np.int32]] = []
    count = 0
    level = np.flatnonzero(above < 0)
    children = np.argsort(above, kind="stable")
    begins = np.searchsorted(above[children], np.arange(len(rows)), side="left")
    ends = np.searchsorted(above[children], np.arange(len(rows)), side="right")
    while len(level):
        caller = np.where(above[level] >= 0, path[above[level]], _NONE)
        key = np.stack((caller, frames.type[rows[level]].astype(np.int64)))
        distinct, number = np.unique(key, axis=1, return_inverse=True)
        path[level] = count + number.reshape(-1)
        parents.append(distinct[0])
        types.append(distinct[1].astype(np.int32))
        count += distinct.shape[1]
        lengths = ends[level] - begins[level]
        first = np.repeat(begins[level] - np.cumsum(lengths) + lengths, lengths)
        level = children[first + np.arange(int(lengths.sum()))]
    nothing = np.empty(0, np.int64)
    return (
        path,
        np.concatenate([nothing, *parents]),
        np.concatenate([nothing.astype(np.int32), *types]),
    )
