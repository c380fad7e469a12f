"""Division of the time of one thread's spans among the functions that ran.

Time inside a library belongs to the program's function that called the library; the
library's function is kept as a detail. Time is divided along the tree of calls. A
function that runs around steps is the training loop: its time goes to the functions
that it calls. Within a step, the time of a function that calls several long functions
is divided among these functions. If a callee in the program takes most of its caller's
time, it gets a separate part. Any other function keeps its time; its detail is the
callee with most of this time. Where no function of the program runs, the same rules
apply to library functions.

Definition: docs/where-a-steps-time-goes.md#functions-by-name.
"""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.derive.host.function_frames import BEGINNINGS
from stepscope.derive.host.function_names import COMPREHENSIONS, is_nameless
from stepscope.derive.host.function_purposes import is_wait
from stepscope.derive.intervals.spans import Spans
from stepscope.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from stepscope.array_types import Bools, Int32s, Int64s
    from stepscope.derive.host.function_frames import FunctionFrames
    from stepscope.derive.host.function_lines import FunctionLines
    from stepscope.derive.host.function_names import FunctionName

#: A callee with at least this share of its caller's time replaces the caller.
_MIN_DOMINANT_SHARE: Final = 0.9
#: A caller is divided among its callees if each takes at least `_MIN_CALLEE_SHARE` of
#: the caller's time, and all of them together at least `_MIN_JOINT_SHARE`.
_MIN_JOINT_SHARE: Final = 0.8
_MIN_CALLEE_SHARE: Final = 0.1
#: Minimum share of a part's time in a callee that is named as the part's detail.
_MIN_DETAIL_SHARE: Final = 0.5
#: Minimum share of all time for a separate part; smaller times go to the caller.
_MIN_PART_SHARE: Final = 0.02
#: A function is a loop if it encloses at least this share of the steps it overlaps.
_MIN_ENCLOSED_SHARE: Final = 0.9
#: If there is only one window, its loop may miss this share of the window at each end.
_MAX_UNCOVERED_SHARE: Final = 0.02
_NONE: Final = -1
#: Suffix of the qualified name of a lambda that is created inside a function.
_LAMBDA: Final = ".<locals>.<lambda>"


class FunctionPart(Frozen, frozen=True, eq=True):
    """Time of one function, with the callees that have no separate part.

    Attributes:
        type: Function, as in `FunctionFrames.type`; -1 where no function ran.
        detail: Callee in which most of the time is spent; -1 for none.
        is_loop: Whether the function is the loop that executes the steps.
        line: Line of the loop that takes most of the time; -1 for none or if unknown.
    """

    type: int
    detail: int
    is_loop: bool
    time_ps: int
    line: int = _NONE


class _Node(Frozen, frozen=True, eq=True):
    """One path of nested calls, identified by its innermost function."""

    type: int
    time_ps: int
    is_own: bool
    is_loop: bool
    calls: tuple[int, ...]


def function_parts(
    frames: FunctionFrames,
    spans: Spans,
    *,
    track: int,
    windows: tuple[Int64s, Int64s],
    lines: FunctionLines | None = None,
) -> tuple[FunctionPart, ...]:
    """Divide the time of the spans on one thread among functions.

    Args:
        windows: Starts and ends of the steps, in order; both empty for a thread that
            runs no steps. A call that encloses several steps is a call of the loop.

    Returns:
        Parts that add up to the length of `spans`, most time first.
    """
    rows = np.flatnonzero(frames.track == track)
    if not len(rows) or not len(spans):
        return ()
    tree = _Tree.build_tree(frames, spans, rows, windows)
    parts: dict[tuple[int, int, bool], int] = {}
    total_ps = spans.length_ps
    for part in tree.divide_time(total_ps=total_ps):
        inner = frames.names.get(part.detail)
        inside = inner is not None and is_nameless(inner.function)
        key = (part.type, _NONE if inside else part.detail, part.is_loop)
        parts[key] = parts.get(key, 0) + part.time_ps
    unassigned_ps = total_ps - sum(parts.values())
    if unassigned_ps > 0:
        parts[_NONE, _NONE, False] = unassigned_ps
    ranked = sorted(parts.items(), key=lambda timed: -timed[1])
    return tuple(
        FunctionPart(
            *(*key, time),
            line=_busiest_loop_line(lines, key[0], spans, time, track=track)
            if lines is not None and key[2] and key[1] == _NONE
            else _NONE,
        )
        for key, time in ranked
        if time > 0
    )


