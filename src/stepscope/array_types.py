"""Type aliases of arrays, by element type, for signatures."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Int64s: TypeAlias = "NDArray[np.int64]"
Int32s: TypeAlias = "NDArray[np.int32]"
UInt8s: TypeAlias = "NDArray[np.uint8]"
Bools: TypeAlias = "NDArray[np.bool_]"
