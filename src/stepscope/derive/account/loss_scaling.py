"""Holes that dynamic loss scaling leaves: the host looks whether gradients are finite.

After the last gradient a kernel looks for numbers that are not finite, its answer is
copied to the host, and the host decides whether the optimizer may run. Until then the
device has nothing to do.

Definition: docs/where-a-steps-time-goes.md#topics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.derive.columns.arrays import codes, handles, ints
from stepscope.derive.intervals.spans import Spans
from stepscope.trace.device_activity import ACTIVITY_KINDS

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray

#: Kernels and ops that look for numbers that are not finite.
FINITE_CHECK: Final = (
    r"(?i)non_?finite_check|(?:^|[^a-z])(?:is|all)_?finite(?:[^a-z]|$)|multi_?tensor_?"
    r"(?:scale|l2norm_?scale)_?check"
)
#: The answer is no larger than this.
_ANSWER_BYTES: Final = 16
#: So many activities at most lie between the look and the copy of its answer: the
#: answers about several tensors are put together first.
_NEAR: Final = 8
_KINDS: Final = ACTIVITY_KINDS.categories.to_list()
_KERNEL, _D2H = _KINDS.index("kernel"), _KINDS.index("d2h")


def scaling_holes(
    device_activity: pl.DataFrame, event_types: pl.DataFrame, device: int | None
) -> Spans:
    """Return from each look to the first kernel after the copy of its answer.

    Args:
        device_activity: The table.
        event_types: The table.
        device: Ordinal of the device.
    """
    looks = event_types["name"].str.contains(FINITE_CHECK).to_numpy()
    if not looks.any():
        return Spans.empty()
    mine = np.flatnonzero(handles(device_activity, "device") == device)
    start = ints(device_activity, "start_ps")[mine]
    order = np.argsort(start, kind="stable")
    mine, start = mine[order], start[order]
    end = start + ints(device_activity, "dur_ps")[mine]
    kernel = codes(device_activity, "kind")[mine] == _KERNEL
    looking = kernel & looks[handles(device_activity, "type")[mine]]
    size = device_activity["bytes"].fill_null(_ANSWER_BYTES + 1).to_numpy()[mine]
    answers = codes(device_activity, "kind")[mine] == _D2H
    copies = np.flatnonzero(answers & (size <= _ANSWER_BYTES))
    look = _last_before(looking, copies)
    following = _first_after(kernel, copies)
    found = (look >= 0) & (copies - look <= _NEAR) & (following < len(mine))
    begin = end[look[found]]
    return Spans.from_events(begin, np.maximum(start[following[found]] - begin, 0))


def _last_before(chosen: NDArray[np.bool_], at: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the last chosen row before each of some rows; -1 where there is none."""
    rows = np.flatnonzero(chosen)
    place = np.searchsorted(rows, at) - 1
    return np.where(place >= 0, np.append(rows, -1)[place], -1)


def _first_after(chosen: NDArray[np.bool_], at: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the first chosen row after each of some rows; their number for none."""
    rows = np.append(np.flatnonzero(chosen), len(chosen))
    found: NDArray[np.int64] = rows[np.searchsorted(rows, at, side="right")]
    return found
