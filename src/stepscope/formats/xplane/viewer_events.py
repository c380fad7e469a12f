"""One event of a timeline that was made for a viewer, and the message form of such.

TensorFlow up to 2.1 and the tools of Cloud TPU wrote `<host>.trace`: the timeline that
later releases write as JSON, as a protobuf message (`Trace` of trace_events.proto).

Definition: docs/formats/xla_trace.md#older-timelines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from stepscope.units import PS_PER_US
from stepscope.xspace.wire import fields_of, numbers_of, text_of

if TYPE_CHECKING:
    from collections.abc import Iterator

# Fields of Trace, Device, Resource and TraceEvent.
_DEVICES: Final = 1
_EVENTS: Final = 4
_NAME: Final = 1
_RESOURCES: Final = 3
_KEY, _VALUE = 1, 2
_EVENT_DEVICE, _EVENT_RESOURCE, _EVENT_NAME = 1, 2, 3
_TIMESTAMP_PS, _DURATION_PS = 9, 10
_ARGUMENTS: Final = 11


class ViewerEvent(msgspec.Struct):
    """An event, or a name of a process or thread, in the form of a Chrome trace."""

    ph: str = ""
    pid: int = 0
    tid: int = 0
    ts: float | None = None
    dur: float = 0.0
    name: str = ""
    args: dict[str, Any] | None = None


def events_of_message(message: bytes) -> list[ViewerEvent]:
    """Return the events of a timeline in the form of a message, its names first.

    Raises:
        MalformedMessage: The message is cut or damaged.
    """
    names: list[ViewerEvent] = []
    events: list[ViewerEvent] = []
    for field, value in fields_of(message):
        if isinstance(value, int):
            continue
        if field == _DEVICES:
            names += _names(value)
        elif field == _EVENTS:
            events.append(_event(value))
    return [*names, *events]


def _names(entry: memoryview) -> Iterator[ViewerEvent]:
    """Yield the names of a process and of its threads."""
    pid, device = _pair(entry)
    for field, value in fields_of(device):
        if field == _NAME:
            yield _named("process_name", pid, 0, text_of(value))
        elif field == _RESOURCES and not isinstance(value, int):
            tid, resource = _pair(value)
            for part, name in fields_of(resource):
                if part == _NAME:
                    yield _named("thread_name", pid, tid, text_of(name))


def _named(kind: str, pid: int, tid: int, name: str) -> ViewerEvent:
    return ViewerEvent(ph="M", pid=pid, tid=tid, name=kind, args={"name": name})


def _pair(entry: memoryview) -> tuple[int, memoryview]:
    """Return the key of an entry of a map, and the message that it leads to."""
    key, found = 0, memoryview(b"")
    for field, value in fields_of(entry):
        if field == _KEY and isinstance(value, int):
            key = value
        elif field == _VALUE and not isinstance(value, int):
            found = value
    return key, found


def _event(message: memoryview) -> ViewerEvent:
    numbers = numbers_of(message)
    name, arguments = "", {}
    for field, value in fields_of(message):
        if field == _EVENT_NAME:
            name = text_of(value)
        elif field == _ARGUMENTS and not isinstance(value, int):
            pair = dict(fields_of(value))
            key = text_of(pair.get(_KEY, 0))
            # Later releases write the name of this one value with an underscore.
            key = "long_name" if key == "long name" else key
            arguments[key] = text_of(pair.get(_VALUE, 0))
    return ViewerEvent(
        ph="X",
        pid=numbers.get(_EVENT_DEVICE, 0),
        tid=numbers.get(_EVENT_RESOURCE, 0),
        ts=numbers.get(_TIMESTAMP_PS, 0) / PS_PER_US,
        dur=numbers.get(_DURATION_PS, 0) / PS_PER_US,
        name=name,
        args=arguments,
    )
