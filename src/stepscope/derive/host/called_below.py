"""Functions by who called them, as stacks tell: below a loader, an op, a callback."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.derive.host.function_frames import FunctionFrames
    from stepscope.derive.host.function_names import FunctionName
    from stepscope.patterns import Pattern

_MODULE: Final = "<module>"


def called_by(
    chosen: NDArray[np.bool_], parent: NDArray[np.int32]
) -> NDArray[np.bool_]:
    """Return which frames some others called, by whatever way."""
    found = np.zeros(len(chosen), np.bool_)
    called = parent >= 0
    while True:
        more = called & (chosen | found)[parent]
        if (more == found).all():
            return found
        found = more


def called_most(frames: FunctionFrames, callers: Pattern[str]) -> FunctionName | None:
    """Return the outermost function of the program that some functions called most.

    A framework's threads have names of their own, so it is told by who called it.
    """
    outermost = outermost_called(frames, callers)
    rows = pl.DataFrame(
        {
            "type": frames.type[outermost],
            "time": (frames.end_ps - frames.start_ps)[outermost],
        }
    )
    if not rows.height:
        return None
    summed = rows.group_by("type").agg(pl.col("time").sum()).sort("time", "type")
    return frames.names[int(summed["type"][-1])]


def outermost_called(
    frames: FunctionFrames, callers: Pattern[str]
) -> NDArray[np.int64]:
    """Return the rows of the outermost frames of the program below some functions."""
    names = frames.names.items()
    own = [
        kind
        for kind, name in names
        if name.library is False and name.function != _MODULE
    ]
    calling = [kind for kind, name in names if callers.search(name.function)]
    called = called_by(np.isin(frames.type, calling), frames.parent)
    mine = np.isin(frames.type, own) & called
    return np.flatnonzero(mine & ~called_by(mine, frames.parent))
