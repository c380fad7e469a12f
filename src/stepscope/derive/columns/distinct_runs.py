"""How many distinct executions many rows come from, counted in one pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepscope._core import launches as kernels
from stepscope.frozen import Frozen

if TYPE_CHECKING:
    from numpy.typing import NDArray


class DistinctRuns(Frozen, frozen=True):
    """Distinct pairs of a place and an execution.

    Attributes:
        count: int64 by place; the number of its executions.
        owner: int32 by execution: the place of its first row, -1 for none.
        further: int64, shape (2, pairs); each further place of an execution, and the
            execution.
    """

    count: NDArray[np.int64]
    owner: NDArray[np.int32]
    further: NDArray[np.int64]


def distinct_runs(
    place: NDArray[np.int32],
    execution: NDArray[np.int32],
    *,
    places: int,
    executions: int,
) -> DistinctRuns:
    """Count the distinct executions of each place.

    Args:
        place: By row, from 0 up to `places - 1`.
        execution: By row, from 0 up to `executions - 1`; -1 for none.
        places: How many places there are.
        executions: How many executions there are.
    """
    count, owner = np.zeros(places, np.int64), np.full(executions, -1, np.int32)
    spilled = np.empty(0, np.int64)
    answer: int = kernels.executions(place, execution, owner, count, spilled)
    if answer > 0:
        # Executions of several places, as a rule few; ask for the rows.
        spilled = np.empty(answer, np.int64)
        owner[:] = -1
        count[:] = 0
        answer = kernels.executions(place, execution, owner, count, spilled)
    if answer < 0:
        raise ValueError(f"the kernel refused its arrays ({answer})")
    # Sorting bare keys is several times faster than sorting pairs.
    key = place[spilled].astype(np.int64) * max(executions, 1) + execution[spilled]
    pairs = np.unique(key)
    further = np.stack(np.divmod(pairs, max(executions, 1)))
    count += np.bincount(further[0], minlength=places)
    return DistinctRuns(count, owner, further)
