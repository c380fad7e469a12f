"""Distinct launch shapes: details are parsed once per text, not once per kernel."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.formats.xplane.decoded.details import Geometry, parse_geometry
from stepscope.formats.xplane.decoded.texts import distinct_handles
from stepscope.trace.reading.by_row import by_row
from stepscope.trace.tables import GEOMETRIES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

#: Occupancies are distinguished to this part of a percent, so that rounding does not
#: make a launch shape two.
_OCCUPANCY_STEP: Final = 0.001


def geometries_of(
    details: NDArray[np.int32],
    occupancy: NDArray[np.float64] | None,
    strings: Sequence[str],
) -> tuple[NDArray[np.int32], pl.DataFrame, dict[str, int]]:
    """Number the launch shapes of some kernels.

    Args:
        details: Number of each kernel's details, -1 where it has none.
        occupancy: Each kernel's own stat, 0 where it has none; it counts where the
            details do not hold it.
        strings: Number → text.

    Returns:
        Row of the table by kernel (-1: none), the table, and how many kernels had
        each field refused as impossible.
    """
    texts = distinct_handles(details, len(strings))
    parsed = {int(text): parse_geometry(strings[text]) for text in texts.tolist()}
    refused = _refused(details, parsed, len(strings))
    table: dict[Geometry, int] = {}
    row_of = np.full(len(strings), -1, dtype=np.int32)
    for text, geometry in parsed.items():
        if _known(geometry):
            row_of[text] = table.setdefault(_plain(geometry), len(table))
    rows = by_row(row_of, details, none=-1)
    if occupancy is not None:
        rows = _with_occupancy(rows, occupancy, table)
    return rows, _frame(list(table)), refused


def _with_occupancy(
    rows: NDArray[np.int32],
    occupancy: NDArray[np.float64],
    table: dict[Geometry, int],
) -> NDArray[np.int32]:
    """Distinguish shapes by the occupancy recorded beside their details."""
    shapes = list(table)
    silent = np.array([shape.occupancy is None for shape in shapes], dtype=np.bool_)
    apart = (rows >= 0) & (occupancy > 0) & (occupancy <= 100)
    apart &= by_row(silent, rows, none=False)
    if not apart.any():
        return rows
    steps = np.rint(occupancy[apart] / _OCCUPANCY_STEP).astype(np.int64)
    pairs, inverse = np.unique(
        np.stack([rows[apart].astype(np.int64), steps]), axis=1, return_inverse=True
    )
    numbers = [
        table.setdefault(
            shapes[shape]._replace(occupancy=step * _OCCUPANCY_STEP), len(table)
        )
        for shape, step in pairs.T.tolist()
    ]
    result = rows.copy()
    result[apart] = np.array(numbers, dtype=np.int32)[inverse.reshape(-1)]
    return result


def _known(geometry: Geometry) -> bool:
    return any(part is not None for part in geometry[:-1])


def _plain(geometry: Geometry) -> Geometry:
    return geometry._replace(refused=())


def _refused(
    details: NDArray[np.int32], parsed: dict[int, Geometry], table_size: int
) -> dict[str, int]:
    odd = {text: it.refused for text, it in parsed.items() if it.refused}
    if not odd:
        return {}
    kernels = np.bincount(details[details >= 0], minlength=table_size)
    counts: Counter[str] = Counter()
    for text, fields in odd.items():
        for field in set(fields):
            counts[field] += int(kernels[text])
    return dict(counts)


def _frame(shapes: Sequence[Geometry]) -> pl.DataFrame:
    columns: dict[str, list[int | float | None]] = {
        "registers": [it.registers for it in shapes],
        "static_shared_memory_bytes": [it.static_shared for it in shapes],
        "dynamic_shared_memory_bytes": [it.dynamic_shared for it in shapes],
        "shared_memory_bytes": [it.shared for it in shapes],
        "occupancy_percent": [it.occupancy for it in shapes],
    }
    for at, axis in enumerate("xyz"):
        columns[f"block_{axis}"] = [it.block and it.block[at] for it in shapes]
        columns[f"grid_{axis}"] = [it.grid and it.grid[at] for it in shapes]
    dtypes = GEOMETRIES.dtypes()
    return pl.DataFrame(
        {name: columns[name] for name in dtypes}, schema=dtypes, strict=True
    )
