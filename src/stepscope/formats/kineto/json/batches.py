"""Decode the events of a document in batches of some megabytes.

The strict decoder reads a part of the event list as a separate JSON list. A part should
end between two events. If the chosen end is inside a text or nested in an event, the
part has open brackets or quotes and is not valid JSON. The reader then tries a shorter
part, as it does for damaged parts. The last few kilobytes are read event by event, from
the known start of an event.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np
from msgspec import Raw

from stepscope.formats.kineto.json.messages import (
    LENIENT_ERRORS,
    NO_ARGS,
    ArgumentsOnly,
    Event,
    ExactEvent,
    KnownEvent,
    encode_lenient_value,
    json_value,
    value_end,
)
from stepscope.formats.kineto.json.times import Microseconds, nanoseconds_of_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepscope.array_types import Int64s
    from stepscope.formats.kineto.json.document import Document

#: Size of a part of the event list, in bytes: large enough that the time between parts
#: is negligible, small enough that a part's objects need less memory than the columns.
_PART_BYTES: Final = 4 * 2**20
_SHRINK: Final = 8
#: Size in bytes up to which a refused part is read event by event.
_SINGLE_BYTES: Final = 8 * 2**10
#: Maximum size of an event in bytes; larger ones need far more memory when decoded.
MAX_EVENT_BYTES: Final = 4 * 2**20
#: Bytes after the start of an event that are searched for its closing bracket.
_MAX_SCAN: Final = 2**20

#: Maximum number of broken events whose end is searched up to `_MAX_SCAN`, and maximum
#: number of broken events per file. After that the rest of the file is left out.
_MAX_FAR_SEARCHES: Final = 256
_MAX_BROKEN: Final = 100_000

_BETWEEN: Final = re.compile(rb"\}\s*,\s*(?=\{)")
_SEPARATORS: Final = re.compile(rb"[\s,]*")
_NEXT: Final = re.compile(rb"[,\[]\s*(?=\{)")
_ENDS: Final = re.compile(rb"\}(?=\s*(?:,\s*[{\]]|\]|\Z))")

_KNOWN: Final = msgspec.json.Decoder(list[KnownEvent])
_STRICT: Final = msgspec.json.Decoder(list[Event])
_STRICT_EXACT: Final = msgspec.json.Decoder(list[ExactEvent])
_ARGUMENTS: Final = msgspec.json.Decoder(list[ArgumentsOnly])
_EVENT_DECODER: Final = msgspec.json.Decoder(ExactEvent)


_EXAMPLE_BYTES: Final = 120
_CLOSING: Final = ord("]")


@dataclass(kw_only=True)
class Batch:
    """Consecutive events of the file.

    Attributes:
        events: Decoded events; empty if only arguments were requested and decoded.
        arguments: Arguments of each event, if only arguments were requested.
        start_ns: Start of each event; `IMPOSSIBLE` if the start is not a valid number.
        decimals: Whether any start has a fraction of a microsecond.
        refused: (Offset, first bytes) of each part between events that is not an event.
        too_large: First bytes of events that are left out because of their size.
        lenient: Number of events that are not valid JSON and were parsed leniently.
        cut_at: Offset at which the file ends inside an event.
    """

    events: Sequence[Event] = ()
    arguments: Sequence[Raw] = ()
    start_ns: Int64s = field(default_factory=lambda: np.zeros(0, np.int64))
    decimals: bool = False
    refused: list[tuple[int, str]] = field(default_factory=list)
    too_large: list[str] = field(default_factory=list)
    lenient: int = 0
    cut_at: int | None = None


def read_batches(
    document: Document, *, arguments_only: bool = False
) -> Iterator[Batch]:
    """Yield every event of a document, in file order.

    Args:
        arguments_only: Decode only the arguments of events, one entry per event. A part
            that is read event by event returns whole events.
    """
    view = document.view
    reading, patience = _Reading(), _Patience()
    offset, size = document.begin, _PART_BYTES
    while True:
        offset = _skip_separators(view, offset, document.end)
        if offset >= document.end or view[offset] == _CLOSING:
            return
        stop, following = _next_boundary(view, offset + size, document.end)
        if stop is None:
            if size:
                size //= _SHRINK
                continue
            large, offset = _skip_large_event(view, offset, document.end, patience)
            yield large
            size = _PART_BYTES
            continue
        part = b"".join((b"[", view[offset:stop], b"]"))
        batch = (
            _read_arguments(part) if arguments_only else reading.decode_strictly(part)
        )
        if batch is None and size > _SINGLE_BYTES:
            size = max(size // _SHRINK, _SINGLE_BYTES)
            continue
        if batch is None:
            batch, following = _read_events_singly(
                view, offset, stop, patience, end=document.end
            )
        yield batch
        offset, size = following, min(size * 2, _PART_BYTES)


class _Patience:
    def __init__(self) -> None:
        self.far = _MAX_FAR_SEARCHES
        self.broken = _MAX_BROKEN


class _Reading:
    """Decoder of a file's events; it remembers which strict decoder the file needs."""

    def __init__(self) -> None:
        self._known = True  # all phases and categories so far are in the known list
        self._exact = False  # starts need more digits than a double has

    def decode_strictly(self, part: bytes) -> Batch | None:
        """Decode a JSON list of events; return None if the strict decoder fails."""
        try:
            if not self._exact:
                plain = self._decode_events(part)
                start = Microseconds.of([event.ts for event in plain])
                if not start.rounded:
                    return Batch(
                        events=plain,
                        start_ns=start.to_nanoseconds(),
                        decimals=not start.whole,
                    )
            events = _STRICT_EXACT.decode(part)
        except LENIENT_ERRORS:
            return None
        self._exact = True
        start_ns = nanoseconds_of_text([event.ts for event in events])
        return Batch(events=events, start_ns=start_ns, decimals=True)

    def _decode_events(self, part: bytes) -> Sequence[Event]:
        if self._known:
            try:
                return _KNOWN.decode(part)
            except msgspec.ValidationError:
                pass
        events = _STRICT.decode(part)
        self._known = False
        return events


