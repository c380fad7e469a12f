"""Columns of a file's events, in file order, and the functions that build them."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import numpy as np
import polars as pl

from stepscope.formats.kineto.json.messages import NO_VALUE
from stepscope.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from msgspec import Raw

    from stepscope.array_types import Int32s, Int64s, UInt8s
    from stepscope.formats.kineto.json.messages import OpArgs
    from stepscope.trace.reading.texts import Shortening

#: Column of a size → name and index of the argument that has it.
_AXES: Final = {
    f"{field}_{axis}": (field, index)
    for field in ("grid", "block")
    for index, axis in enumerate("xyz")
}
#: JSON of the shapes and of the types for an op without recorded shapes.
_NO_SHAPE: Final = (b"null", b"null")
#: Columns of the frame of runtime calls.
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
#: Maximum length of a 64-bit integer as text, with its sign.
_MAX_DIGITS: Final = 21


def argument_frame(
    messages: Sequence[Any], schema: Mapping[str, pl.DataType]
) -> pl.DataFrame:
    """Return arguments of events as the columns of a schema, one row per event."""
    columns = []
    for name, dtype in schema.items():
        if name == "external":
            columns.append(_external_ids(messages))
            continue
        field, axis = _AXES.get(name, (name, None))
        values = list(map(attrgetter(field), messages))
        if axis is not None:
            values = [sizes and sizes[axis] for sizes in values]
        if dtype == pl.String():
            columns.append(pl.Series(name, values, dtype=dtype))
        else:
            columns.append(integer_series(name, values))
    # The 64 bits of an address are those of an unsigned integer.
    unsigned = [name for name, dtype in schema.items() if dtype == pl.UInt64()]
    frame = pl.DataFrame(columns)
    return frame.with_columns(pl.col(unsigned).reinterpret(signed=False))


def op_arrays(
    ops: Sequence[OpArgs], shapes: Interned[tuple[bytes, bytes]]
) -> tuple[Int64s, Int32s]:
    """Return each op's `External id` (-1 if absent), and the index of its shapes."""
    external = _external_ids(ops).fill_null(-1).to_numpy()
    types = [op.types for op in ops]
    if types.count(NO_VALUE) == len(types):
        return external, np.full(len(ops), shapes[_NO_SHAPE], np.int32)
    pairs = [
        (bytes(op.dims if op.dims is not NO_VALUE else op.dims_old), bytes(op.types))
        for op in ops
    ]
    return external, shapes.numbers(pairs)


def _external_ids(messages: Sequence[Any]) -> pl.Series:
    """Return `External id` as a column; files spell this argument in two ways."""
    external_ids = [message.external for message in messages]
    if None in external_ids:
        older = [message.external_old for message in messages]
        external_ids = [
            new if new is not None else old
            for new, old in zip(external_ids, older, strict=True)
        ]
    return integer_series("external", external_ids)


class EventColumns(Frozen, frozen=True, kw_only=True, eq=True):
    """One entry per kept event, in file order.

    Attributes:
        ordinal: int64; index of the event among all events of the file.
        kind: uint8; `EventClass`.
        process, thread: int32; indices in `FileColumns.processes`, `threads`.
    """

    ordinal: Int64s
    kind: UInt8s
    name: Int32s
    process: Int32s
    thread: Int32s
    start_ns: Int64s
    dur_ns: Int64s


class ArgumentColumns(Frozen, frozen=True, kw_only=True, eq=True):
    """Arguments of device activity, of runtime calls or of allocations.

    Attributes:
        place: int64; index in `EventColumns`, ascending.
        frame: The columns `DEVICE`, `CALLS` or `MEMORY`; null if not recorded.
    """

    place: Int64s
    frame: pl.DataFrame


class OpColumns(Frozen, frozen=True, kw_only=True, eq=True):
    """Columns of operators.

    Attributes:
        place: int64; index in `EventColumns`, ascending.
        external: int64; `External id` of the operator, -1 if absent.
        shape: int32; index of the operands' shapes and types in `FileColumns.shapes`.
    """

    place: Int64s
    external: Int64s
    shape: Int32s


class LinkColumns(Frozen, frozen=True, kw_only=True, eq=True):
    """Ends of the arrows between ops and the ops of their gradients, a row per end.

    Attributes:
        id: int64; equal at both ends of an arrow.
        start_ns: int64; start of the op at this end.
    """

    id: Int64s
    process: Int32s
    thread: Int32s
    start_ns: Int64s


class PackedValues(Frozen, frozen=True, kw_only=True, eq=True):
    """Values that were packed into the names of annotations.

    Attributes:
        place: int64; index in `EventColumns`, ascending.
    """

    place: Int64s
    json: list[Raw]


class FileColumns(Frozen, frozen=True, kw_only=True, eq=True):
    """All columns that were read from the list of events.

    Attributes:
        events: Events that become rows of `events`, unless they are refused later.
        others: Synchronisations and counters of kernels.
        names: Number of a name → name of an event.
        processes, threads: Number → process or thread, as the file writes it.
        shapes: Number → (JSON of the shapes, JSON of the types) of an op's operands.
        thread_names: (number of the process, number of the thread) → shown name.
        ranges_among_ops: Whether operators share a category with ranges of the program.
        categories: Undocumented category → number of its events.
        foreign: Category of an unsupported device → number of its events.
        phases: Unknown phase → number of its events.
        refused: Reason → number of events refused for that reason.
        examples: Reason → first characters of up to three refused events.
        decimals: Whether any time has a fraction of a microsecond.
        lenient: Number of events that are not valid JSON and were parsed leniently.
        bad_place: Offset of the first bytes that are not an event; None if there are
            none.
        cut_at: Offset at which the file ends inside an event, or None.
        total: Number of events in the file, including names and arrows.
    """

    events: EventColumns
    activity: ArgumentColumns
    calls: ArgumentColumns
    others: ArgumentColumns
    ops: OpColumns
    memory: ArgumentColumns
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
    """Value → number, in order of first appearance; looking up a new value adds it.

    `dict` is the base class, so that looking up a known value runs no Python code.
    """

    def __missing__(self, value: _Value) -> int:
        number = self[value] = len(self)
        return number

    def numbers(self, values: Sequence[_Value]) -> Int32s:
        """Return the number of each value."""
        return np.fromiter(map(self.__getitem__, values), np.int32, len(values))


def wrap_to_64_bits(value: int) -> int:
    """Return the lowest 64 bits of an integer of any size, as a signed integer."""
    wrapped = value % _WRAP
    return wrapped - _WRAP if wrapped >= _HALF else wrapped


def integer_series(name: str, values: Sequence[int | None]) -> pl.Series:
    """Return a column of integers; larger integers keep only their lowest 64 bits."""
    try:
        return pl.Series(name, values, dtype=pl.Int64)
    except (OverflowError, TypeError, pl.exceptions.PolarsError):
        signed = [None if value is None else wrap_to_64_bits(value) for value in values]
        return pl.Series(name, signed, dtype=pl.Int64)


def whole_number(value: int | str | None) -> int | None:
    """Return the id of a process or thread as a number; None for other texts."""
    if isinstance(value, int):
        return wrap_to_64_bits(value)
    if value is None or not 0 < len(value) <= _MAX_DIGITS:
        return None
    try:
        return wrap_to_64_bits(int(value))
    except ValueError:
        return None
