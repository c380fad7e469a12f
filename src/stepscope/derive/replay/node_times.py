"""Replay of a graph: when each node begins, and how long each window then takes.

The module also walks back along the edges that determined the starts, computes the gain
of an edit per step, and checks that a replay without an edit reproduces the measured
steps. A replay that copied the recording would pass this check, so only a few node
starts may be kept as recorded.

Definition: docs/replay.md#identity-first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

import msgspec
import numpy as np

from stepscope._core import launches as kernels
from stepscope.derive.columns.arrays import accepted_answer
from stepscope.derive.replay.nodes import (
    NEVER,
    EdgeKind,
    NodeKind,
    joint_edit,
    unchanged_edit,
)
from stepscope.frozen import Frozen
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from stepscope.array_types import Bools, Int32s, Int64s
    from stepscope.derive.replay.nodes import Edit, Graph

#: Maximum share of the critical path, in percent, that may be recorded delays.
_MAX_KEPT_PERCENT_OF_PATH: Final = 10.0


class Gain(Frozen, frozen=True):
    """Time by which a step would become shorter, in ps per step.

    Attributes:
        low_ps: The smaller gain of the replays with and without slack.
        floor_ps: Lower bound of the step time: the remaining work of the busiest track.
        kept_percent: Share of the critical path after the edit that consists of
            unexplained recorded delays.
    """

    low_ps: float
    high_ps: float
    by_window_ps: tuple[Int64s, Int64s]
    period_ps: float
    floor_ps: float
    kept_percent: float

    @property
    def is_reportable(self) -> bool:
        """Whether the graph explains enough of the path to report a gain."""
        return self.kept_percent <= _MAX_KEPT_PERCENT_OF_PATH


#: Values of `PathPieces.edge` if the piece is a node, or if nothing explains it.
NODE: Final = -1
NOTHING: Final = -2
#: Kinds of the intervals passed while walking back: until a node's end, then until its
#: start, then until its edge was ready (0 stands for that edge).
_STEPS: Final = (NOTHING, NODE, 0)
_LATEST: Final = np.iinfo(np.int64).max
#: Whether nodes keep their recorded delay beyond what their edges require.
Slack = Literal["kept", "dropped"]
SLACKS: Final[tuple[Slack, ...]] = ("kept", "dropped")


class Replayed(Frozen, frozen=True):
    """The result of one replay of a graph.

    Attributes:
        via: By node: the edge that determined its start; -1 for none.
        bounds_ps: When each bound of the windows is reached: all work due by then is
            done, and the node that begins at the bound has begun.
    """

    start_ps: Int64s
    dur_ps: Int64s
    via: Int32s
    bounds_ps: Int64s


class PathPieces(Frozen, frozen=True):
    """Pieces of a path, latest first.

    Attributes:
        node: The node of a piece; if the piece is a lag, the node that follows it.
        edge: The edge of a lag; `NODE` for a node itself; `NOTHING` if unexplained.
    """

    node: Int64s
    edge: Int64s
    start_ps: Int64s
    end_ps: Int64s


class BackWalk:
    """Walks back through one replay."""

    def __init__(self, graph: Graph, run: Replayed) -> None:
        self._graph, self._run = graph, run
        # Following links from node to node is faster in lists than in arrays.
        led = run.via >= 0
        before = np.full(len(led), -1, np.int64)
        before[led] = graph.edges.source[run.via[led]]
        self._start, self._before = run.start_ps.tolist(), before.tolist()

    def walk_back(self, *, last: int, first_ps: int, last_ps: int) -> PathPieces:
        """Walk back from a bound along the edges that determined the starts.

        Args:
            last: Number of the bound from which to walk back.
        """
        edges, run = self._graph.edges, self._run
        node, via, ran = self._path_nodes(last, first_ps)
        begin = run.start_ps[node]
        # Each entry is a time: the end or start of a node, or when the node's edge was
        # ready. An entry that is not earlier than all previous entries is skipped.
        steps = np.full((len(node), len(_STEPS)), _LATEST, np.int64)
        steps[ran, 0] = (begin + run.dur_ps[node])[ran]
        steps[ran, 1] = begin[ran]
        led = np.flatnonzero(via >= 0)
        source = edges.source[via[led]]
        waited = np.where(edges.from_start[via[led]], 0, run.dur_ps[source])
        steps[led, 2] = run.start_ps[source] + waited
        reached = np.minimum.accumulate(np.append(np.int64(last_ps), steps.ravel()))
        if int(reached[-1]) > first_ps:
            reached = np.append(reached, first_ps)
            last_node = int(node[-1]) if len(node) else 0
            node, via = np.append(node, last_node), np.append(via, NOTHING)
        kind = np.repeat(via, len(_STEPS)).reshape(-1, len(_STEPS))
        kind[:, :2] = _STEPS[:2]
        every = slice(0, len(reached) - 1)
        start, end = np.maximum(reached[1:], first_ps), reached[:-1]
        nonempty = start < end
        return PathPieces(
            np.repeat(node, len(_STEPS))[every][nonempty],
            kind.ravel()[every][nonempty],
            start[nonempty],
            end[nonempty],
        )

    def _path_nodes(self, last: int, first_ps: int) -> tuple[Int64s, Int64s, Bools]:
        when = int(self._run.bounds_ps[last])
        last_node = int(self._graph.boundary[last])
        from_start = last_node >= 0 and int(self._run.start_ps[last_node]) == when
        if from_start:
            node = last_node
        else:
            ends = self._run.start_ps + self._run.dur_ps
            ended = np.flatnonzero((self._graph.completes <= last) & (ends == when))
            node = int(ended[-1]) if len(ended) else -1
        start, before = self._start, self._before
        path = []
        while node >= 0:
            path.append(node)
            if start[node] <= first_ps:
                break
            node = before[node]
        nodes = np.array(path, np.int64)
        edges = self._run.via[nodes].astype(np.int64)
        from_starts = self._graph.edges.from_start[edges[:-1]].astype(np.bool_)
        ran = ~np.append(np.full(min(len(nodes), 1), from_start), from_starts)
        return nodes, edges, ran


#: Maximum error of the replayed lengths of windows, in percent: median and percentile.
_MAX_MEDIAN_ERROR_PERCENT: Final = 1.0
_MAX_P95_ERROR_PERCENT: Final = 3.0
#: Maximum share of node starts that are kept as recorded, in percent.
_MAX_KEPT_PERCENT: Final = 10.0
_ERROR_PERCENTILE: Final = 95


class Identity(Frozen, frozen=True):
    """How well a replay without an edit reproduces the recording.

    Attributes:
        median_error_percent: Median error of the replayed length of a window.
        unexplained_percent: Share of the starts that can be delayed and that no edge
            explains; they are kept as recorded.
    """

    windows: int
    median_error_percent: float
    p95_error_percent: float
    unexplained_percent: float
    starts: int

    @property
    def stands(self) -> bool:
        """Whether edits may be replayed on this graph."""
        return (
            self.median_error_percent <= _MAX_MEDIAN_ERROR_PERCENT
            and self.p95_error_percent <= _MAX_P95_ERROR_PERCENT
            and self.unexplained_percent <= _MAX_KEPT_PERCENT
        )

    @property
    def why_not(self) -> Unavailable | None:
        """Reason why gains of edits are unknown; None if edits may be replayed."""
        if self.stands:
            return None
        return Unavailable(
            code="NOT_RECORDED",
            reason="The gain is unknown (graph incomplete): a replay without a change "
            f"misses the step time by {self.median_error_percent:.1f} % at the median "
            f"({self.p95_error_percent:.1f} % at the 95th percentile), and "
            f"{self.unexplained_percent:.0f} % of {self.starts:,} starts have no "
            "recorded reason.",
            remedy="Read the range as a limit that follows from the account.",
        )


def replay_check(*, step_graph: Graph) -> Identity:
    """Replay the windows without an edit, and compare them with the recording."""
    run = replay_graph(step_graph, slack="dropped")
    recorded = reached_bounds(step_graph, step_graph.nodes.start_ps, step_graph.end_ps)
    chosen = step_graph.sampled
    reached = (run.bounds_ps > NEVER) & (recorded > NEVER)
    # A window bound that no node of the graph reaches keeps its recorded time.
    bounds = np.where(
        reached, chosen.bounds_ps + (run.bounds_ps - recorded), chosen.bounds_ps
    )
    measured = np.diff(chosen.bounds_ps)
    errors: NDArray[np.float64] = 100 * np.abs(np.diff(bounds) - measured) / measured
    return Identity(
        windows=chosen.count,
        median_error_percent=float(np.median(errors)),
        p95_error_percent=float(np.percentile(errors, _ERROR_PERCENTILE)),
        unexplained_percent=100 * step_graph.unexplained_share,
        starts=int((step_graph.may_wait & step_graph.measured).sum()),
    )


def replay_graph(graph: Graph, edit: Edit | None = None, *, slack: Slack) -> Replayed:
    """Compute the start of every node, as early as its edges allow.

    Args:
        edit: The edit to apply; None for no edit.
        slack: "kept": every node keeps its recorded delay, and objects from outside
            arrive as recorded. "dropped": only unexplained starts keep their delay.
    """
    edit = edit or unchanged_edit(graph)
    dur = edit.dur_ps
    not_before = graph.not_before_ps.copy()
    delay = edit.max_delay_ps
    if slack == "dropped":
        delay = np.where(graph.kept, delay, 0)
    else:
        rows = np.flatnonzero(edit.comes)
        not_before[rows] = np.maximum(
            not_before[rows], graph.nodes.start_ps[rows] - graph.slack_ps[rows]
        )
    start, via = np.empty(graph.count, np.int64), np.empty(graph.count, np.int32)
    accepted_answer(
        kernels.schedule_nodes(
            graph.order,
            graph.begin,
            graph.edges.source,
            np.ascontiguousarray(edit.from_start),
            np.ascontiguousarray(edit.lag_ps),
            not_before,
            np.ascontiguousarray(delay),
            np.ascontiguousarray(dur),
            start,
            via,
        )
    )
    return Replayed(start, dur, via, reached_bounds(graph, start, start + dur))


def reached_bounds(graph: Graph, start_ps: Int64s, end_ps: Int64s) -> Int64s:
    """Return when each bound of the windows is reached, in ps."""
    reached = np.full(len(graph.boundary) + 1, NEVER, np.int64)
    np.maximum.at(reached, graph.completes, end_ps)
    known = graph.boundary >= 0
    rows = np.flatnonzero(known)
    reached[rows] = np.maximum(reached[rows], start_ps[graph.boundary[known]])
    # Work that is done at one bound is also done at the next bound.
    return np.maximum.accumulate(reached[:-1])


def window_paths(graph: Graph, run: Replayed) -> Iterator[PathPieces]:
    """Yield the critical path of each window after a replay."""
    walk = BackWalk(graph, run)
    for number in range(graph.sampled.count):
        first, last = int(run.bounds_ps[number]), int(run.bounds_ps[number + 1])
        yield walk.walk_back(last=number + 1, first_ps=first, last_ps=last)


def kept_share(graph: Graph, run: Replayed) -> float:
    """Return the share of unexplained recorded delays in the critical path."""
    kept = total_ps = 0
    for path in window_paths(graph, run):
        time = path.end_ps - path.start_ps
        delayed = (path.edge >= 0) & graph.kept[path.node]
        kept += int(time[delayed | (path.edge == NOTHING)].sum())
        total_ps += int(time.sum())
    return kept / total_ps if total_ps > 0 else 0.0


def replayed_gain(graph: Graph, edit: Edit) -> Gain:
    """Return the gain of an edit, replayed both with slack and without slack.

    The gain is at most the time per step minus `largest_floor_ps`.
    """
    chosen = graph.sampled
    period = (chosen.last_ps - chosen.first_ps) / chosen.count
    floor = largest_floor_ps(graph, edit)
    limit = max(period - floor, 0.0)
    gains, by_window = [], []
    for slack in SLACKS:
        before = replay_graph(graph, slack=slack).bounds_ps
        after = replay_graph(graph, edit, slack=slack)
        gains.append(float(before[-1] - after.bounds_ps[-1]) / chosen.count)
        by_window.append(np.diff(before) - np.diff(after.bounds_ps))
    low, high = sorted(min(max(gain, 0.0), limit) for gain in gains)
    return Gain(
        low_ps=low,
        high_ps=high,
        by_window_ps=(by_window[0], by_window[1]),
        period_ps=period,
        floor_ps=floor,
        kept_percent=100 * kept_share(graph, after),
    )


def joint_gain(graph: Graph, edits: Sequence[Edit]) -> Gain:
    """Return the gain of several edits together: at most the sum of the single gains.

    A gain that only two edits together achieve does not count, for example if each edit
    alone leaves another path of equal length.
    """
    singles = [replayed_gain(graph, edit) for edit in edits]
    joint = replayed_gain(graph, joint_edit(graph, edits))
    return msgspec.structs.replace(
        joint,
        low_ps=min(joint.low_ps, sum(gain.low_ps for gain in singles)),
        high_ps=min(joint.high_ps, sum(gain.high_ps for gain in singles)),
    )


def largest_floor_ps(graph: Graph, edit: Edit) -> float:
    """Return the work per step that remains on the busiest track after an edit.

    A stream or thread needs at least the sum of its activities or pieces. Activities
    that no longer delay their stream are summed separately.
    """
    nodes, edges = graph.nodes, graph.edges
    separate = np.zeros(graph.count, np.bool_)
    moved = (edges.kind == EdgeKind.STREAM) & (edit.from_start > edges.from_start)
    separate[edges.source[moved]] = True
    # Work after the end of the last window does not count.
    left = np.maximum(graph.sampled.last_ps - nodes.start_ps, 0)
    cut = np.minimum(edit.dur_ps, left).astype(np.float64)
    cut[~graph.measured | (nodes.kind == NodeKind.OUTSIDE)] = 0
    sums = [
        np.bincount(nodes.track[chosen], weights=cut[chosen], minlength=1).max()
        for chosen in (separate, ~separate)
    ]
    return float(max(sums)) / graph.sampled.count