def _busiest_loop_line(
    lines: FunctionLines, kind: int, spans: Spans, time_ps: int, *, track: int
) -> int:
    """Return the loop's line with most of the time; -1 if no line has half of it."""
    took = {
        line: (line_spans & spans).length_ps
        for line, line_spans in lines.own_spans([kind], tracks=[track]).items()
    }
    busiest = max(took, key=lambda line: took[line], default=_NONE)
    return busiest if took.get(busiest, 0) >= _MIN_DETAIL_SHARE * time_ps else _NONE


def calling_function(
    frames: FunctionFrames,
    spans: Spans,
    *,
    tracks: Sequence[int],
    windows: tuple[Int64s, Int64s],
    beside: bool = False,
) -> FunctionPart | None:
    """Return the program's deepest function from which most of the spans is called.

    The loop around steps is returned only if nearly all of its time within steps is in
    the spans, because it calls everything in a step. The program's module is never
    returned. With `beside`, the threads run in parallel with the steps, and a function
    on a framework's thread is not a loop: two short calls with no sample between them
    look like one long call.

    Args:
        tracks: Rows of tracks of the threads to search.

    Returns:
        The function with the time inside it; None if no such function ran, or if no
        function is known to belong to the program.
    """
    rows = np.flatnonzero(np.isin(frames.track, tracks))
    if not len(rows) or not len(spans):
        return None
    tree = _Tree.build_tree(frames, spans, rows, windows, in_parallel=beside)
    min_ps = _MIN_DETAIL_SHARE * spans.length_ps
    # On several threads, several functions may each run for most of the time.
    deepest, waiting = None, list(tree.roots)
    while waiting:
        node = tree.nodes[waiting.pop(0)]
        if node.time_ps < min_ps:
            continue
        waiting += node.calls
        # A file without an absolute path may belong to a library.
        if not node.is_own or not (
            frames.names[node.type].library is False
            and PurePath(frames.names[node.type].file or "").is_absolute()
        ):
            continue
        if frames.names[node.type].function.endswith(BEGINNINGS):
            continue
        if deepest is None or deepest.is_loop or not node.is_loop:
            deepest = node
    if deepest is None:
        return None
    if deepest.is_loop:
        # Recursion is rare, so one path has most of a function's time.
        own_rows = rows[frames.type[rows] == deepest.type]
        start, end = frames.start_ps[own_rows], frames.end_ps[own_rows]
        runs = Spans.from_events(start, end - start)
        steps = Spans.from_events(windows[0], windows[1] - windows[0])
        if deepest.time_ps < _MIN_DOMINANT_SHARE * (runs & steps).length_ps:
            return None
    return FunctionPart(deepest.type, _NONE, deepest.is_loop, deepest.time_ps)


