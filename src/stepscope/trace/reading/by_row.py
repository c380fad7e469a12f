"""Values by row number: what `values[rows]` gives, for rows of 32 bits.

Tables hold millions of such numbers. NumPy converts them before it looks anything up,
which takes several times as long as looking it up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np

from stepscope._core.numbering import gather_values

if TYPE_CHECKING:
    from numpy.typing import NDArray

_Item = TypeVar("_Item", bound=np.generic)

#: Bytes of a value → the type by which it is copied.
_BY_WIDTH: Final = {1: np.uint8, 4: np.int32, 8: np.int64}


def values_by_row(
    values: NDArray[_Item], rows: NDArray[np.integer], none: float | None = None
) -> NDArray[_Item]:
    """Return the value of each row.

    Args:
        values: Of 1, 4 or 8 bytes each.
        rows: Places in `values`; below 0 for none.
        none: The value for rows below 0; None where there is no such row.

    Raises:
        IndexError: A row lies beyond the values, or below 0 where none may.
    """
    width = _BY_WIDTH[values.itemsize]
    found = np.empty(len(rows), values.dtype)
    nothing = np.array([] if none is None else [none], values.dtype)
    answer = gather_values(
        np.ascontiguousarray(values).view(width),
        np.ascontiguousarray(rows, np.int32),
        nothing.view(width),
        found.view(width),
    )
    if answer < 0:
        message = f"a row lies beyond the {len(values)} values"
        raise IndexError(message)
    return found
