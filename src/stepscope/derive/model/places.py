"""Places in a tree of calls: which names run inside which, all events united."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepscope.derive.columns.dense_codes import combined
from stepscope.frozen import Frozen

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Places(Frozen, frozen=True):
    """A tree, and the place of each item in it.

    Attributes:
        node: int32 by item; its place.
        parent: int32 by place; the place around it, a smaller number; -1 at the top.
        key: int32 by place; the key of the items at that place.
    """

    node: NDArray[np.int32]
    parent: NDArray[np.int32]
    key: NDArray[np.int32]


def chained(parent: NDArray[np.int32], key: NDArray[np.int32]) -> Places:
    """Unite items with equal keys inside equal parents.

    Args:
        parent: By item: the item it runs inside, -1 for none; no item is inside
            itself.
        key: By item: a number that is equal for items to unite.
    """
    node = np.full(len(key), -1, np.int32)
    parents: list[NDArray[np.int32]] = []
    keys: list[NDArray[np.int32]] = []
    count = 0
    level = np.flatnonzero(parent < 0)
    above = np.full(len(level), -1, np.int32)
    children = _children(parent)
    # One round per level of nesting; each item is in one of them.
    while len(level):
        own = key[level]
        distinct = combined([above, own])
        node[level] = distinct.code + np.int32(count)
        parents.append(above[distinct.first])
        keys.append(own[distinct.first].astype(np.int32))
        count += distinct.count
        level = children.of(level)
        above = node[parent[level]]
    nothing = [np.empty(0, np.int32)]
    return Places(
        node, np.concatenate(parents or nothing), np.concatenate(keys or nothing)
    )


class _Children(Frozen, frozen=True):
    """Items by their parents.

    Attributes:
        order: Items that lie inside others, grouped by the item around them.
        begin: int32 by item; position in `order` of the first item inside it.
        count: int32 by item; number of items inside it.
    """

    order: NDArray[np.int64]
    begin: NDArray[np.int32]
    count: NDArray[np.int32]

    def of(self, items: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the items inside some others."""
        # Most items hold no others.
        some = items[self.count[items] > 0]
        begin, count = self.begin[some], self.count[some]
        ends = np.cumsum(count)
        total = int(ends[-1]) if len(ends) else 0
        within = np.arange(total) - np.repeat(ends - count, count)
        found: NDArray[np.int64] = self.order[np.repeat(begin, count) + within]
        return found


def _children(parent: NDArray[np.int32]) -> _Children:
    inner = np.flatnonzero(parent >= 0)
    order = inner[np.argsort(parent[inner], kind="stable")]
    count = np.bincount(parent[inner], minlength=len(parent)).astype(np.int32)
    return _Children(order, np.cumsum(count, dtype=np.int32) - count, count)
