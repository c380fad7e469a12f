"""Places in a tree of calls: which names run inside which, all events united."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepscope._core.nesting import inherit
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


def unite_places(parent: NDArray[np.int32], key: NDArray[np.int32]) -> Places:
    """Unite items with equal keys inside equal parents.

    Args:
        parent: By item: the item it runs inside, -1 for none; no item is inside
            itself.
        key: By item: a number that is equal for items to unite.
    """
    node = np.full(len(key), -1, np.int32)
    inner = np.flatnonzero(parent >= 0)
    by_parent = inner[np.argsort(parent[inner], kind="stable")]
    children = np.bincount(parent[inner], minlength=len(parent))
    first_child = np.cumsum(children) - children
    parents, keys = [np.empty(0, np.int32)], [np.empty(0, np.int32)]
    count = 0
    level = np.flatnonzero(parent < 0)
    above = np.full(len(level), -1, np.int32)
    # One round per level of nesting; each item is in one of them.
    while len(level):
        own = key[level]
        distinct = combined([above, own])
        node[level] = distinct.code + np.int32(count)
        parents.append(above[distinct.first])
        keys.append(own[distinct.first].astype(np.int32))
        count += distinct.count
        # Most items hold no others.
        holders = level[children[level] > 0]
        ends = np.cumsum(children[holders])
        shift = np.repeat(
            first_child[holders] - ends + children[holders], children[holders]
        )
        level = by_parent[np.arange(len(shift)) + shift]
        above = node[parent[level]]
    return Places(node, np.concatenate(parents), np.concatenate(keys))


def inherit_labels(
    parent: NDArray[np.int32],
    label: NDArray[np.int32],
    begin: int = 0,
    end: int | None = None,
) -> NDArray[np.int32]:
    """Give items without a label (-1) that of the nearest item around them, in place.

    Args:
        parent: By item; the item around it, -1 for none.
        label: By item.
        begin: First item that may get one.
        end: One past the last.
    """
    answer = inherit(parent, label, begin, len(label) if end is None else end)
    if answer < 0:
        raise ValueError(f"the kernel refused its arrays ({answer})")
    return label


def label_inside(
    parent: NDArray[np.int32], rows: NDArray[np.integer], count: int
) -> NDArray[np.int32]:
    """Return by item the number of the innermost of some rows at or around it, or -1.

    Args:
        parent: By item; the item around it, -1 for none.
        rows: The items that are numbered, ascending.
        count: Number of items.
    """
    label = np.full(count, -1, np.int32)
    label[rows] = np.arange(len(rows), dtype=np.int32)
    return inherit_labels(parent, label, int(rows[0])) if len(rows) else label
