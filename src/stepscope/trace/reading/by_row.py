"""Values by row number, like `values[rows]`, for row numbers of 32 bits.

Tables have millions of row numbers. NumPy first converts 32-bit indices, which takes
several times as long as the lookup.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np

from stepscope._core.numbering import gather_values

if TYPE_CHECKING:
    from numpy.typing import NDArray

_Item = TypeVar("_Item", bound=np.generic)

#: Size of a value in bytes → NumPy type used to copy the value.
_BY_WIDTH: Final = {1: np.uint8, 4: np.int32, 8: np.int64}


def values_by_row(
    values: NDArray[_Item], rows: NDArray[np.integer], none: float | None = None
) -> NDArray[_Item]:
    """Return the value at each row number.

    Args:
        values: Values of 1, 4 or 8 bytes each.
        rows: Indices into `values`; negative for no value.
        none: Result for negative rows; None if negative rows are not allowed.

    Raises:
        IndexError: A row is beyond the values, or negative although `none` is None.
    """
    width = _BY_WIDTH[values.itemsize]
    gathered = np.empty(len(rows), values.dtype)
    default_values = np.array([] if none is None else [none], values.dtype)
    status = gather_values(
        np.ascontiguousarray(values).view(width),
        np.ascontiguousarray(rows, np.int32),
        default_values.view(width),
        gathered.view(width),
    )
    if status < 0:
        raise IndexError(f"a row is outside the {len(values)} values")
    return gathered
