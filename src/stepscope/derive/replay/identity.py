"""`replay_check`: whether a replay that changes nothing gives the measured steps.

A replay that copies the recording would pass any such test; so the starts that it keeps
as recorded are counted, and may be few.

Definition: docs/replay.md#identity-first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.derive.replay.nodes import NEVER
from stepscope.derive.replay.replayed import bounds_of, kept_share, replayed
from stepscope.frozen import Frozen
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.derive.replay.nodes import Graph

#: How far the replayed periods may be from the measured ones, in percent.
_MEDIAN_PERCENT: Final = 1.0
_P95_PERCENT: Final = 3.0
#: The share of starts that may be kept as recorded, in percent.
_KEPT_PERCENT: Final = 10.0
_HIGH: Final = 95


class Identity(Frozen, frozen=True):
    """How well a replay without a change repeats the recording.

    Attributes:
        windows: Number of windows that were replayed.
        median_error_percent: Median deviation of a window's period from the measured.
        p95_error_percent: Their 95th percentile.
        unexplained_percent: Share of the starts that could have been held back for
            which no edge accounts; these are kept as recorded.
        starts: Number of these starts.
        kept_percent: Share of the critical path that consists of delays kept so.
    """

    windows: int
    median_error_percent: float
    p95_error_percent: float
    unexplained_percent: float
    starts: int
    kept_percent: float

    @property
    def stands(self) -> bool:
        """Whether claims may be replayed on this graph."""
        return (
            self.median_error_percent <= _MEDIAN_PERCENT
            and self.p95_error_percent <= _P95_PERCENT
            and self.unexplained_percent <= _KEPT_PERCENT
        )

    @property
    def why_not(self) -> Unavailable | None:
        """Return why no gain can be told; None where it can."""
        if self.stands:
            return None
        return Unavailable(
            code="NOT_RECORDED",
            reason="The gain cannot be told (graph incomplete): replayed without a "
            f"change, a step misses its time by {self.median_error_percent:.1f} % "
            f"(95 of 100 by at most {self.p95_error_percent:.1f} %), and "
            f"{self.unexplained_percent:.0f} % of {self.starts:,} starts have no "
            "recorded reason.",
            remedy="Take the range as a limit that follows from the account.",
        )


def replay_check(*, step_graph: Graph) -> Identity:
    """Replay the windows without a change and compare.

    Definition: docs/replay.md#identity-first.

    Args:
        step_graph: The graph of some windows.
    """
    run = replayed(step_graph, slack="dropped")
    recorded = bounds_of(step_graph, step_graph.nodes.start_ps, step_graph.end_ps)
    chosen = step_graph.sampled
    reached = (run.bounds_ps > NEVER) & (recorded > NEVER)
    # A bound that nothing of the graph marks is one where nothing can have moved.
    bounds = np.where(
        reached, chosen.bounds_ps + (run.bounds_ps - recorded), chosen.bounds_ps
    )
    errors = _errors(bounds, chosen.bounds_ps)
    counted = step_graph.may_wait & step_graph.measured
    return Identity(
        windows=chosen.count,
        median_error_percent=float(np.median(errors)),
        p95_error_percent=float(np.percentile(errors, _HIGH)),
        unexplained_percent=100 * step_graph.unexplained_share,
        starts=int(counted.sum()),
        kept_percent=100 * kept_share(step_graph, run),
    )


def _errors(
    bounds_ps: NDArray[np.int64], measured_ps: NDArray[np.int64]
) -> NDArray[np.float64]:
    measured = np.diff(measured_ps)
    found: NDArray[np.float64] = 100 * np.abs(np.diff(bounds_ps) - measured) / measured
    return found
