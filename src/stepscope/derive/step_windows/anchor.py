"""Where steps begin for who watches them: on the host, or on the device behind it.

A host that runs ahead announces a step long before its work begins. Windows then begin
with the first kernel of each step on the stream that computes most; not with its first
activity, for a batch is copied early by design.

Definition: docs/how-steps-are-found.md#windows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.derive.columns.arrays import codes, handles, ints
from stepscope.derive.columns.dense_codes import totals_by
from stepscope.frozen import Frozen
from stepscope.trace.device_activity import ACTIVITY_KINDS

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray

    from stepscope.derive.device.correlation import Correlation
    from stepscope.derive.steps.chosen import Steps

__all__ = ["StepKernels", "anchor_of", "step_kernels", "work_starts"]

#: The host runs ahead if this share of the steps has kernels on the stream, …
_DEVICE_STEPS: Final = 0.8
#: … and in more than this share of the steps that have a successor …
_RUN_AHEAD: Final = 0.5
#: … they run past the successor's begin by more than this share of the step.
_PAST_THE_END: Final = 0.05
#: Fewer launches that ran late may as well be assigned to a wrong step.
_LEAST_LAUNCHES: Final = 2


class StepKernels(Frozen, frozen=True):
    """What the steps ran on the stream that computes most, of the busiest device.

    Without a device, what they ran on threads that execute compiled programs.

    Attributes:
        side: `device` or `executor`.
        first_ps: By row of steps, begin of the first kernel; 0 where there is none.
        last_ps: By row of steps, end of the last kernel; 0 where there is none.
        launches: By row of steps, number of launch calls that the kernels came from;
            of kernels whose calls were not recorded, number of kernels. Of an
            executor, number of instructions.
    """

    side: str
    first_ps: NDArray[np.int64]
    last_ps: NDArray[np.int64]
    launches: NDArray[np.int64]

    @property
    def any(self) -> NDArray[np.bool_]:
        """Return True for the steps that have a kernel there."""
        found: NDArray[np.bool_] = self.launches > 0
        return found


def step_kernels(
    steps: int,
    activity_steps: NDArray[np.int32] | None,
    device_activity: pl.DataFrame | None,
    correlation: Correlation | None,
) -> StepKernels:
    """Read the kernels of each step on the stream with most kernel time.

    Args:
        steps: Number of steps.
        activity_steps: Step of each activity; None if unknown.
        device_activity: All activity; None if there is none.
        correlation: Launch call of each activity; None if unknown.
    """
    none = np.zeros(steps, np.int64)
    if activity_steps is None or device_activity is None:
        return StepKernels("device", none, none, none)
    row = _busiest_stream(device_activity, activity_steps)
    if not len(row):
        return StepKernels("device", none, none, none)
    step = activity_steps[row]
    start = ints(device_activity, "start_ps")[row]
    end = start + ints(device_activity, "dur_ps")[row]
    begins = totals_by(step, start, count=steps)
    ends = totals_by(step, end, count=steps)
    used = begins.count > 0
    return StepKernels(
        "device",
        np.where(used, begins.least, 0),
        np.where(used, ends.greatest, 0),
        _launches(step, row, correlation, steps),
    )


def anchor_of(steps: Steps, kernels: StepKernels) -> str:
    """Return `device` where the boundaries are device times, else who is behind.

    That is the side that still works on a step when the host began the next one; if
    none is, the `host` itself.
    """
    if steps.on_device:
        return "device"
    host = ints(steps.rows, "start_ps")
    busy = kernels.any
    if len(host) < 2 or busy.mean() < _DEVICE_STEPS:
        return "host"
    past = kernels.last_ps[:-1] - host[1:]
    late = busy[:-1] & (past > _PAST_THE_END * np.diff(host))
    proven = int(kernels.launches[:-1][late].sum()) >= _LEAST_LAUNCHES
    return kernels.side if proven and late.mean() > _RUN_AHEAD else "host"


def work_starts(kernels: StepKernels) -> NDArray[np.int64]:
    """Return the first kernel of each step, as begins that never go back.

    A step without a kernel takes no device time: its window is empty and lies at the
    begin of the next one, or after all work if none follows.
    """
    highest = np.iinfo(np.int64).max
    own = np.where(kernels.any, kernels.first_ps, highest)
    following = np.minimum.accumulate(own[::-1])[::-1]
    begins = np.where(kernels.any, own, following)
    begins = np.where(begins == highest, kernels.last_ps.max(), begins)
    found: NDArray[np.int64] = np.maximum.accumulate(begins)
    return found


def _busiest_stream(
    device_activity: pl.DataFrame, activity_steps: NDArray[np.int32]
) -> NDArray[np.int64]:
    """Return rows of the steps' kernels on one stream of the busiest device."""
    is_kernel = codes(device_activity, "kind") == (
        ACTIVITY_KINDS.categories.to_list().index("kernel")
    )
    row = np.flatnonzero(is_kernel & (activity_steps >= 0))
    for column in ("device", "track"):
        if not len(row):
            break
        place = handles(device_activity, column)[row]
        # One more for each, so that kernels without length beat no kernel.
        busy = np.bincount(place, weights=ints(device_activity, "dur_ps")[row] + 1)
        row = row[place == int(np.argmax(busy))]
    return row


def _launches(
    step: NDArray[np.int32],
    row: NDArray[np.int64],
    correlation: Correlation | None,
    steps: int,
) -> NDArray[np.int64]:
    """Count the distinct launch calls of each step's kernels."""
    if correlation is None:
        return np.bincount(step, minlength=steps)
    launch = correlation.launch_of_activity[row]
    called = launch >= 0
    mine, of = step[called], launch[called]
    owner = np.full(len(correlation.activity_count_of_launch), -1, step.dtype)
    owner[of] = mine
    # Nearly every call belongs to one step; only the others are worth sorting.
    other = mine != owner[of]
    extra = np.unique(np.stack([mine[other], of[other]]), axis=1)[0]
    return (
        np.bincount(owner[owner >= 0], minlength=steps)
        + np.bincount(extra, minlength=steps)
        + np.bincount(step[~called], minlength=steps)
    )
