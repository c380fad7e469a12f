"""The events of a file as columns, in file order, and what columns are made with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Generic, TypeVar

import numpy as np
import polars as pl

from stepscope.formats.kineto.json.messages import NOTHING
from stepscope.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from msgspec import Raw

    from stepscope.array_types import Int32s, Int64s, UInt8s
    from stepscope.formats.kineto.json.messages import (
        ApiArgs,
        DeviceArgs,
        MemoryArgs,
        OpArgs,
    )
    from stepscope.trace.reading.texts import Shortening

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
_Value = TypeVar("_Value", bound="Hashable")
_WRAP: Final = 2**64
_HALF: Final = 2**63
#: A number of 64 bits has at most so many digits and a sign.
_MOST_DIGITS: Final = 21


def call_frame(calls: Sequence[ApiArgs]) -> pl.DataFrame:
    """Columns `CALLS`, one row per call."""
    return pl.DataFrame(
        [
            integer_series("correlation", [it.correlation for it in calls]),
            _external_ids(calls),
        ]
    )


def device_frame(activities: Sequence[DeviceArgs]) -> pl.DataFrame:
    """Columns `DEVICE`, one row per event of a device."""
    grids = [it.grid or (None, None, None) for it in activities]
    blocks = [it.block or (None, None, None) for it in activities]
    return pl.DataFrame(
        [
            integer_series("device", [it.device for it in activities]),
            integer_series("stream", [it.stream for it in activities]),
            integer_series("correlation", [it.correlation for it in activities]),
            _external_ids(activities),
            integer_series("registers", [it.registers for it in activities]),
            integer_series("shared", [it.shared for it in activities]),
            integer_series("bytes", [it.bytes for it in activities]),
            pl.Series("kind", [it.kind for it in activities], dtype=pl.String),
            *(
                integer_series(
                    name, [sizes[at % 3] for sizes in (grids, blocks)[at // 3]]
                )
                for at, name in enumerate(_AXES)
            ),
        ]
    )


def memory_frame(events: Sequence[MemoryArgs]) -> pl.DataFrame:
    """Columns `MEMORY`, one row per allocation."""
    address = integer_series("address", [it.address for it in events]).to_frame()
    return pl.DataFrame(
        [
            # The 64 bits of the address, read as a number without sign.
            address.select(pl.col("address").reinterpret(signed=False)).to_series(),
            integer_series("bytes", [it.bytes for it in events]),
            integer_series("device_type", [it.device_type for it in events]),
            integer_series("device", [it.device for it in events]),
            integer_series("allocated", [it.allocated for it in events]),
            integer_series("reserved", [it.reserved for it in events]),
        ]
    )


def op_arrays(
    ops: Sequence[OpArgs], shapes: Interned[tuple[bytes, bytes]]
) -> tuple[Int64s, Int32s]:
    """Return the `External id` of each op, -1 for none, and the number of its shape."""
    external = _external_ids(ops).fill_null(-1).to_numpy()
    types = [it.types for it in ops]
    if types.count(NOTHING) == len(types):
        return external, np.full(len(ops), shapes[_NO_SHAPE], np.int32)
    pairs = [
        (bytes(it.dims if it.dims is not NOTHING else it.dims_old), bytes(it.types))
        for it in ops
    ]
    return external, shapes.numbers(pairs)


def _external_ids(
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
    return integer_series("external", given)


class EventColumns(Frozen, frozen=True, kw_only=True, eq=True):
    """One entry per event that is kept, in file order.

    Attributes:
        ordinal: int64; which event of the file it is, the others counted too.
        kind: uint8; `EventClass`.
        process, thread: int32; numbers of the values that name its process and thread.
    """

    ordinal: Int64s
    kind: UInt8s
    name: Int32s
    process: Int32s
    thread: Int32s
    start_ns: Int64s
    dur_ns: Int64s


class DeviceColumns(Frozen, frozen=True, kw_only=True, eq=True):
    """Arguments of what ran on devices, calls of the runtime included.

    Attributes:
        place: int64; place in `EventColumns`, ascending.
        frame: `device`, `stream`, `correlation`, `external` (Int64), and of device
            events `registers`, `shared`, `bytes`, `kind`, `grid_x` … `block_z`; null
            where not recorded.
    """

    place: Int64s
    frame: pl.DataFrame


class OpColumns(Frozen, frozen=True, kw_only=True, eq=True):
    """Operators.

    Attributes:
        place: int64; place in `EventColumns`, ascending.
        external: int64; their `External id`, -1 where there is none.
        shape: int32; number of the operands' shapes and types.
    """

    place: Int64s
    external: Int64s
    shape: Int32s


class MemoryColumns(Frozen, frozen=True, kw_only=True, eq=True):
    """Allocations.

    Attributes:
        place: int64; place in `EventColumns`, ascending.
        frame: `address` (UInt64), `bytes`, `device_type`, `device`, `allocated`,
            `reserved` (Int64); null where not recorded.
    """

    place: Int64s
    frame: pl.DataFrame


class LinkColumns(Frozen, frozen=True, kw_only=True, eq=True):
    """Ends of the arrows between ops and the ops of their gradients.

    Attributes:
        id: int64; equal at both ends.
        start_ns: int64; when the op at this end begins.
    """

    id: Int64s
    process: Int32s
    thread: Int32s
    start_ns: Int64s


class PackedValues(Frozen, frozen=True, kw_only=True, eq=True):
    """Values of annotations that were packed into their names.

    Attributes:
        place: int64; place in `EventColumns`, ascending.
    """

    place: Int64s
    json: list[Raw]


class FileColumns(Frozen, frozen=True, kw_only=True, eq=True):
    """Everything that was read from the list of events.

    Attributes:
        events: What becomes rows of `events`, and possibly is refused later.
        others: Synchronisations and counters of kernels.
        names: Number → name of an event.
        processes, threads: Number → what the file calls a process or thread.
        shapes: Number → (JSON of the shapes, JSON of the types).
        thread_names: (number of the process, of the thread) → shown name.
        ranges_among_ops: The file has one category for operators and for ranges that
            the program named.
        categories: Category that nobody documents → number of its events.
        foreign: Category of a device that is not understood → number of its events.
        phases: Phase that has no meaning here → number of its events.
        refused: Reason → how many events were refused for it.
        examples: Reason → the beginnings of up to three of them.
        decimals: Whether some time is recorded more finely than to the microsecond.
        lenient: Events that could be read only by bending the rules of JSON.
        bad_place: First byte of what is no event; None where all is well.
        cut_at: Where the file ends inside an event, or None.
        total: How many events the file holds, names and arrows included.
    """

    events: EventColumns
    activity: DeviceColumns
    calls: DeviceColumns
    others: DeviceColumns
    ops: OpColumns
    memory: MemoryColumns
    links: LinkColumns
    shortening: Shortening
    values: PackedValues
    names: list[str | None]
    processes: list[int | str | None]
    threads: list[int | str | None]
    shapes: list[tuple[bytes, bytes]]
    thread_names: dict[tuple[int, int], str]
    ranges_among_ops: bool
    categories: dict[str, int]
    foreign: dict[str, int]
    phases: dict[str, int]
    refused: dict[str, int]
    examples: dict[str, list[str]]
    decimals: bool
    lenient: int
    bad_place: int | None
    cut_at: int | None
    total: int


class Interned(dict[_Value, int], Generic[_Value]):
    """Value → number, in the order of first appearance; looking a new one up adds it.

    A subclass of `dict`, so that a known value is found without running Python code.
    """

    def __missing__(self, value: _Value) -> int:
        number = self[value] = len(self)
        return number

    def numbers(self, values: Sequence[_Value]) -> Int32s:
        """Return the number of each value."""
        return np.fromiter(map(self.__getitem__, values), np.int32, len(values))


def wrap_to_64_bits(value: int) -> int:
    """Return the 64 bits of an integer of any size, as a signed one."""
    wrapped = value % _WRAP
    return wrapped - _WRAP if wrapped >= _HALF else wrapped


def integer_series(name: str, values: Sequence[int | None]) -> pl.Series:
    """Return a column of integers; what exceeds 64 bits keeps the lower ones."""
    try:
        return pl.Series(name, values, dtype=pl.Int64)
    except (OverflowError, TypeError, pl.exceptions.PolarsError):
        wrapped = [None if it is None else wrap_to_64_bits(it) for it in values]
        return pl.Series(name, wrapped, dtype=pl.Int64)


def whole_number(value: int | str | None) -> int | None:
    """Return a process's or thread's id as a number, also from text; None for words."""
    if isinstance(value, int):
        return wrap_to_64_bits(value)
    if value is None or not 0 < len(value) <= _MOST_DIGITS:
        return None
    try:
        return wrap_to_64_bits(int(value))
    except ValueError:
        return None
