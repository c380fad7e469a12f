"""The file as a JSON document: its top level, and where its events are.

The top level is an object with `traceEvents`, or the list of events itself. A document
that the decoder refuses as a whole (cut, or broken somewhere) is looked through for its
parts, so that everything that is still readable is read.
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
#: The end of the list of events, with what follows it. Without the `+` after each
#: repetition a million blanks would be divided in every possible way.
_EVENTS_END: Final = re.compile(rb"\}\s*+,?+\s*+\](?=\s*+(?:,\s*+\"|\}|\Z))")
_PLACE: Final = re.compile(r"\(byte (\d+)\)")

#: Fields of the top level that are looked for in a broken document. They lie before
#: or after the events, within so many bytes of either end.
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
_NEAR_AN_END: Final = 2**20
#: So many places are tried that may be the end of the events.
_TRIED: Final = 64

_EXPORT_AGAIN: Final = "Export it again with torch.profiler (export_chrome_trace)."


class Document(Frozen, frozen=True, kw_only=True, eq=True):
    """A trace file.

    Attributes:
        data: The content, unpacked.
        fields: Field of the top level → its JSON, the events left out.
        begin, end: Where the events are in the data, brackets left out. The end may
            lie after the list's own where the document is broken.
        cut_at: Where the data end too early, None where they do not.
    """

    name: str
    data: UInt8s
    fields: dict[str, bytes]
    begin: int
    end: int
    cut_at: int | None

    @property
    def view(self) -> memoryview:
        """The content, to be sliced without copying."""
        return _view_of_bytes(self.data)


def open_document(
    path: Path, *, limit_bytes: int = LIMIT_BYTES, mapped: bool = True
) -> Document:
    """Map (or copy) or unpack a file, and find its parts.

    Raises:
        BadInput: It cannot be opened, is no JSON, or holds no events.
    """
    data, damage = open_bytes(path, limit_bytes=limit_bytes, mapped=mapped)
    return find_document_parts(data, str(path), damaged=bool(damage))


def find_document_parts(data: UInt8s, name: str, *, damaged: bool = False) -> Document:
    """Find the parts of a document.

    Args:
        data: The content.
        name: What errors call it.
        damaged: The packing was damaged or cut, so that the data end too early.

    Raises:
        BadInput: It is no JSON, or holds no events.
    """
    view = _view_of_bytes(data)
    start = len(_BYTE_ORDER_MARK) if bytes(view[:3]) == _BYTE_ORDER_MARK else 0
    start = _SPACE.match(view, start).end()  # type: ignore[union-attr]
    opening = bytes(view[start : start + 1])
    if opening not in (b"{", b"["):
        raise Malformed.broken_at_offset(name, start, "this is no JSON", _EXPORT_AGAIN)
    if opening == b"{":
        found = _parts_around_events(data, view, start, name, damaged=damaged)
        if found is not None:
            return found
    try:
        fields = _decode_fields(view[start:], opening)
    except LENIENT_ERRORS as error:
        return _parts_of_damaged(data, name, start, opening=opening, why=str(error))
    events = fields.pop("traceEvents", None)
    for field, raw in fields.items():
        size = memoryview(raw).nbytes
        if size > _NEAR_AN_END:
            raise BadInput.at(
                name,
                f"the field {shorten_text(field, 80)!r} has {size:,} bytes, and at "
                f"most {_NEAR_AN_END:,} are read",
                _EXPORT_AGAIN,
            )
    if events is None:
        raise BadInput.at(name, "holds no traceEvents", _EXPORT_AGAIN)
    part = np.frombuffer(memoryview(events), np.uint8)
    begin = int(part.ctypes.data - data.ctypes.data)
    length = memoryview(events).nbytes
    if bytes(view[begin : begin + 1]) != b"[":
        raise Malformed.broken_at_offset(
            name, begin, "traceEvents is no list", _EXPORT_AGAIN
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
    """Return the parts of a document around whose events everything else is short.

    Then the events need not be searched for their end. The bytes before them must be
    the beginning of an object whose last field they are, and the bytes after them must
    be its rest; so neither place can lie inside a text or an event.
    """
    head = _EVENTS.search(view, start, min(start + _NEAR_AN_END, len(data)))
    if head is None:
        return None
    tail = max(head.end(), len(data) - _NEAR_AN_END)
    for ending in islice(_EVENTS_END.finditer(view, tail), _TRIED):
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
    # Arrays have had the buffer protocol all along, which their stubs do not say.
    return memoryview(cast("bytes", data))


def _decode_fields(part: memoryview | bytes, opening: bytes) -> dict[str, Raw]:
    if opening == b"[":
        return {"traceEvents": msgspec.json.decode(part, type=Raw)}
    return msgspec.json.decode(part, type=dict[str, Raw])


def _parts_of_damaged(
    data: UInt8s, name: str, start: int, *, opening: bytes, why: str
) -> Document:
    view = _view_of_bytes(data)
    begin = start + 1
    if opening == b"{":
        found = _EVENTS.search(view, start)
        if found is None:
            place = _PLACE.search(why)
            raise Malformed.broken_at_offset(
                name,
                start + int(place[1]) if place else len(data),
                f"no list of events; {why.removesuffix('.')}",
                Remedy.COPY_AGAIN,
            )
        begin = found.end()
    tail = max(begin, len(data) - _NEAR_AN_END)
    endings = [it.start() + 1 for it in _EVENTS_END.finditer(view, tail)]
    head = bytes(view[max(start, begin - _NEAR_AN_END) : begin])
    fields = _search_known_fields(head)
    if endings:
        fields |= _search_known_fields(bytes(view[endings[0] :]))
    # A list of events without any is closed at once.
    empty = _SPACE.match(view, begin).end()  # type: ignore[union-attr]
    listed = bool(endings) or bytes(view[empty : empty + 1]) == b"]"
    last = bytes(view[-_NEAR_AN_END:]).rstrip()[-1:]
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
    # One byte per character, so that a place in the text is one in the bytes.
    text = part.decode("latin-1")
    found = {}
    for field in _FIELDS:
        key = re.search(rf'"{field}"\s*:\s*', text)
        end = None if key is None else value_end(text, key.end())
        if key is not None and end is not None:
            found[field] = encode_lenient_value(json_value(part[key.end() : end]))
    return found