def _next_boundary(view: memoryview, wanted: int, end: int) -> tuple[int | None, int]:
    """Return the end of the first object after `wanted`, and the next object's start.

    The end is None if no object ends within `MAX_EVENT_BYTES` bytes.
    """
    near = min(end, wanted + MAX_EVENT_BYTES)
    boundary = _BETWEEN.search(view, wanted, near) if wanted < end else None
    if boundary is not None:
        return boundary.start() + 1, boundary.end()
    return (end, end) if near == end else (None, end)


def _skip_large_event(
    view: memoryview, offset: int, end: int, patience: _Patience
) -> tuple[Batch, int]:
    """Skip an oversized event; return a batch with a note, and the next offset."""
    closing = _end_of_event(view, offset, end, patience)
    if closing > offset:
        # The event is small; only the bytes after it are not an event.
        return _read_events_singly(view, offset, closing, patience, end=end)
    boundary = _BETWEEN.search(view, offset + MAX_EVENT_BYTES, end)
    following = end if boundary is None else boundary.end()
    return Batch(
        too_large=[_text_on_one_line(bytes(view[offset : offset + _EXAMPLE_BYTES]))]
    ), following


def _skip_separators(view: memoryview, offset: int, end: int) -> int:
    separators = _SEPARATORS.match(view, offset, end)
    return offset if separators is None else separators.end()


def _read_arguments(part: bytes) -> Batch | None:
    try:
        return Batch(arguments=[event.args for event in _ARGUMENTS.decode(part)])
    except LENIENT_ERRORS:
        return None


