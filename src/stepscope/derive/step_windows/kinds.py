"""Steps that do other work than the others: a validation, the end of an epoch.

Definition: docs/how-steps-are-found.md#windows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope._core import numbering
from stepscope.derive.columns.arrays import codes, handles, ints, picked
from stepscope.derive.columns.dense_codes import dense, totals_by
from stepscope.derive.names.event_kinds import EventFlag
from stepscope.derive.repetition.sequences import program_threads
from stepscope.derive.steps.launches import PROGRAM_CALLS
from stepscope.derive.steps.segments import LEAST_STEPS, likeness, modal_row
from stepscope.trace.device_activity import ACTIVITY_KINDS

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray

    from stepscope.derive.names.event_kinds import EventKinds
    from stepscope.derive.steps.chosen import Steps

#: A step of another kind shares less than this of its work with the usual step.
_SHARED: Final = 0.5
#: What comes more often than this, and more than once, belongs to the cycle, like an
#: update of the weights after every fourth batch.
_RARE: Final = 0.15
#: Steps times names that are compared; beyond, the names that weigh least are left out.
_CELLS: Final = 20_000_000
#: (step, type, duration) of each piece of work; a step of -1 is none.
Work = tuple["NDArray[np.int32]", "NDArray[np.int32]", "NDArray[np.int64]"]


def other_kinds(
    work: Work | None, steps: int, judged: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Return the few steps whose work is clearly not that of the others.

    Work is compared by how often each name occurs, weighed with its mean duration.

    Args:
        work: What the steps did; None where nothing tells it.
        steps: Number of steps.
        judged: By step, whether it was recorded as a whole.
    """
    found = np.zeros(steps, np.bool_)
    if work is None or judged.sum() <= LEAST_STEPS or not len(work[0]):
        return found
    table = _weighed(work, steps)[judged]
    different = likeness(table, table[modal_row(table)]) < _SHARED
    others = int(different.sum())
    if others <= max(1.0, _RARE * len(table)) and len(table) - others >= LEAST_STEPS:
        found[np.flatnonzero(judged)[different]] = True
    return found


def device_work(
    device_activity: pl.DataFrame, activity_steps: NDArray[np.int32]
) -> Work | None:
    """Return the kernels of each step; None where no step has any."""
    names = ACTIVITY_KINDS.categories.to_list()
    kernel = np.isin(
        codes(device_activity, "kind"),
        [names.index("kernel"), names.index("collective")],
    )
    step = np.where(kernel, activity_steps, np.int32(-1))
    if not (step >= 0).any():
        return None
    return step, handles(device_activity, "type"), ints(device_activity, "dur_ps")


def host_work(
    steps: Steps, tracks: pl.DataFrame, events: pl.DataFrame, event_kinds: EventKinds
) -> Work | None:
    """Return what the thread that carries a boundary ran until its next boundary.

    None where the boundaries are on no host thread.
    """
    if steps.on_device or steps.rows["track"].null_count():
        return None
    wanted = event_kinds.is_op() | event_kinds.has(PROGRAM_CALLS)
    wanted &= ~event_kinds.has(EventFlag.DATASET | EventFlag.ALLOCATOR)
    carrier, boundary = handles(steps.rows, "track"), ints(steps.rows, "start_ps")
    threads = np.unique(carrier)
    rows, of_step = [], []
    for thread in threads[program_threads(tracks)[threads]].tolist():
        mine = np.flatnonzero(carrier == thread)
        begin, end = (int(tracks[f"event_{edge}"][thread]) for edge in ("begin", "end"))
        row = picked(handles(events, "type"), wanted, begin, end)
        at = ints(events, "start_ps")[row]
        step = np.searchsorted(boundary[mine], at, side="right") - 1
        rows.append(row[step >= 0])
        of_step.append(mine[step[step >= 0]])
    row = np.concatenate([np.empty(0, np.int64), *rows])
    if not len(row):
        return None
    return (
        np.concatenate(of_step).astype(np.int32),
        handles(events, "type")[row],
        ints(events, "dur_ps")[row],
    )


def _weighed(work: Work, steps: int) -> NDArray[np.int64]:
    """Return occurrences times mean duration, by step and name."""
    step, of_type, dur = work
    name = dense(of_type)
    sums = totals_by(name.code, dur, count=name.count, where=step >= 0)
    total = sums.total.astype(np.float64)
    used = np.flatnonzero(sums.count)
    mean = np.maximum(total[used] / sums.count[used], 1)
    kept = np.argsort(-total[used], kind="stable")[: max(1, _CELLS // steps)]
    place = np.full(name.count, -1, np.int32)
    place[used[kept]] = np.arange(len(kept))
    count = np.zeros((steps, len(kept)), np.int64)
    answer = numbering.tally(np.ascontiguousarray(step), name.code, place, count)
    if answer < 0:
        raise ValueError(f"the kernel refused its arrays ({answer})")
    weighed: NDArray[np.int64] = (count * mean[kept]).astype(np.int64)
    return weighed
