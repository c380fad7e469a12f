"""Elements that a pipeline's own threads make, and the calls that take them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepscope.derive.columns.dense_codes import combined, dense
from stepscope.frozen import Frozen

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Elements(Frozen, frozen=True, eq=True):
    """Elements that are made, or taken.

    Attributes:
        stage: int32; row of stages of the stage that takes the element.
        number: int64; number of the element within that stage.
        time_ps: int64; when making began, or when taking ended.
    """

    stage: NDArray[np.int32]
    number: NDArray[np.int64]
    time_ps: NDArray[np.int64]


def handovers(
    made: Elements, taken: Elements
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Join the making of elements with their taking.

    An element goes to the first taking that ends after its making began: numbers are
    used again when an iterator is made anew, and an element is handed over once.

    Definition: docs/tools/tf_data_bottleneck_analysis.md#how-each-number-is-defined.

    Returns:
        Places in `made` and in `taken`, one pair per element that was handed over.
    """
    count = len(made.stage)
    if not count or not len(taken.stage):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    stage = np.concatenate((made.stage, taken.stage))
    number = np.concatenate((made.number, taken.number))
    time_ps = np.concatenate((made.time_ps, taken.time_ps))
    code = combined((stage, dense(number).code)).code
    is_taking = np.arange(len(code)) >= count
    order = np.lexsort((is_taking, time_ps, code))
    # The next taking after each place in this order; one past the end for none.
    last = len(order)
    at = np.where(is_taking[order], np.arange(last), last)
    following = np.minimum.accumulate(at[::-1])[::-1]
    making = np.flatnonzero(~is_taking[order] & (following < last))
    taking = following[making]
    same = code[order[making]] == code[order[taking]]
    return order[making[same]], order[taking[same]] - count
