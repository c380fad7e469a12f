"""What a claim gains per step: a range, with the limits that hold it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np

from stepscope.derive.replay.claims import joint
from stepscope.derive.replay.nodes import EdgeKind, NodeKind
from stepscope.derive.replay.replayed import SLACKS, kept_share, replayed
from stepscope.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from stepscope.derive.replay.claims import Edit
    from stepscope.derive.replay.nodes import Graph

#: The share of the path that may be kept as recorded, in percent.
_KEPT_PERCENT: Final = 10.0


class Gain(Frozen, frozen=True):
    """What a step would take less, in ps per step.

    Attributes:
        low_ps: With all slack kept, or without; whichever gains less.
        high_ps: The other one.
        by_window_ps: What each window gains, in both ways.
        period_ps: Mean of the measured windows.
        floor_ps: What no replay goes below: the work that the busiest track has left.
        kept_percent: Share of the critical path, once the claim is carried out, that
            only recorded delays without a reason account for.
    """

    low_ps: float
    high_ps: float
    by_window_ps: tuple[NDArray[np.int64], NDArray[np.int64]]
    period_ps: float
    floor_ps: float
    kept_percent: float

    @property
    def can_be_told(self) -> bool:
        """Whether what holds the step back afterwards is in the graph."""
        return self.kept_percent <= _KEPT_PERCENT


def gain_of(graph: Graph, edit: Edit) -> Gain:
    """Replay a claim with the slack of every start, and without it.

    With slack, every start is as much later than its edges ask for as it was recorded,
    and what came from outside comes when it came. Without, nodes begin as soon as
    their edges allow. Nothing gains more than the period less the largest floor.
    """
    chosen = graph.sampled
    period = (chosen.last_ps - chosen.first_ps) / chosen.count
    floor = largest_floor_ps(graph, edit)
    most = max(period - floor, 0.0)
    found, by_window = [], []
    for slack in SLACKS:
        before = replayed(graph, slack=slack).bounds_ps
        after = replayed(graph, edit, slack=slack)
        found.append(float(before[-1] - after.bounds_ps[-1]) / chosen.count)
        by_window.append(np.diff(before) - np.diff(after.bounds_ps))
    low, high = sorted(min(max(it, 0.0), most) for it in found)
    return Gain(
        low_ps=low,
        high_ps=high,
        by_window_ps=(by_window[0], by_window[1]),
        period_ps=period,
        floor_ps=floor,
        kept_percent=100 * kept_share(graph, after),
    )


def joint_gain(graph: Graph, edits: Sequence[Edit]) -> Gain:
    """Return what several claims gain together: at most the sum of each alone.

    What two changes gain only together (each alone leaves a path of equal length) is
    not promised.
    """
    singles = [gain_of(graph, edit) for edit in edits]
    found = gain_of(graph, joint(graph, edits))
    return msgspec.structs.replace(
        found,
        low_ps=min(found.low_ps, sum(one.low_ps for one in singles)),
        high_ps=min(found.high_ps, sum(one.high_ps for one in singles)),
    )


def largest_floor_ps(graph: Graph, edit: Edit) -> float:
    """Return the work per step of the track that has most of it after a claim.

    A stream cannot do its activities, nor a thread its pieces, in less than their sum;
    what no longer holds up its stream counts by itself.
    """
    nodes, edges = graph.nodes, graph.edges
    apart = np.zeros(graph.count, np.bool_)
    moved = (edges.kind == EdgeKind.STREAM) & (edit.from_start > edges.from_start)
    apart[edges.source[moved]] = True
    # What reaches beyond the last window is not all work of these windows.
    left = np.maximum(graph.sampled.last_ps - nodes.start_ps, 0)
    cut = np.minimum(edit.dur_ps, left).astype(np.float64)
    cut[~graph.measured | (nodes.kind == NodeKind.OUTSIDE)] = 0
    sums = [
        np.bincount(nodes.track[chosen], weights=cut[chosen], minlength=1).max()
        for chosen in (apart, ~apart)
    ]
    return float(max(sums)) / graph.sampled.count