class _Tree(Frozen, frozen=True, eq=True):
    """The call paths within a set of spans."""

    nodes: tuple[_Node, ...]
    roots: tuple[int, ...]

    @classmethod
    def build_tree(
        cls,
        frames: FunctionFrames,
        spans: Spans,
        rows: NDArray[np.intp],
        windows: tuple[Int64s, Int64s],
        *,
        in_parallel: bool = False,
    ) -> _Tree:
        start, end = frames.start_ps[rows], frames.end_ps[rows]
        time = spans.within(start, end)
        kept = time > 0
        rows, time = rows[kept], time[kept]
        path, parent_path, types = _number_call_paths(frames, rows)
        count, named = len(types), [frames.names[kind] for kind in types.tolist()]
        total = np.bincount(path, weights=time, minlength=count).astype(np.int64)
        is_loop = _paths_around_steps(path, count, (start[kept], end[kept]), windows)
        if in_parallel:
            # By path: whether its outermost function starts Python threads.
            on_threads = np.array(
                [name.function.endswith(BEGINNINGS) for name in named],
                np.bool_,
            )
            # The number of a path is larger than that of the path that calls it.
            for child, above in enumerate(parent_path.tolist()):
                if above >= 0:
                    on_threads[child] = on_threads[above]
            is_loop &= on_threads
        calls: list[list[int]] = [[] for _ in range(count)]
        roots: list[int] = []
        for number, above in enumerate(parent_path.tolist()):
            # `queue.get` waits inside `threading`: that does not show what the thread
            # waits for.
            if above < 0 or not (is_wait(named[above]) and is_wait(named[number])):
                (roots if above < 0 else calls[above]).append(number)
        nodes = tuple(
            _Node(
                int(types[index]),
                int(total[index]),
                _is_own(named[index])
                and not _is_part_of_caller(index, parent_path, named),
                bool(is_loop[index]),
                tuple(calls[index]),
            )
            for index in range(count)
        )
        return cls(nodes, tuple(roots))

    def divide_time(self, *, total_ps: int) -> list[FunctionPart]:
        """Return all paths' parts, which add up to the time of the outermost paths."""
        min_ps = _MIN_PART_SHARE * total_ps
        parts: list[FunctionPart] = []
        # Paths to visit, each with the path of the program's function that calls it.
        waiting = [(root, _NONE) for root in self.roots]
        while waiting:
            path, owner = waiting.pop()
            node = self.nodes[path]
            owner = path if node.is_own else owner
            calls = self._separate_calls(path, owner, min_ps)
            left = node.time_ps - sum(self.nodes[call].time_ps for call in calls)
            named = self.nodes[path if owner == _NONE else owner]
            detail = self._deepest_function(path, calls, left, min_ps)
            detail = _NONE if detail == named.type else detail
            parts.append(FunctionPart(named.type, detail, named.is_loop, left))
            waiting += [(call, owner) for call in calls]
        return parts

    def _separate_calls(self, path: int, owner: int, min_ps: float) -> list[int]:
        """Return the calls below a path, at any depth, that get a separate part."""
        node = self.nodes[path]
        if node.is_loop:
            return self._large_calls(node.calls, min_ps)
        if owner == _NONE:
            return self._divided_calls(path, self._large_calls(node.calls, min_ps))
        # The program's functions that a path calls directly or through libraries.
        own: list[int] = []
        waiting = self._large_calls(self.nodes[path].calls, min_ps)
        while waiting:
            call = waiting.pop()
            if self.nodes[call].is_own:
                own.append(call)
            else:
                waiting += self._large_calls(self.nodes[call].calls, min_ps)
        # A function of the program that a library calls back gets a separate part.
        return (
            self._divided_calls(path, own, min_share=_MIN_DETAIL_SHARE)
            if node.is_own
            else own
        )

    def _large_calls(self, calls: Iterable[int], min_ps: float) -> list[int]:
        return [call for call in calls if self.nodes[call].time_ps >= min_ps]

    def _divided_calls(
        self, path: int, calls: list[int], *, min_share: float = _MIN_DOMINANT_SHARE
    ) -> list[int]:
        """Return the calls among which a function's time is divided; empty for none.

        Args:
            min_share: Minimum share of the function's time that a single call needs.
        """
        total_ps = self.nodes[path].time_ps
        shares = {call: self.nodes[call].time_ps / total_ps for call in calls}
        pieces = [call for call in calls if shares[call] >= _MIN_CALLEE_SHARE]
        only = max(shares.values(), default=0.0) >= min_share
        several = (
            len(pieces) > 1 and sum(shares[call] for call in pieces) >= _MIN_JOINT_SHARE
        )
        return pieces if only or several else []

    def _deepest_function(
        self, path: int, separate: list[int], left: int, min_ps: float
    ) -> int:
        """Return the deepest function that has most of the path's undivided time."""
        min_kept_ps = max(_MIN_DETAIL_SHARE * left, min_ps)
        without = set(separate)
        while True:
            calls = (
                call
                for call in self.nodes[path].calls
                if call not in without and self._kept_time(call, without) >= min_kept_ps
            )
            inner = next(calls, None)
            if inner is None:
                return self.nodes[path].type
            path = inner

    def _kept_time(self, path: int, separate: set[int]) -> int:
        """Return the total time of a path, minus that of the calls in `separate`."""
        time, waiting = self.nodes[path].time_ps, [path]
        while separate and waiting:
            for call in self.nodes[waiting.pop()].calls:
                if call in separate:
                    time -= self.nodes[call].time_ps
                else:
                    waiting.append(call)
        return time


