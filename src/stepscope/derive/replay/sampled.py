"""Which windows are run again: some typical ones in a row, and the one before them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.derive.columns.arrays import ints
from stepscope.frozen import Frozen
from stepscope.remedies import Remedy
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray

    from stepscope.derive.step_windows.windows import Windows

#: More windows cost time and tell little more.
MOST_WINDOWS: Final = 20

#: Flags of a step that sets up what later ones use.
_COLD: Final = frozenset(("first", "compile", "outlier"))

NO_STEPS: Final = Unavailable(
    code="NO_STEPS",
    reason="Without steps there is no period that a replay could be compared with.",
    remedy=Remedy.MARK_STEPS,
)


class Sampled(Frozen, frozen=True):
    """Consecutive windows.

    Attributes:
        rows: Rows of windows, consecutive.
        bounds_ps: Begins of these windows and the end of the last one.
        lead_ps: Begin of the window before them, whose work is replayed but not
            measured; where there is none, the first begin, and as much before it as a
            window if windows begin with work of a device.
        by_device: Whether the windows begin with work of a device.
        open_end: Whether nothing shows where the last window ends.
    """

    rows: NDArray[np.int64]
    bounds_ps: NDArray[np.int64]
    lead_ps: int
    by_device: bool
    open_end: bool

    @property
    def count(self) -> int:
        """Return the number of windows."""
        return len(self.rows)

    @property
    def first_ps(self) -> int:
        """Return where the measured time begins."""
        return int(self.bounds_ps[0])

    @property
    def last_ps(self) -> int:
        """Return where it ends."""
        return int(self.bounds_ps[-1])


def sampled(windows: Windows, *, most: int = MOST_WINDOWS) -> Sampled | Unavailable:
    """Choose the last windows of the longest run of typical ones."""
    if not windows.has_steps:
        return NO_STEPS
    kept = _warm(np.flatnonzero(windows.typical), windows.rows["flags"])
    starts, ends = ints(windows.rows, "start_ps"), ints(windows.rows, "end_ps")
    kept = kept[ends[kept] > starts[kept]]
    if not len(kept):
        return NO_STEPS
    breaks = np.flatnonzero(np.diff(kept) != 1) + 1
    runs = np.split(kept, breaks)
    rows = max(runs, key=len)[-most:]
    first = int(rows[0])
    lead = int(starts[max(first - 1, 0)])
    if not first and windows.anchor == "device":
        # The host launched the first work before the first window begins.
        lead -= int((ends[rows] - starts[rows]).max())
    return Sampled(
        rows=rows,
        bounds_ps=np.append(starts[rows], ends[rows[-1]]),
        lead_ps=lead,
        by_device=windows.anchor == "device",
        open_end=bool(windows.rows["open_end"][int(rows[-1])]),
    )


def _warm(rows: NDArray[np.int64], flags: pl.Series) -> NDArray[np.int64]:
    """Leave out a first step that compiles and is far longer, where others remain.

    What is loaded and compiled once is no part of what a step usually takes.
    """
    # Windows are few, and an expression over lists of texts takes long to begin.
    cold = np.array([_COLD.issubset(it) for it in flags.to_list()], np.bool_)
    kept = rows[~cold[rows]]
    return kept if len(kept) else rows
