"""Find the top-level fields and the event list of a JSON trace file.

The top level is an object with `traceEvents`, or the list of events itself. If the
decoder refuses the whole document because it is cut or broken, its fields and events
are searched in the bytes, and every readable part is used.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING, Final, cast

import msgspec
import numpy as np
from msgspec import Raw

from stepscope.errors import BadInput, Malformed
from stepscope.formats.kineto.json.messages import (
    LENIENT_ERRORS,
    encode_lenient_value,
    json_value,
    value_end,
)
from stepscope.frozen import Frozen
from stepscope.remedies import Remedy
from stepscope.rundir import LIMIT_BYTES
from stepscope.trace.reading.texts import shorten_text
from stepscope.xspace.reading.source import open_bytes

if TYPE_CHECKING:
    from pathlib import Path

    from stepscope.array_types import UInt8s

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_SPACE: Final = re.compile(rb"\s*")
_EVENTS: Final = re.compile(rb'"traceEvents"\s*:\s*\[')
#: Matches the end of the event list, before a field or the document's end. The
#: possessive `+` prevents backtracking, which is very slow on a million spaces.
_EVENTS_END: Final = re.compile(rb"\}\s*+,?+\s*+\](?=\s*+(?:,\s*+\"|\}|\Z))")
_PLACE: Final = re.compile(r"\(byte (\d+)\)")

#: Top-level fields that are searched in a broken document, within `_EDGE_BYTES` bytes
#: before the events or at the end of the file.
_FIELDS: Final = (
    "schemaVersion",
    "deviceProperties",
    "distributedInfo",
    "baseTimeNanoseconds",
    "displayTimeUnit",
    "trace_id",
    "host_name",
    "traceName",
    "cuda_runtime_version",
    "cuda_driver_version",
    "cupti_version",
    "hip_runtime_version",
    "hip_driver_version",
    "roctracer_version",
)
_EDGE_BYTES: Final = 2**20
#: Maximum number of positions that are tried as the end of the event list.
_MAX_CANDIDATES: Final = 64

_EXPORT_AGAIN: Final = "Export it again with torch.profiler (export_chrome_trace)."


class Document(Frozen, frozen=True, kw_only=True, eq=True):
    """A trace file.

    Attributes:
        data: The content, decompressed.
        fields: Top-level field → its JSON, without the events.
        begin, end: Half-open range of the events in the data, without brackets. In a
            broken document, `end` may be after the end of the list.
        cut_at: Offset at which the data end too early; None in a whole file.
    """

    name: str
    data: UInt8s
    fields: dict[str, bytes]
    begin: int
    end: int
    cut_at: int | None

    @property
    def view(self) -> memoryview:
        """The content as a memoryview, which can be sliced without copying."""
        return _view_of_bytes(self.data)


def open_document(
    path: Path, *, limit_bytes: int = LIMIT_BYTES, mapped: bool = True
) -> Document:
    """Map, copy or decompress a file, and find its parts.

    Raises:
        BadInput: The file cannot be opened, is not JSON, or holds no events.
    """
    data, damage = open_bytes(path, limit_bytes=limit_bytes, mapped=mapped)
    return find_document_parts(data, str(path), damaged=bool(damage))


def find_document_parts(data: UInt8s, name: str, *, damaged: bool = False) -> Document:
    """Find the top-level fields and the event list of a document.

    Args:
        name: Name of the file in error messages.
        damaged: Whether the compression was damaged or cut, so that the data end early.

    Raises:
        BadInput: The content is not JSON, or holds no events.
    """
    view = _view_of_bytes(data)
    start = len(_BYTE_ORDER_MARK) if bytes(view[:3]) == _BYTE_ORDER_MARK else 0
    start = _SPACE.match(view, start).end()  # type: ignore[union-attr]
    opening = bytes(view[start : start + 1])
    if opening not in (b"{", b"["):
        raise Malformed.broken_at_offset(name, start, "this is not JSON", _EXPORT_AGAIN)
    if opening == b"{":
        parts = _parts_around_events(data, view, start, name, damaged=damaged)
        if parts is not None:
            return parts
    try:
        fields = _decode_fields(view[start:], opening)
    except LENIENT_ERRORS as error:
        return _parts_of_damaged(data, name, start, opening=opening, message=str(error))
    events = fields.pop("traceEvents", None)
    for field, raw in fields.items():
        size = memoryview(raw).nbytes
        if size > _EDGE_BYTES:
            raise BadInput.at(
                name,
                f"the field {shorten_text(field, 80)!r} has {size:,} bytes; the "
                f"maximum is {_EDGE_BYTES:,} bytes",
                _EXPORT_AGAIN,
            )
    if events is None:
        raise BadInput.at(name, "holds no traceEvents", _EXPORT_AGAIN)
    part = np.frombuffer(memoryview(events), np.uint8)
    begin = int(part.ctypes.data - data.ctypes.data)
    length = memoryview(events).nbytes
    if bytes(view[begin : begin + 1]) != b"[":
        raise Malformed.broken_at_offset(
            name, begin, "traceEvents is not a list", _EXPORT_AGAIN
        )
    return Document(
        name=name,
        data=data,
        fields={key: bytes(raw) for key, raw in fields.items()},
        begin=begin + 1,
        end=begin + length - 1,
        cut_at=len(data) if damaged else None,
    )


def _parts_around_events(
    data: UInt8s, view: memoryview, start: int, name: str, *, damaged: bool
) -> Document | None:
    """Find the parts of a document that has little content outside of its events.

    The event list is not decoded to find its end. The bytes before the events must be
    the start of an object with the events as its last field. The bytes after the events
    must be the rest of the object. So the list is not inside a text or an event.
    """
    head = _EVENTS.search(view, start, min(start + _EDGE_BYTES, len(data)))
    if head is None:
        return None
    tail = max(head.end(), len(data) - _EDGE_BYTES)
    for ending in islice(_EVENTS_END.finditer(view, tail), _MAX_CANDIDATES):
        closing = ending.end() - 1
        try:
            fields = _decode_fields(bytes(view[start : head.end()]) + b"]}", b"{")
            fields |= _decode_fields(b'{"traceEvents":[' + view[closing:], b"{")
        except LENIENT_ERRORS:
            continue
        del fields["traceEvents"]
        return Document(
            name=name,
            data=data,
            fields={key: bytes(raw) for key, raw in fields.items()},
            begin=head.end(),
            end=closing,
            cut_at=len(data) if damaged else None,
        )
    return None


def _view_of_bytes(data: UInt8s) -> memoryview:
    # NumPy arrays support the buffer protocol, but their type stubs do not declare it.
    return memoryview(cast("bytes", data))


def _decode_fields(part: memoryview | bytes, opening: bytes) -> dict[str, Raw]:
    if opening == b"[":
        return {"traceEvents": msgspec.json.decode(part, type=Raw)}
    return msgspec.json.decode(part, type=dict[str, Raw])


def _parts_of_damaged(
    data: UInt8s, name: str, start: int, *, opening: bytes, message: str
) -> Document:
    view = _view_of_bytes(data)
    begin = start + 1
    if opening == b"{":
        opening_match = _EVENTS.search(view, start)
        if opening_match is None:
            place = _PLACE.search(message)
            raise Malformed.broken_at_offset(
                name,
                start + int(place[1]) if place else len(data),
                f"no list of events; {message.removesuffix('.')}",
                Remedy.COPY_AGAIN,
            )
        begin = opening_match.end()
    tail = max(begin, len(data) - _EDGE_BYTES)
    endings = [match.start() + 1 for match in _EVENTS_END.finditer(view, tail)]
    fields = _search_known_fields(bytes(view[max(start, begin - _EDGE_BYTES) : begin]))
    if endings:
        fields |= _search_known_fields(bytes(view[endings[0] :]))
    # An empty event list is closed immediately.
    empty = _SPACE.match(view, begin).end()  # type: ignore[union-attr]
    listed = bool(endings) or bytes(view[empty : empty + 1]) == b"]"
    last = bytes(view[-_EDGE_BYTES:]).rstrip()[-1:]
    closed = listed and last == {b"{": b"}", b"[": b"]"}[opening]
    return Document(
        name=name,
        data=data,
        fields=fields,
        begin=begin,
        end=len(data),
        cut_at=None if closed else len(data),
    )


def _search_known_fields(part: bytes) -> dict[str, bytes]:
    # Latin-1 has one byte per character, so text positions equal byte offsets.
    text = part.decode("latin-1")
    fields = {}
    for field in _FIELDS:
        key = re.search(rf'"{field}"\s*:\s*', text)
        end = None if key is None else value_end(text, key.end())
        if key is not None and end is not None:
            fields[field] = encode_lenient_value(json_value(part[key.end() : end]))
    return fields
