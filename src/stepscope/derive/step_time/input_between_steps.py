"""`input_between_steps`: whether the next batch is fetched outside the step markers.

If markers do not cover the batch fetch, the time of the fetch belongs to no step.

Definition: docs/how-steps-are-found.md#the-batch-fetched-outside-the-marker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.derive.columns.arrays import ints, is_present
from stepscope.frozen import Frozen

if TYPE_CHECKING:
    from stepscope.derive.step_time.host_classes import HostClasses
    from stepscope.derive.steps.chosen import Steps

#: Minimum share of gaps with an input wait for a fetch that is outside the markers.
_MIN_GAPS_WITH_WAIT: Final = 0.5


class InputBetweenSteps(Frozen, frozen=True, eq=True):
    """How often a step thread waits for input inside the step markers and between them.

    Attributes:
        gaps: Number of gaps between markers that last longer than 0.
        gaps_with_wait: Number of gaps in which a step thread waited for input.
        markers_with_wait: Number of markers in which a step thread waited for input.
        covered_ps: Time from the first marker's start to the last marker's end.
    """

    gaps: int
    gaps_with_wait: int
    markers_with_wait: int
    wait_ps: int
    covered_ps: int

    @property
    def outside(self) -> bool:
        """Whether the program fetches its batches outside the markers."""
        return (
            self.gaps > 0
            and self.markers_with_wait == 0
            and self.gaps_with_wait >= _MIN_GAPS_WITH_WAIT * self.gaps
        )


def input_between_steps(
    *, steps: Steps, host_classes: HostClasses
) -> InputBetweenSteps | None:
    """Count waits inside and between markers; None if the steps have no markers."""
    marked = steps.rows.filter(is_present(steps.rows, "end_ps"))
    if steps.source != "marker" or not len(marked):
        return None
    start, end = ints(marked, "start_ps"), ints(marked, "end_ps")
    reach = np.maximum.accumulate(end)
    opens = reach[:-1] < start[1:]
    gap_start, gap_end = reach[:-1][opens], start[1:][opens]
    wait = host_classes.input_wait
    in_gaps = wait.within(gap_start, gap_end)
    return InputBetweenSteps(
        gaps=len(gap_start),
        gaps_with_wait=int((in_gaps > 0).sum()),
        markers_with_wait=int((wait.within(start, end) > 0).sum()),
        wait_ps=int(in_gaps.sum()),
        covered_ps=int(reach[-1] - start[0]),
    )
