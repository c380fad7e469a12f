"""What steps become without some of their work, or with the work elsewhere.

Each function takes the recorded steps in milliseconds and the part of each step that a
finding is about. The assumptions:

- `remove_work`: the rest of each step stays as it is; it gains nothing, as the work's
  use of caches, memory and cores is unknown. The scatter of the rest is the doubt.
- `do_work_rarely`: a step with the work stays as it is; of `every` steps that have it,
  one keeps it.
- `bound_step`: nobody knows how fast the replacement is. Only a lower bound.
- `overlap_work`: the work runs one step ahead on another thread or process, as a
  producer in a queue: `max(R, C)` for a rest R and work C, and more if both want the
  same cores or the interpreter's lock. What the work needs while it runs is known from
  the clocks of threads, else all cases between waiting and computing are possible.
- `pause_in_background`: of a pause every few steps, such as a checkpoint, a copy in
  memory stays in the step; the rest runs next to the steps until the following pause.
  The copy is unknown: between nothing and half of the pause, because what is written is
  copied at least once more, and then goes to a disk.
- `replayed_step`: the dependency graph without the lost time decides; the doubt is the
  range of the replay's gains over the windows and slacks, and the scatter of the rest.

Definition: docs/predictions.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.derive.predictions.input_queue import InputTimes, Work, predict_queue
from stepscope.derive.predictions.step_times import (
    StepTime,
    half_width,
    mean_of_other_steps,
    span_of_cases,
)
from stepscope.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


#: Maximum share of a pause for a checkpoint in which its state is copied in memory.
_MAX_COPIED_SHARE: Final = 0.5


class DividedSteps(Frozen, frozen=True):
    """Recorded steps, and the part of each that a finding is about, in milliseconds.

    Attributes:
        rest_ms: Each step without the work; at least three steps.
        work_ms: The work in each step.
    """

    rest_ms: Floats
    work_ms: Floats


def has_rare_work(steps: DividedSteps) -> bool:
    """Return whether at most half of the steps have the work."""
    return 2 * int(np.count_nonzero(steps.work_ms)) <= len(steps.work_ms)


def remove_work(steps: DividedSteps) -> StepTime:
    """Return the step without its work."""
    return mean_of_other_steps(steps.rest_ms)


def do_work_rarely(steps: DividedSteps, *, every: int) -> StepTime:
    """Return the step that does its work in one of `every` times it does it now."""
    kept_ms = float(steps.work_ms.mean()) / every
    return mean_of_other_steps(steps.rest_ms + kept_ms)


def bound_step(steps: DividedSteps) -> StepTime:
    """Return the lower bound of the step with faster work."""
    return StepTime(low=remove_work(steps).low)


def overlap_work(
    steps: DividedSteps,
    *,
    cores: float | None,
    working: Sequence[Work],
    stepping: Work,
) -> StepTime:
    """Return the step whose work runs one step ahead, next to the step.

    Args:
        cores: Number of cores that the program can get; None if unknown.
        working: What the work may need; the recording does not decide between several.
        stepping: What the rest of the step needs.
    """
    work_ms = steps.work_ms
    if has_rare_work(steps):
        # Rare work is hidden behind all steps until it comes again.
        work_ms = np.full(len(work_ms), work_ms.mean())
    cases = [
        predict_queue(
            InputTimes(work_ms.tolist(), steps.rest_ms.tolist(), cores, need, stepping),
            (1,),
        )[1]
        for need in working
    ]
    return span_of_cases(cases)


def pause_in_background(steps: DividedSteps) -> StepTime:
    """Return the step whose pauses end once the paused state is copied."""
    cases = []
    for copied_share in (0.0, _MAX_COPIED_SHARE):
        busy_ms = steps.rest_ms + steps.work_ms * copied_share
        # Writing that lasts longer than the steps until the next pause delays it.
        late_ms = max(float(steps.work_ms.mean() - busy_ms.mean()), 0.0)
        cases.append(mean_of_other_steps(busy_ms + late_ms))
    return span_of_cases(cases)


def replayed_step(steps: DividedSteps, *, gain_ms: tuple[float, float]) -> StepTime:
    """Return the step that a replay shortens by a gain, from its least to its most."""
    mean_ms = float((steps.rest_ms + steps.work_ms).mean())
    doubt_ms = half_width(steps.rest_ms)
    least_ms, most_ms = gain_ms
    return StepTime(
        low=max(mean_ms - most_ms - doubt_ms, 0.0),
        mid=mean_ms - (least_ms + most_ms) / 2,
        high=mean_ms - least_ms + doubt_ms,
    )
