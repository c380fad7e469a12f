"""Links from events to ops, by id or by nesting, and texts that list operand shapes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope._core import nesting

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.array_types import Bools, Int32s, Int64s

#: Framework events that record the arguments of an op. They have the category of ops
#: but do no work: events inside them belong to the op that encloses both.
BOOKKEEPING: Final = frozenset({"record_param_comms"})
_STACK: Final = 2


def operands_text(sizes: Sequence[object], types: Sequence[object]) -> str | None:
    """Return a text like `c10::Half[128,64], float[64]` for operands with dimensions.

    Scalars are left out: their type says nothing about the types of the tensors.

    Args:
        sizes: A list of sizes per operand; for a list of tensors, a list of size lists.
        types: Name of the type per operand.

    Returns:
        None if no operand has both type and dimensions.
    """
    parts = [
        f"{name}[{','.join(map(str, size))}]"
        for operand, name in zip(sizes, types, strict=False)
        if isinstance(name, str) and name
        for size in _tensor_sizes(operand)
    ]
    return ", ".join(parts) or None


def _tensor_sizes(operand: object) -> list[list[int]]:
    listed = operand if isinstance(operand, list) else []
    return [
        sizes
        for sizes in (listed, *listed)
        if isinstance(sizes, list)
        and sizes
        and all(isinstance(size, int) for size in sizes)
    ]


def last_with_id(ids: Int64s, wanted: Int64s) -> Int64s:
    """Return for each wanted id its last position in `ids`, or -1."""
    positions = np.full(len(wanted), -1, np.int64)
    if not len(ids) or not len(wanted):
        return positions
    order = np.argsort(ids, kind="stable")
    ordered = ids[order]
    index = np.searchsorted(ordered, wanted, side="right") - 1
    hit = (index >= 0) & (ordered[np.maximum(index, 0)] == wanted)
    positions[hit] = order[index[hit]]
    return positions


def innermost_around(
    start: Int64s, dur: Int64s, *, track: Int32s, is_op: Bools
) -> Int32s:
    """Return for each event the position of the innermost op that encloses it, or -1.

    Args:
        start: Start of each event; sorted by track, then start, then longest first.
        track: Track of each event, ascending.
    """
    above = _parent_events(start, dur, track)
    # The enclosing event need not be an op. Each round doubles the levels searched.
    while len(passed := np.flatnonzero((above >= 0) & ~is_op[above])):
        above[passed] = above[above[passed]]
    return above


def _parent_events(start: Int64s, dur: Int64s, track: Int32s) -> Int32s:
    """Return for each event the event that directly encloses it on its track, or -1."""
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
