"""The events of a document, some megabytes at a time.

The strict decoder reads a stretch of the list as a list of its own. A stretch ends
where an object ends and another begins. Should that be inside a text or deeper in an
event, the stretch is no valid JSON: brackets or quotes are left open. Then, as where a
stretch is broken, a shorter one is tried; the last few kilobytes are read event by
event, from a place that is known to be the beginning of one.
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

#: Long enough that the work between two stretches does not count, short enough that
#: the objects of one stretch are few beside the columns.
_STRETCH: Final = 4 * 2**20
_SHRINK: Final = 8
#: A stretch up to this is read event by event where the decoder refuses it.
_SHORT: Final = 8 * 2**10
#: A larger event is left out: it would be many times as large once it is decoded.
LARGEST_EVENT: Final = 4 * 2**20
#: An event that no bracket closes within so many bytes is broken.
_FURTHEST: Final = 2**20

#: Broken events that are searched to the far limit, and broken places in all: a file
#: with more was made to have them, and what comes after the last one is left out.
_MOST_FAR: Final = 256
_MOST_BROKEN: Final = 100_000

_BETWEEN: Final = re.compile(rb"\}\s*,\s*(?=\{)")
_SEPARATORS: Final = re.compile(rb"[\s,]*")
_NEXT: Final = re.compile(rb"[,\[]\s*(?=\{)")
_ENDS: Final = re.compile(rb"\}(?=\s*(?:,\s*[{\]]|\]|\Z))")

_KNOWN: Final = msgspec.json.Decoder(list[KnownEvent])
_STRICT: Final = msgspec.json.Decoder(list[Event])
_STRICT_EXACT: Final = msgspec.json.Decoder(list[ExactEvent])
_ARGUMENTS: Final = msgspec.json.Decoder(list[ArgumentsOnly])
_ONE: Final = msgspec.json.Decoder(ExactEvent)

AnyEvent = Event | KnownEvent | ExactEvent

_EXAMPLE: Final = 120
_CLOSING: Final = ord("]")


@dataclass(kw_only=True)
class Batch:
    """Events that follow each other in the file.

    Attributes:
        events: As decoded; none where only arguments were wanted and could be had.
        arguments: Those of each event, where only they were wanted.
        start_ns: When each of them starts; `IMPOSSIBLE` where that makes no sense.
        decimals: Whether some start is recorded more finely than to the microsecond.
        refused: (Place, beginning) of what lies between events and is no event.
        too_large: Beginnings of events that are left out because of their size.
        lenient: How many could be read only by bending the rules of JSON.
        cut_at: Where the file ends inside an event.
    """

    events: Sequence[AnyEvent] = ()
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
    """Yield every event of a document, in its order.

    Args:
        document: The file.
        arguments_only: Nothing but the arguments of events is wanted. There are as
            many of them as there are events otherwise. A stretch that is read event
            by event still returns events.
    """
    view = document.view
    reading, patience = _Reading(), _Patience()
    at, size = document.begin, _STRETCH
    while True:
        at = _skip_separators(view, at, document.end)
        if at >= document.end or view[at] == _CLOSING:
            return
        stop, following = _next_boundary(view, at + size, document.end)
        if stop is None:
            if size:
                size //= _SHRINK
                continue
            large, at = _skip_large_event(view, at, document.end, patience)
            yield large
            size = _STRETCH
            continue
        stretch = b"".join((b"[", view[at:stop], b"]"))
        batch = (
            _read_arguments(stretch)
            if arguments_only
            else reading.decode_strictly(stretch)
        )
        if batch is None and size > _SHORT:
            size = max(size // _SHRINK, _SHORT)
            continue
        if batch is None:
            batch, following = _read_events_singly(
                view, at, stop, patience, end=document.end
            )
        yield batch
        at, size = following, min(size * 2, _STRETCH)


class _Patience:
    def __init__(self) -> None:
        self.far = _MOST_FAR
        self.broken = _MOST_BROKEN


class _Reading:
    """How the events of a file have to be decoded, as far as it was seen."""

    def __init__(self) -> None:
        self._known = True  # no other phases and categories than those known
        self._exact = False  # starts need more digits than a double has

    def decode_strictly(self, stretch: bytes) -> Batch | None:
        """Return the events of a list, unless the decoder refuses it."""
        try:
            if not self._exact:
                plain = self._decode_events(stretch)
                start = Microseconds.of([event.ts for event in plain])
                if not start.rounded:
                    return Batch(
                        events=plain,
                        start_ns=start.to_nanoseconds(),
                        decimals=not start.whole,
                    )
            events = _STRICT_EXACT.decode(stretch)
        except LENIENT_ERRORS:
            return None
        self._exact = True
        start_ns = nanoseconds_of_text([event.ts for event in events])
        return Batch(events=events, start_ns=start_ns, decimals=True)

    def _decode_events(self, stretch: bytes) -> Sequence[Event | KnownEvent]:
        if self._known:
            try:
                return _KNOWN.decode(stretch)
            except msgspec.ValidationError:
                pass
        events = _STRICT.decode(stretch)
        self._known = False
        return events


def _next_boundary(view: memoryview, wanted: int, end: int) -> tuple[int | None, int]:
    """Return the end of the object that ends next, and the begin of the one after it.

    The end is None where none is near enough.
    """
    near = min(end, wanted + LARGEST_EVENT)
    found = _BETWEEN.search(view, wanted, near) if wanted < end else None
    if found is not None:
        return found.start() + 1, found.end()
    return (end, end) if near == end else (None, end)


def _skip_large_event(
    view: memoryview, at: int, end: int, patience: _Patience
) -> tuple[Batch, int]:
    """Leave out an event that is too large; return the place after it, too."""
    closing = _end_of_event(view, at, end, patience)
    if closing > at:
        # It is not that large: what follows is no event.
        return _read_events_singly(view, at, closing, patience, end=end)
    found = _BETWEEN.search(view, at + LARGEST_EVENT, end)
    following = end if found is None else found.end()
    return Batch(
        too_large=[_text_on_one_line(bytes(view[at : at + _EXAMPLE]))]
    ), following


def _skip_separators(view: memoryview, at: int, end: int) -> int:
    found = _SEPARATORS.match(view, at, end)
    return at if found is None else found.end()


def _read_arguments(stretch: bytes) -> Batch | None:
    try:
        return Batch(arguments=[it.args for it in _ARGUMENTS.decode(stretch)])
    except LENIENT_ERRORS:
        return None


def _read_events_singly(
    view: memoryview, begin: int, stop: int, patience: _Patience, *, end: int
) -> tuple[Batch, int]:
    """Return the events of a short stretch, and the place after the last one.

    That place may lie after the stretch, which may have ended inside an event.
    """
    batch = Batch()
    events: list[Event] = []
    at = begin
    while at < stop:
        at = _skip_separators(view, at, end)
        if at >= end or view[at] == _CLOSING:
            # After the list of a broken document nothing is an event.
            at = end
            break
        following = _end_of_event(view, at, end, patience)
        try:
            event: Event | None = _with_start_as_text(_ONE.decode(view[at:following]))
        except LENIENT_ERRORS:
            # It breaks a rule of JSON or has fields of unknown types.
            value = json_value(bytes(view[at:following]))
            event = _lenient_event(value) if isinstance(value, dict) else None
            batch.lenient += event is not None
        if event is not None:
            events.append(event)
            at = following
        elif patience.broken:
            patience.broken -= 1
            at = _pass_over(view, at, end, batch)
        else:
            batch.cut_at, at = at, end
    start = Microseconds.of([event.ts for event in events])
    batch.events, batch.start_ns = events, start.to_nanoseconds()
    batch.decimals = not start.whole
    return batch, at


def _pass_over(view: memoryview, at: int, end: int, batch: Batch) -> int:
    """Leave out what is no event; the place where one may begin again."""
    found = _NEXT.search(view, at + 1, end)
    following = end if found is None else found.end()
    nearest = _ENDS.search(view, at, min(end, at + _FURTHEST))
    if found is None and nearest is None:
        batch.cut_at = end
    else:
        beginning = bytes(view[at : min(at + _EXAMPLE, following)])
        batch.refused.append((at, _text_on_one_line(beginning)))
    return following


def _end_of_event(view: memoryview, at: int, end: int, patience: _Patience) -> int:
    """Return where an event ends, if known; its begin where nothing closes it."""
    # A window that grows: most events are short, and each try reads all of it.
    for window in (_SHORT, _FURTHEST):
        if window == _FURTHEST and not patience.far:
            break
        last = min(at + window, end)
        # One byte per character, so that a place in the text is one in the bytes.
        stop = value_end(bytes(view[at:last]).decode("latin-1"), 0)
        if stop is not None:
            return at + stop
        if last == end:
            break
        patience.far -= window == _FURTHEST
    # It breaks a rule that brackets do not show, such as a comma before one.
    found = _ENDS.search(view, at, min(end, at + _SHORT))
    return at if found is None else found.end()


def _with_start_as_text(event: ExactEvent) -> Event:
    """Return the event with its start as text, so that no digit is lost."""
    start = bytes(event.ts).decode("latin-1").strip('"')
    return Event(
        ph=event.ph,
        cat=event.cat,
        name=event.name,
        pid=event.pid,
        tid=event.tid,
        ts=None if start == "null" else start,
        dur=event.dur,
        id=event.id,
        args=event.args,
    )


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