def _is_own(name: FunctionName) -> bool:
    """Return whether a function may belong to the program: its file is not a library's.

    A comprehension belongs to the function that contains it.
    """
    if name.function.endswith(COMPREHENSIONS):
        return False
    return name.library is not True and name.file is not None


def _is_part_of_caller(
    path: int, parent_path: Int64s, named: Sequence[FunctionName]
) -> bool:
    """Return whether a path's function is a lambda that runs inside its creator.

    A lambda inside its creator, for example the key of a sort, is part of the creator.
    A lambda that is called outside of its creator is a separate function.
    """
    name = named[path]
    if not name.function.endswith(_LAMBDA):
        return False
    creator = (name.function.removesuffix(_LAMBDA), name.file)
    above = int(parent_path[path])
    while above >= 0:
        if (named[above].function, named[above].file) == creator:
            return True
        above = int(parent_path[above])
    return False


def _paths_around_steps(
    path: Int64s, count: int, runs: tuple[Int64s, Int64s], steps: tuple[Int64s, Int64s]
) -> Bools:
    """Return by path whether one call encloses two whole steps or the only step.

    A long call alone does not identify a loop: a function that runs only in long steps
    is longer than a typical step. Samples also join calls in successive steps if no
    sample between them shows another function. A joined call ends at some step, but a
    loop encloses nearly all steps that it overlaps. A call around a single window may
    begin and end slightly inside it, because the profiler's own first events come
    before the first sample.
    """
    starts, ends = steps
    if not len(starts):
        return np.zeros(count, np.bool_)
    if len(starts) == 1:
        margin = (_MAX_UNCOVERED_SHARE * (ends - starts)).astype(np.int64)
        starts, ends = starts + margin, ends - margin
    around = np.searchsorted(ends, runs[1], side="right")
    around -= np.searchsorted(starts, runs[0], side="left")
    touched = np.searchsorted(starts, runs[1], side="left")
    touched -= np.searchsorted(ends, runs[0], side="right")
    is_around = np.zeros(count, np.bool_)
    np.logical_or.at(is_around, path, around >= min(2, len(starts)))
    enclosed = np.bincount(path, weights=np.maximum(around, 0), minlength=count)
    partly = np.bincount(path, weights=touched, minlength=count)
    # The recording may begin or end within a step, so two partial steps are allowed.
    nearly: Bools = enclosed >= _MIN_ENCLOSED_SHARE * (partly - 2)
    return is_around & nearly


def _number_call_paths(
    frames: FunctionFrames, rows: NDArray[np.intp]
) -> tuple[Int64s, Int64s, Int32s]:
    """Number the call paths.

    Returns:
        The path of each row; for each path, its calling path (-1 for none); and for
        each path, its innermost function.
    """
    position = np.full(len(frames.type), _NONE, np.int64)
    position[rows] = np.arange(len(rows))
    above = frames.parent[rows]
    above = np.where(above >= 0, position[above], _NONE)
    path = np.full(len(rows), _NONE, np.int64)
    parents: list[Int64s] = []
    types: list[Int32s] = []
    count = 0
    level = np.flatnonzero(above < 0)
    children = np.argsort(above, kind="stable")
    begins = np.searchsorted(above[children], np.arange(len(rows)), side="left")
    ends = np.searchsorted(above[children], np.arange(len(rows)), side="right")
    functions = frames.type[rows].astype(np.int64)
    width = int(functions.max(initial=0)) + 1
    while len(level):
        caller = np.where(above[level] >= 0, path[above[level]], _NONE)
        distinct, number = np.unique(
            caller * width + functions[level], return_inverse=True
        )
        path[level] = count + number
        parents.append(distinct // width)
        types.append((distinct % width).astype(np.int32))
        count += len(distinct)
        lengths = ends[level] - begins[level]
        first = np.repeat(begins[level] - np.cumsum(lengths) + lengths, lengths)
        level = children[first + np.arange(int(lengths.sum()))]
    nothing = np.empty(0, np.int64)
    return (
        path,
        np.concatenate([nothing, *parents]),
        np.concatenate([nothing.astype(np.int32), *types]),
    )
