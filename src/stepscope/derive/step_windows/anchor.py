"""Where steps begin for who watches them: on the host, or where their work runs.

A host that runs ahead announces a step long before its work begins. Windows then begin
with the first kernel of each step on the stream that computes most; not with its first
activity, for a batch is copied early by design.

A framework may hand compiled programs to threads of its own and return at once. A
marker around the call then shows how long it takes to ask for a step, not how long the
step takes.

Definition: docs/how-steps-are-found.md#windows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope._core import launches as kernels
from stepscope.derive.columns.arrays import codes, handles, ints
from stepscope.derive.columns.dense_codes import hulls_by, totals_by
from stepscope.derive.steps.periods import LEAST_STEPS
from stepscope.frozen import Frozen
from stepscope.trace.tables import ACTIVITY_KINDS

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray

    from stepscope.derive.device.correlation import Correlation
    from stepscope.derive.sequences import SymbolSequence
    from stepscope.derive.steps.chosen import Steps

#: The host runs ahead if this share of the steps has kernels on the stream, …
_DEVICE_STEPS: Final = 0.8
#: … and in more than this share of the steps that have a successor …
_RUN_AHEAD: Final = 0.5
#: … they run past the successor's begin by more than this share of the step.
_PAST_THE_END: Final = 0.05
#: Fewer launches that ran late may as well be assigned to a wrong step.
_LEAST_LAUNCHES: Final = 2

#: Room for the kernels whose launch call also launched for another step.
_USUAL_SPILLS: Final = 1024


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


#: Markers only show the calls if this share of the work lies behind all of them.
_BEHIND: Final = 0.5
#: Instructions count the steps only if so much of the work ran equally often.
_EQUAL: Final = 0.9


def step_instructions(steps: Steps, instructions: SymbolSequence) -> StepKernels | None:
    """Return when the executor ran each step; None where that cannot be told.

    An instruction that ran once per step, or once less because the recording ended,
    counts the steps; the one that comes first begins them. It cannot begin before its
    step was asked for.
    """
    host = ints(steps.rows, "start_ps")
    n = len(host)
    if n < LEAST_STEPS:
        return None
    for runs in (n, n - 1):
        symbols = np.flatnonzero(instructions.counts == runs)
        if not len(symbols) or not _repeat(instructions, runs):
            continue
        places = min(instructions.occurrences(symbols), key=lambda at: int(at[0]))
        first = instructions.at_ps[places]
        if (first < host[:runs]).any():
            return None
        # When the last instruction of each stretch of the sequence ended.
        # An entry's end is its successor's begin less the pause between them.
        begin_ps, gap = instructions.at_ps, instructions.gap_ps
        free_from = np.append(begin_ps[1:] - gap[1:], instructions.end_ps)
        after = np.append(places[1:], len(instructions))
        last: NDArray[np.int64] = free_from[after - 1]
        count = np.diff(np.append(places, len(instructions)))
        missing = (0, n - runs)
        return StepKernels(
            "executor",
            *(np.pad(each, missing) for each in (first, last, count)),
        )
    return None


def only_dispatched(steps: Steps, instructions: SymbolSequence | None) -> bool:
    """Return whether most of the work ran behind the last step's marker."""
    ends = steps.rows["end_ps"]
    if instructions is None or ends.null_count() or len(ends) < 2:
        return False
    weight = instructions.weight
    behind = instructions.at_ps >= int(ints(steps.rows, "end_ps").max())
    return float(weight[behind].sum()) > _BEHIND * float(weight.sum())


def _repeat(instructions: SymbolSequence, runs: int) -> bool:
    """Return whether nearly all work ran so often, or a multiple of it.

    What the end of the recording cut off may be missing once.
    """
    often = instructions.counts[instructions.symbol]
    whole = (often % runs == 0) | (often % (runs + 1) == 0)
    weight = instructions.weight
    return float(weight[whole].sum()) >= _EQUAL * float(weight.sum())


