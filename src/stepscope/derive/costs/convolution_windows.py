"""Windows of convolutions, and how many terms a convolution with one adds up."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.frozen import Frozen
from stepscope.patterns import Pattern

if TYPE_CHECKING:
    from collections.abc import Sequence

_WINDOW: Final = Pattern(r"window=\{([^}]*)\}")
_LABELS: Final = Pattern(r"dim_labels=([\dbf]+)_([\dio]+)->([\dbf]+)")
#: A dimension is followed position by position up to this length of the result.
_LONGEST: Final = 1 << 20


class Window(Frozen, frozen=True, eq=True):
    """How a window moves; one number per spatial dimension.

    Attributes:
        size: Length of the window.
        stride: Distance that the window moves from one element of the result to the
            next.
        low: Number of zeros before the input; negative where elements are cut off.
        spread: Distance between the elements that the window takes (its dilation).
        gaps: Distance between the input's elements, with zeros between them.
        labels: Meaning of each dimension of input, kernel and result: a spatial number,
            or one of `b`, `f`, `i`, `o`; None for a window without them.
    """

    size: tuple[int, ...]
    stride: tuple[int, ...]
    low: tuple[int, ...]
    spread: tuple[int, ...]
    gaps: tuple[int, ...]
    labels: tuple[str, str, str] | None


def read_window(attributes: str | None) -> Window | None:
    """Read `window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f`."""
    found = _WINDOW.search(attributes or "")
    if found is None:
        return None
    given = dict(part.split("=", 1) for part in found[1].split() if "=" in part)
    size = _numbers(given.get("size", ""))
    if not size:
        return None
    ones = (1,) * len(size)
    pads = given.get("pad", "x".join(["0_0"] * len(size))).split("x")
    low = tuple(int(pad.split("_")[0]) for pad in pads)
    sides = [
        _numbers(given[name]) if name in given else ones
        for name in ("stride", "rhs_dilate", "lhs_dilate")
    ]
    if {len(low), *map(len, sides)} != {len(size)}:
        return None
    labels = _LABELS.search(attributes or "")
    names = (labels[1], labels[2], labels[3]) if labels else None
    return Window(size, sides[0], low, sides[1], sides[2], names)


def convolution_terms(
    window: Window, inputs: Sequence[int], kernel: Sequence[int], result: Sequence[int]
) -> int | None:
    """Count multiplications of input elements by weights, padding left out.

    Returns:
        None where the labels do not fit the sizes.
    """
    if window.labels is None:
        return None
    sizes = (tuple(inputs), tuple(kernel), tuple(result))
    if any(len(a) != len(b) for a, b in zip(window.labels, sizes, strict=True)):
        return None
    by_label = [
        dict(zip(labels, one, strict=True))
        for labels, one in zip(window.labels, sizes, strict=True)
    ]
    of_input, of_kernel, of_result = by_label
    terms = math.prod(
        size for label, size in of_result.items() if not label.isdecimal()
    )
    terms *= of_kernel.get("i", 1)
    for place in range(len(window.size)):
        label = str(place)
        if label not in of_input or label not in of_result:
            return None
        if of_result[label] > _LONGEST:
            return None
        terms *= _pairs(window, place, of_input[label], of_result[label])
    return terms


def _pairs(window: Window, place: int, length: int, results: int) -> int:
    """Count pairs of a place in the result and one in the window on an element."""
    starts = np.arange(results, dtype=np.int64) * window.stride[place]
    gaps = window.gaps[place]
    reach = (length - 1) * gaps + 1
    found = 0
    for step in range(window.size[place]):
        at = starts + step * window.spread[place] - window.low[place]
        inside = (at >= 0) & (at < reach)
        if gaps > 1:
            inside &= at % gaps == 0
        found += int(np.count_nonzero(inside))
    return found


def _numbers(text: str) -> tuple[int, ...]:
    parts = text.split("x")
    return tuple(map(int, parts)) if all(one.isdecimal() for one in parts) else ()
