"""Steps whose programs run on threads of the host, behind the calls for them.

A framework may hand compiled programs to threads of its own and return at once. A
marker around the call then shows how long it takes to ask for a step, not how long the
step takes: the instructions that these threads run do.

Definition: docs/how-steps-are-found.md#windows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.derive.columns.arrays import ints
from stepscope.derive.step_windows.anchor import StepKernels
from stepscope.derive.steps.segments import LEAST_STEPS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.derive.repetition.symbol_sequence import SymbolSequence
    from stepscope.derive.steps.chosen import Steps

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
        last = _work_ends(instructions, places)
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


def _work_ends(
    instructions: SymbolSequence, places: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return when the last instruction of each stretch of the sequence ended."""
    # An entry's end is its successor's begin less the pause between them.
    at, gap = instructions.at_ps, instructions.gap_ps
    free_from = np.append(at[1:] - gap[1:], instructions.end_ps)
    after = np.append(places[1:], len(instructions))
    ends: NDArray[np.int64] = free_from[after - 1]
    return ends