def _read_events_singly(
    view: memoryview, begin: int, stop: int, patience: _Patience, *, end: int
) -> tuple[Batch, int]:
    """Decode a short part event by event; return the events and the next offset.

    If the part ends inside an event, the next offset is after the part.
    """
    batch = Batch()
    events: list[Event] = []
    offset = begin
    while offset < stop:
        offset = _skip_separators(view, offset, end)
        if offset >= end or view[offset] == _CLOSING:
            # Bytes after the event list of a broken document are not events.
            offset = end
            break
        after = _end_of_event(view, offset, end, patience)
        try:
            event: Event | None = _with_start_as_text(
                _EVENT_DECODER.decode(view[offset:after])
            )
        except LENIENT_ERRORS:
            # The event is not valid JSON, or has fields of unexpected types.
            value = json_value(bytes(view[offset:after]))
            event = _lenient_event(value) if isinstance(value, dict) else None
            batch.lenient += event is not None
        if event is not None:
            events.append(event)
            offset = after
        elif patience.broken:
            patience.broken -= 1
            offset = _pass_over(view, offset, end, batch)
        else:
            batch.cut_at, offset = offset, end
    start = Microseconds.of([event.ts for event in events])
    batch.events, batch.start_ns = events, start.to_nanoseconds()
    batch.decimals = not start.whole
    return batch, offset


def _pass_over(view: memoryview, offset: int, end: int, batch: Batch) -> int:
    """Skip bytes that are not an event; return where the next event may start."""
    candidate = _NEXT.search(view, offset + 1, end)
    following = end if candidate is None else candidate.end()
    nearest = _ENDS.search(view, offset, min(end, offset + _MAX_SCAN))
    if candidate is None and nearest is None:
        batch.cut_at = end
    else:
        beginning = bytes(view[offset : min(offset + _EXAMPLE_BYTES, following)])
        batch.refused.append((offset, _text_on_one_line(beginning)))
    return following


def _end_of_event(view: memoryview, offset: int, end: int, patience: _Patience) -> int:
    """Return the offset after an event, or its start if no bracket closes it."""
    # Search a short range first: most events are short, and a search copies its range.
    for window in (_SINGLE_BYTES, _MAX_SCAN):
        if window == _MAX_SCAN and not patience.far:
            break
        last = min(offset + window, end)
        # Latin-1 has one byte per character, so text positions equal byte offsets.
        stop = value_end(bytes(view[offset:last]).decode("latin-1"), 0)
        if stop is not None:
            return offset + stop
        if last == end:
            break
        patience.far -= window == _MAX_SCAN
    # JSON with matching brackets may be invalid, for example by an extra comma.
    closing = _ENDS.search(view, offset, min(end, offset + _SINGLE_BYTES))
    return offset if closing is None else closing.end()


def _with_start_as_text(event: ExactEvent) -> Event:
    """Return the event with its start as text, so that all digits are kept."""
    start = bytes(event.ts).decode("latin-1").strip('"')
    return msgspec.structs.replace(event, ts=None if start == "null" else start)


def _lenient_event(value: dict[str, Any]) -> Event:
    arguments = value.get("args")
    return Event(
        ph=_text_or_none(value.get("ph")),
        cat=_text_or_none(value.get("cat")),
        name=_text_or_none(value.get("name")),
        pid=_id_or_none(value.get("pid")),
        tid=_id_or_none(value.get("tid")),
        ts=_number_text(value.get("ts")),
        dur=_number_text(value.get("dur")),
        id=_id_or_none(value.get("id")),
        args=Raw(encode_lenient_value(arguments))
        if isinstance(arguments, dict)
        else NO_ARGS,
    )


def _text_or_none(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _id_or_none(value: object) -> int | str | None:
    if isinstance(value, bool) or not isinstance(value, int | str):
        return None
    return value


def _number_text(value: object) -> str | None:
    if value is None or isinstance(value, bool | dict | list):
        return None
    return str(value)


def _text_on_one_line(part: bytes) -> str:
    return " ".join(part.decode("utf-8", "replace").split())
