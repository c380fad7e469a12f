"""Conversion of PyTorch's activity arguments to event stats, many events at a time."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec
import numpy as np
from msgspec import Raw

from stepscope.xspace.fields import DOUBLE, INT, REF, UINT
from stepscope.xspace.writing.encode import StatColumn

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stepscope.xspace.writing.builders import PlaneBuilder

#: Name → one value per event; None for an event without the value.
Values = dict[str, list[Any]]

_ARGUMENTS: Final = msgspec.json.Decoder(list[dict[str, Raw]])
#: Omitted arguments: they only number the records, or are stored elsewhere.
_LEFT_OUT: Final = frozenset({"Ev Idx", "Record function id", "External id"})
#: Arguments of kernels and copies that other stats or the event's line contain.
_SKIP: Final = frozenset(
    {"device", "stream", "context", "queued", "correlation", "bytes"}
    | {"grid", "block", "registers per thread", "shared memory"}
)
_SIGNED_END: Final = 2**63
_UNSIGNED_END: Final = 2**64


def decoded_arguments(arguments: Sequence[bytes], category: str) -> Values:
    """Return the arguments of one category's events, renamed for profile readers.

    Numbers and texts are kept, booleans become 0 or 1, lists and objects stay JSON
    text. Arguments that are not valid JSON are left out.
    """
    raws: dict[str, list[Raw | None]] = {}
    for row, fields in enumerate(_decoded_objects(arguments)):
        for key, raw in fields.items():
            if key in _LEFT_OUT:
                continue
            if key not in raws:
                raws[key] = [None] * len(arguments)
            raws[key][row] = raw
    values = {key: _decode_values(column) for key, column in raws.items()}
    renamed = {}
    if "correlation" in values:
        renamed["correlation_id"] = values["correlation"]
    if category == "kernel":
        renamed["kernel_details"] = _detail_texts(
            ("regs", values.get("registers per thread")),
            ("shm", values.get("shared memory")),
            ("grid", _triple_texts(values.get("grid"))),
            ("block", _triple_texts(values.get("block"))),
        )
    elif category == "gpu_memcpy":
        renamed["memcpy_details"] = _detail_texts(("size", values.get("bytes")))
    elif category == "gpu_memset":
        renamed["memset_details"] = _detail_texts(("num_bytes", values.get("bytes")))
    moved = _SKIP if category in ("kernel", "gpu_memcpy", "gpu_memset") else frozenset()
    unchanged = {key: column for key, column in values.items() if key not in moved}
    return {**unchanged, **renamed}


def stat_columns(
    plane: PlaneBuilder, values: Mapping[str, list[Any]]
) -> list[StatColumn]:
    """Return columns of event values, one for each pair of name and value type."""
    return [
        column
        for name, of_events in values.items()
        for column in _typed_columns(plane, plane.stat_id(name), of_events)
    ]


def _decoded_objects(arguments: Sequence[bytes]) -> list[dict[str, Raw]]:
    with suppress(msgspec.DecodeError, UnicodeDecodeError):
        return _ARGUMENTS.decode(b"[" + b",".join(arguments) + b"]")
    if len(arguments) == 1:
        return [{}]
    # Some event has invalid JSON, so decode each event separately.
    return [decoded for text in arguments for decoded in _decoded_objects([text])]


def _decode_values(raws: Sequence[Raw | None]) -> list[Any]:
    """Return the values of one argument; each distinct text is decoded once."""
    known: dict[bytes | None, Any] = {None: None}
    values = []
    for raw in raws:
        written = None if raw is None else bytes(raw)
        if written not in known:
            known[written] = _decode_value(cast("bytes", written))
        values.append(known[written])
    return values


def _decode_value(written: bytes) -> Any:
    if written[:1] in b"[{":
        return written.decode("utf-8", "replace")
    try:
        value = msgspec.json.decode(written)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return int(value) if isinstance(value, bool) else value


def _triple_texts(column: list[Any] | None) -> list[Any] | None:
    if column is None:
        return None
    return [
        ",".join(map(str, msgspec.json.decode(triple)))
        if isinstance(triple, str)
        else None
        for triple in column
    ]


def _detail_texts(*fields: tuple[str, list[Any] | None]) -> list[Any]:
    present = [(key, column) for key, column in fields if column is not None]
    if not present:
        return []
    return [
        " ".join(
            f"{key}:{value}"
            for (key, _), value in zip(present, of_event, strict=True)
            if value is not None
        )
        or None
        for of_event in zip(*(column for _, column in present), strict=True)
    ]


def _typed_columns(
    plane: PlaneBuilder, key: int, values: Sequence[Any]
) -> list[StatColumn]:
    kinds: dict[int, tuple[list[Any], list[bool]]] = {}
    for row, value in enumerate(values):
        if value is None:
            continue
        kind, stored = _stored_value(plane, value)
        if kind not in kinds:
            kinds[kind] = ([0] * len(values), [False] * len(values))
        column, present = kinds[kind]
        column[row], present[row] = stored, True
    dtypes = {DOUBLE: np.float64, UINT: np.uint64}
    return [
        StatColumn(
            key,
            kind,
            np.array(column, dtypes.get(kind, np.int64)),
            np.array(present, bool),
        )
        for kind, (column, present) in kinds.items()
    ]


def _stored_value(plane: PlaneBuilder, value: Any) -> tuple[int, Any]:
    if isinstance(value, str):
        return REF, plane.stat_id(value)
    if isinstance(value, int):
        if -_SIGNED_END <= value < _SIGNED_END:
            return INT, value
        if 0 < value < _UNSIGNED_END:
            return UINT, value
    return DOUBLE, float(value)
