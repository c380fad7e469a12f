"""Parse the stats that describe launch shapes and copies, once per distinct text.

A text has `key:value` pairs between spaces or newlines. Keys differ by vendor and year.
Values that no hardware can have are refused: one producer left fields uninitialised.

Definition: docs/formats/xplane.md#device-activity.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import polars as pl

from stepscope.formats.launch_shapes import (
    MAX_GRID,
    MAX_REGISTERS,
    MAX_SHARED_BYTES,
    MAX_THREADS,
)
from stepscope.formats.xplane.decoded.columns import distinct_handles
from stepscope.frozen import Frozen
from stepscope.patterns import Pattern
from stepscope.trace.reading.activity_names import SOME_COPY, copy_kind
from stepscope.trace.reading.by_row import values_by_row
from stepscope.trace.tables import GEOMETRIES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from stepscope.array_types import Bools, Int32s, Int64s, UInt8s


_PAIR: Final = Pattern(r"([A-Za-z_]+):(\S+)")
_TRIPLE: Final = Pattern(r"(-?\d+),(-?\d+),(-?\d+)\Z")
_MAX_BYTES: Final = 2**63 - 1
#: Step to which occupancies are rounded, in percent; smaller differences are errors.
_OCCUPANCY_STEP: Final = 0.001


class Geometry(NamedTuple):
    """A launch shape with its resources; None means unknown.

    Attributes:
        refused: Names of the fields with an impossible value.
    """

    registers: int | None = None
    static_shared: int | None = None
    dynamic_shared: int | None = None
    shared: int | None = None
    block: tuple[int, int, int] | None = None
    grid: tuple[int, int, int] | None = None
    occupancy: float | None = None
    refused: tuple[str, ...] = ()


class Copy(Frozen, frozen=True, eq=True):
    """Parsed details of a copy or memset; None means unknown."""

    source: str | None = None
    destination: str | None = None
    device: int | None = None
    size: int | None = None


def parse_geometry(text: str) -> Geometry:
    """Parse any form of `kernel_details`; an empty text gives an unknown shape."""
    pairs = dict(_PAIR.findall(text))
    refused: list[str] = []

    def number(key: str, *, limit: int, name: str) -> int | None:
        value = _integer_or_none(pairs.get(key))
        if value is not None and not 0 <= value <= limit:
            refused.append(name)
            return None
        return value

    registers = number("regs", limit=MAX_REGISTERS, name="registers")
    static = number("static_shared", limit=MAX_SHARED_BYTES, name="shared memory")
    dynamic = number("dynamic_shared", limit=MAX_SHARED_BYTES, name="shared memory")
    shared = number("shm", limit=MAX_SHARED_BYTES, name="shared memory")
    if static is not None and dynamic is not None:
        shared = static + dynamic
    # AMD's tracer writes 0 for unknown values.
    group = number("group_mem", limit=MAX_SHARED_BYTES, name="shared memory")
    block = _size_triple(pairs.get("block"), limit=MAX_THREADS)
    if block and math.prod(block) > MAX_THREADS:
        block = ()
    grid = _size_triple(pairs.get("grid"), limit=MAX_GRID)
    refused += [name for name, size in (("block", block), ("grid", grid)) if size == ()]
    return Geometry(
        registers=registers or None,
        static_shared=static,
        dynamic_shared=dynamic,
        shared=shared if shared is not None else group or None,
        block=block or None,
        grid=grid or None,
        occupancy=_recorded_occupancy(pairs, refused),
        refused=tuple(refused),
    )


def parse_copy(text: str) -> Copy:
    """Parse any form of `memcpy_details`, or of the details of a memset."""
    pairs = dict(_PAIR.findall(text))
    size = _integer_or_none(pairs.get("size", pairs.get("num_bytes")))
    if size is not None and not 0 <= size <= _MAX_BYTES:
        size = None
    # AMD's tracer writes the kind "Unknown" and size 0 if both are unknown.
    if size == 0 and pairs.get("kind", "").lower() == "unknown":
        size = None
    return Copy(
        source=pairs.get("kind_src"),
        destination=pairs.get("kind_dst"),
        device=_integer_or_none(pairs.get("dest")),
        size=size,
    )


def _integer_or_none(text: str | None) -> int | None:
    # The length is checked first, because `int()` of a long text takes quadratic time.
    if text is None or len(text) > 20:
        return None
    try:
        return int(text)
    except ValueError:
        return None


def _size_triple(
    text: str | None, *, limit: int
) -> tuple[int, int, int] | tuple[()] | None:
    """Return three sizes; () if one is impossible, None if not recorded."""
    if text is None:
        return None
    match = _TRIPLE.match(text) if len(text) <= 64 else None
    if match is None:
        return ()
    x, y, z = (int(part) for part in match.groups())
    return (x, y, z) if all(1 <= part <= limit for part in (x, y, z)) else ()


def _recorded_occupancy(pairs: Mapping[str, str], refused: list[str]) -> float | None:
    """Return the occupancy in percent; None if the details have 0 ("not available").

    Definition: docs/formats/xplane.md#device-activity.
    """
    text = pairs.get("occ_pct")
    if text is None:
        return None
    try:
        value = float(text)
    except ValueError:
        return None
    if not 0.0 <= value <= 100.0:
        refused.append("occupancy")
        return None
    return value or None


def number_geometries(
    details: Int32s, occupancy: NDArray[np.float64] | None, strings: Sequence[str]
) -> tuple[Int32s, pl.DataFrame, dict[str, int]]:
    """Number the distinct launch shapes of the given kernels.

    Args:
        details: Number of each kernel's details text, or -1.
        occupancy: Occupancy stat of each kernel, or 0; used if its details lack one.
        strings: Number → text.

    Returns:
        The row of each kernel in the table (-1 for none), the table, and per field the
        number of kernels whose value was refused as impossible.
    """
    texts = distinct_handles(details, len(strings))
    parsed = {int(text): parse_geometry(strings[text]) for text in texts.tolist()}
    refused: Counter[str] = Counter()
    if any(shape.refused for shape in parsed.values()):
        kernels = np.bincount(details[details >= 0], minlength=len(strings))
        for text, shape in parsed.items():
            for field in set(shape.refused):
                refused[field] += int(kernels[text])
    table: dict[Geometry, int] = {}
    row_of = np.full(len(strings), -1, dtype=np.int32)
    for text, geometry in parsed.items():
        if any(part is not None for part in geometry[:-1]):
            row_of[text] = table.setdefault(geometry._replace(refused=()), len(table))
    rows = values_by_row(row_of, details, none=-1)
    if occupancy is not None:
        rows = _split_by_occupancy(rows, occupancy, table)
    shapes = list(table)
    values: dict[str, list[int | float | None]] = {
        "registers": [shape.registers for shape in shapes],
        "static_shared_memory_bytes": [shape.static_shared for shape in shapes],
        "dynamic_shared_memory_bytes": [shape.dynamic_shared for shape in shapes],
        "shared_memory_bytes": [shape.shared for shape in shapes],
        "occupancy_percent": [shape.occupancy for shape in shapes],
    }
    for i, axis in enumerate("xyz"):
        values[f"block_{axis}"] = [shape.block and shape.block[i] for shape in shapes]
        values[f"grid_{axis}"] = [shape.grid and shape.grid[i] for shape in shapes]
    types = GEOMETRIES.dtypes()
    return (
        rows,
        pl.DataFrame({name: values[name] for name in types}, schema=types, strict=True),
        refused,
    )


def _split_by_occupancy(
    rows: Int32s, occupancy: NDArray[np.float64], table: dict[Geometry, int]
) -> Int32s:
    """Split shapes by the occupancies that a separate stat records."""
    shapes = list(table)
    silent = np.array([shape.occupancy is None for shape in shapes], dtype=np.bool_)
    recorded = (rows >= 0) & (occupancy > 0) & (occupancy <= 100)
    recorded &= values_by_row(silent, rows, none=False)
    if not recorded.any():
        return rows
    steps = np.rint(occupancy[recorded] / _OCCUPANCY_STEP).astype(np.int64)
    pairs, inverse = np.unique(
        np.stack([rows[recorded].astype(np.int64), steps]), axis=1, return_inverse=True
    )
    numbers = [
        table.setdefault(
            shapes[shape]._replace(occupancy=step * _OCCUPANCY_STEP), len(table)
        )
        for shape, step in pairs.T.tolist()
    ]
    result = rows.copy()
    result[recorded] = np.array(numbers, dtype=np.int32)[inverse.reshape(-1)]
    return result


class CopyTable:
    """The details of copies, by the number of their text.

    Args:
        handles: Number of each event's details text, or -1; None if no event has one.
    """

    def __init__(self, handles: Int32s | None, strings: Sequence[str]) -> None:
        self._handles = handles
        self._table = len(strings) + 1
        distinct = (
            [] if handles is None else distinct_handles(handles, len(strings)).tolist()
        )
        self._copies = {text: parse_copy(strings[text]) for text in distinct}

    def sizes(self) -> tuple[Int64s, Bools] | None:
        """Return the events' bytes and whether known; None if there are no details."""
        if self._handles is None or not self._copies:
            return None
        size = np.zeros(self._table, np.int64)
        known = np.zeros(self._table, np.bool_)
        for text, copy in self._copies.items():
            if copy.size is not None:
                size[text], known[text] = copy.size, True
        return (
            values_by_row(size, self._handles, none=0),
            values_by_row(known, self._handles, none=False),
        )

    def resolve(
        self,
        code: UInt8s,
        *,
        codes: Mapping[str, int],
        track: Int32s,
        device: Int64s,
        fallback: UInt8s,
    ) -> int:
        """Set in `code` the copy kinds that names do not show; count unknown ones.

        A local copy to another device becomes a copy between devices. A copy without a
        recorded direction gets it from the memory kinds of source and destination, else
        from its stream. If all are unknown, it counts as device-local.

        Args:
            code: Code of each event's kind, changed in place.
            codes: Kind → code.
            track: Index of each event's track in `device` and `fallback`.
            device: Device ordinal of each track.
            fallback: Code of the only copy kind that each track's name shows.
        """
        some = code == codes[SOME_COPY]
        rows = np.flatnonzero(some | (code == codes["local_copy"]))
        if not len(rows):
            return 0
        kind = np.full(self._table, codes[SOME_COPY], np.uint8)
        target = np.full(self._table, -1, np.int64)
        for text, copy in self._copies.items():
            kind[text] = codes[copy_kind(copy.source, copy.destination) or SOME_COPY]
            if copy.device is not None:
                target[text] = copy.device
        texts = np.full(len(rows), -1) if self._handles is None else self._handles[rows]
        local, open_rows = codes["local_copy"], some[rows]
        settled = np.where(open_rows, kind[texts], code[rows])
        settled = np.where(settled == codes[SOME_COPY], fallback[track[rows]], settled)
        undirected = settled == codes[SOME_COPY]
        settled[undirected] = local
        is_off_device = (target[texts] >= 0) & (target[texts] != device[track[rows]])
        settled[(settled == local) & is_off_device] = codes["p2p_copy"]
        code[rows] = settled
        return int(undirected.sum())
