"""Which op something belongs to, and how the shapes of its operands are written.

By an id that both carry, or by what holds it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope._core import nesting

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepscope.array_types import Bools, Int32s, Int64s

#: Records of a framework that carry what an op was asked to do. They have the category
#: of ops and do no work: what they enclose is the work of the op around them.
BOOKKEEPING: Final = frozenset({"record_param_comms"})
_STACK: Final = 2


def operands_text(sizes: Sequence[object], types: Sequence[object]) -> str | None:
    """`c10::Half[128,64], float[64]` for the operands that have dimensions.

    Scalars are left out: the type of a factor says nothing about that of the tensors.

    Args:
        sizes: A list of sizes per operand; of a list of tensors a list of such lists.
        types: A text per operand.

    Returns:
        None where no operand has both.
    """
    parts = [
        f"{name}[{','.join(map(str, size))}]"
        for operand, name in zip(sizes, types, strict=False)
        if isinstance(name, str) and name
        for size in _tensor_sizes(operand)
    ]
    return ", ".join(parts) or None


def _tensor_sizes(operand: object) -> Iterator[list[int]]:
    if not isinstance(operand, list) or not operand:
        return
    if all(isinstance(it, int) for it in operand):
        yield operand
        return
    for inner in operand:
        if (
            isinstance(inner, list)
            and inner
            and all(isinstance(it, int) for it in inner)
        ):
            yield inner


def last_with_id(ids: Int64s, wanted: Int64s) -> Int64s:
    """Return by wanted id the last position in `ids` that has it, -1 for none."""
    found = np.full(len(wanted), -1, np.int64)
    if not len(ids) or not len(wanted):
        return found
    order = np.argsort(ids, kind="stable")
    ordered = ids[order]
    at = np.searchsorted(ordered, wanted, side="right") - 1
    hit = (at >= 0) & (ordered[np.maximum(at, 0)] == wanted)
    found[hit] = order[at[hit]]
    return found


def innermost_around(
    start: Int64s, dur: Int64s, *, track: Int32s, is_op: Bools
) -> Int32s:
    """Return by event the position of the innermost op that holds it, -1 for none.

    Args:
        start: Beginnings, in the order of tracks: start ascending, then longest first.
        dur: Durations.
        track: Track of each event, ascending.
        is_op: Which events are ops.
    """
    above = _parent_events(start, dur, track)
    # What is no op may hold others. Each round doubles how far up a row has looked.
    while len(passed := np.flatnonzero((above >= 0) & ~is_op[above])):
        above[passed] = above[above[passed]]
    return above


def _parent_events(start: Int64s, dur: Int64s, track: Int32s) -> Int32s:
    """Return the event that holds each one directly, track by track; -1 for none."""
    parent = np.empty(len(start), np.int32)
    if not len(start):
        return parent
    depth = np.empty(len(start), np.int32)
    self_time = np.empty(len(start), np.int64)
    edges = np.flatnonzero(np.diff(track)) + 1
    begins = np.concatenate(([0], edges)).tolist()
    ends = np.concatenate((edges, [len(start)])).tolist()
    stack = np.empty((_STACK, max(map(int.__sub__, ends, begins))), np.int64)
    for begin, end in zip(begins, ends, strict=True):
        answer = nesting.nest_track_rows(
            start, dur, begin, end, parent, depth, self_time, stack
        )
        if answer < 0:
            raise ValueError(f"the kernel refused its arrays ({answer})")
    return parent
