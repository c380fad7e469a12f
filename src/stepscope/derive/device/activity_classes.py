"""`activity_classes`: activities that differ in time and stream only, as one class."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from stepscope.derive.columns.arrays import codes, handles
from stepscope.derive.columns.dense_codes import combined
from stepscope.frozen import Frozen

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from stepscope.derive.device.attribution import ActivityOps


class ActivityClasses(Frozen, frozen=True):
    """Classes of activities; what depends on these columns alone is computed per class.

    Attributes:
        code: int32 by row of device_activity; a row of `rows`.
        rows: One row per class: `type`, `op` (row of the ops of `activity_ops`),
            `device`, `kind` (code of the Enum), `geometry`, `shape`, `equation`,
            `hlo` (row of hlo_ops); -1 for none.
    """

    code: NDArray[np.int32]
    rows: pl.DataFrame


def activity_classes(
    *, device_activity: pl.DataFrame, activity_ops: ActivityOps
) -> ActivityClasses:
    """Number the distinct combinations of name, op, device and launch details."""
    columns: dict[str, NDArray[np.signedinteger]] = {
        "type": handles(device_activity, "type"),
        "op": activity_ops.op,
        "device": handles(device_activity, "device"),
        "kind": codes(device_activity, "kind").astype("int16"),
        "geometry": handles(device_activity, "geometry"),
        "shape": handles(device_activity, "shape"),
        "equation": handles(device_activity, "equation"),
    }
    distinct = combined(list(columns.values()))
    rows = pl.DataFrame(
        {name: column[distinct.first] for name, column in columns.items()},
        schema=dict.fromkeys(columns, pl.Int32()),
        strict=False,
    )
    hlo = activity_ops.ops["hlo"].fill_null(-1)
    return ActivityClasses(
        distinct.code, rows.with_columns(hlo[rows["op"]].alias("hlo"))
    )
