"""Decoded arguments become columns; what is not recorded is null."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.formats.kineto.columns.declared import integers
from stepscope.formats.kineto.json.messages import NOTHING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from stepscope.formats.kineto.columns.declared import Interned
    from stepscope.formats.kineto.json.messages import (
        ApiArgs,
        DeviceArgs,
        MemoryArgs,
        OpArgs,
    )

_AXES: Final = tuple(f"{what}_{axis}" for what in ("grid", "block") for axis in "xyz")

#: JSON of the shapes and types of an op that recorded neither.
_NO_SHAPE: Final = (b"null", b"null")

#: Columns of the frames.
CALLS: Final[dict[str, pl.DataType]] = {
    "correlation": pl.Int64(),
    "external": pl.Int64(),
}
DEVICE: Final[dict[str, pl.DataType]] = {
    "device": pl.Int64(),
    "stream": pl.Int64(),
    **CALLS,
    "registers": pl.Int64(),
    "shared": pl.Int64(),
    "bytes": pl.Int64(),
    "kind": pl.String(),
    **dict.fromkeys(_AXES, pl.Int64()),
}
MEMORY: Final[dict[str, pl.DataType]] = {
    "address": pl.UInt64(),
    "bytes": pl.Int64(),
    "device_type": pl.Int64(),
    "device": pl.Int64(),
    "allocated": pl.Int64(),
    "reserved": pl.Int64(),
}


def call_frame(calls: Sequence[ApiArgs]) -> pl.DataFrame:
    """Columns `CALLS`, one row per call."""
    return pl.DataFrame(
        [integers("correlation", [it.correlation for it in calls]), _external(calls)]
    )


def device_frame(activities: Sequence[DeviceArgs]) -> pl.DataFrame:
    """Columns `DEVICE`, one row per event of a device."""
    grids = [it.grid or (None, None, None) for it in activities]
    blocks = [it.block or (None, None, None) for it in activities]
    return pl.DataFrame(
        [
            integers("device", [it.device for it in activities]),
            integers("stream", [it.stream for it in activities]),
            integers("correlation", [it.correlation for it in activities]),
            _external(activities),
            integers("registers", [it.registers for it in activities]),
            integers("shared", [it.shared for it in activities]),
            integers("bytes", [it.bytes for it in activities]),
            pl.Series("kind", [it.kind for it in activities], dtype=pl.String),
            *(
                integers(name, [sizes[at % 3] for sizes in (grids, blocks)[at // 3]])
                for at, name in enumerate(_AXES)
            ),
        ]
    )


def memory_frame(events: Sequence[MemoryArgs]) -> pl.DataFrame:
    """Columns `MEMORY`, one row per allocation."""
    address = integers("address", [it.address for it in events]).to_frame()
    return pl.DataFrame(
        [
            # The 64 bits of the address, read as a number without sign.
            address.select(pl.col("address").reinterpret(signed=False)).to_series(),
            integers("bytes", [it.bytes for it in events]),
            integers("device_type", [it.device_type for it in events]),
            integers("device", [it.device for it in events]),
            integers("allocated", [it.allocated for it in events]),
            integers("reserved", [it.reserved for it in events]),
        ]
    )


def op_arrays(
    ops: Sequence[OpArgs], shapes: Interned[tuple[bytes, bytes]]
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return the `External id` of each op, -1 for none, and the number of its shape."""
    external = _external(ops).fill_null(-1).to_numpy()
    types = [it.types for it in ops]
    if types.count(NOTHING) == len(types):
        return external, np.full(len(ops), shapes[_NO_SHAPE], np.int32)
    pairs = [
        (bytes(it.dims if it.dims is not NOTHING else it.dims_old), bytes(it.types))
        for it in ops
    ]
    return external, shapes.numbers(pairs)


def _external(
    messages: Sequence[ApiArgs] | Sequence[DeviceArgs] | Sequence[OpArgs],
) -> pl.Series:
    """`External id` in its two spellings."""
    given = [it.external for it in messages]
    if None in given:
        older = [it.external_old for it in messages]
        given = [
            new if new is not None else old
            for new, old in zip(given, older, strict=True)
        ]
    return integers("external", given)