def step_kernels(
    steps: int,
    activity_steps: NDArray[np.int32] | None,
    device_activity: pl.DataFrame | None,
    correlation: Correlation | None,
) -> StepKernels:
    """Read the kernels of each step on the stream with most kernel time.

    Args:
        activity_steps: Step of each activity; None if unknown.
        device_activity: All activity; None if there is none.
        correlation: Launch call of each activity; None if unknown.
    """
    none = np.zeros(steps, np.int64)
    if activity_steps is None or device_activity is None:
        return StepKernels("device", none, none, none)
    # The step of kernels on one stream of the busiest device; -1 elsewhere.
    is_kernel = codes(device_activity, "kind") == (
        ACTIVITY_KINDS.categories.to_list().index("kernel")
    )
    chosen = is_kernel & (activity_steps >= 0)
    for column in ("device", "track") if chosen.any() else ():
        place = handles(device_activity, column)
        found = totals_by(
            place,
            ints(device_activity, "dur_ps"),
            count=int(place.max()) + 1,
            where=chosen,
        )
        # One more for each, so that kernels without length beat no kernel.
        chosen &= place == int(np.argmax(found.total + found.count))
    step = np.where(chosen, activity_steps, np.int32(-1))
    hulls = hulls_by(
        step,
        ints(device_activity, "start_ps"),
        ints(device_activity, "dur_ps"),
        count=steps,
    )
    launches = hulls.count
    if correlation is not None:
        launches = _launches(step, correlation, steps)
    return StepKernels("device", hulls.first_ps, hulls.last_ps, launches)


def anchor_of(steps: Steps, run: StepKernels) -> str:
    """Return `device` where the boundaries are device times, else who is behind.

    That is the side that still works on a step when the host began the next one; if
    none is, the `host` itself.
    """
    if steps.on_device:
        return "device"
    host = ints(steps.rows, "start_ps")
    busy = run.any
    if len(host) < 2 or busy.mean() < _DEVICE_STEPS:
        return "host"
    past = run.last_ps[:-1] - host[1:]
    late = busy[:-1] & (past > _PAST_THE_END * np.diff(host))
    proven = int(run.launches[:-1][late].sum()) >= _LEAST_LAUNCHES
    return run.side if proven and late.mean() > _RUN_AHEAD else "host"


def work_starts(run: StepKernels) -> NDArray[np.int64]:
    """Return the first kernel of each step, as begins that never go back.

    A step without a kernel takes no device time: its window is empty and lies at the
    begin of the next one, or after all work if none follows.
    """
    highest = np.iinfo(np.int64).max
    own = np.where(run.any, run.first_ps, highest)
    following = np.minimum.accumulate(own[::-1])[::-1]
    begins = np.where(run.any, own, following)
    begins = np.where(begins == highest, run.last_ps.max(), begins)
    found: NDArray[np.int64] = np.maximum.accumulate(begins)
    return found


def _launches(
    step: NDArray[np.int32], correlation: Correlation, steps: int
) -> NDArray[np.int64]:
    """Count the distinct launch calls of each step's kernels; -1 is no step."""
    chosen = step >= 0
    launch = np.where(chosen, correlation.launch_of_activity, np.int32(-1))
    room = _USUAL_SPILLS
    while True:
        owner = np.full(len(correlation.activity_count_of_launch), -1, np.int32)
        count = np.zeros(steps, np.int64)
        # Nearly every call belongs to one step; only the others are worth sorting.
        spilled = np.empty(room, np.int64)
        spills = kernels.executions(step, launch, owner, count, spilled)
        if spills < 0:
            raise ValueError(f"the kernel refused its arrays ({spills})")
        if spills <= room:
            break
        room = spills
    others = spilled[:spills]
    extra = np.unique(np.stack([step[others], launch[others]]), axis=1)[0]
    called_nowhere = step[chosen & (launch < 0)]
    return (
        count
        + np.bincount(extra, minlength=steps)
        + np.bincount(called_nowhere, minlength=steps)
    )
