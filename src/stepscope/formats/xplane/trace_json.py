"""Convert the timeline that TensorFlow, JAX and XLA write for a viewer to a profile.

`<host>.trace.json.gz` is made from a profile: planes become processes, lines become
threads, and values become texts. This module rebuilds the profile message from the
content that the timeline has, and the message is read like any profile.

Definition: docs/formats/xla_trace.md.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import msgspec

from stepscope.errors import BadInput
from stepscope.formats.assemble import only_file
from stepscope.remedies import Remedy
from stepscope.units import PS_PER_US
from stepscope.xspace.reading.source import open_bytes
from stepscope.xspace.wire import (
    MalformedMessage,
    field_text,
    number_fields,
    read_fields,
)
from stepscope.xspace.writing.builders import Unsigned
from stepscope.xspace.writing.write import XSpaceBuilder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepscope.rundir import HostFiles
    from stepscope.xspace.writing.builders import LineBuilder, PlaneBuilder, Value

# Field numbers of Trace, Device, Resource and TraceEvent.
_DEVICES: Final = 1
_EVENTS: Final = 4
_NAME: Final = 1
_RESOURCES: Final = 3
_KEY, _VALUE = 1, 2
_EVENT_DEVICE, _EVENT_RESOURCE, _EVENT_NAME = 1, 2, 3
_TIMESTAMP_PS, _DURATION_PS = 9, 10
_ARGUMENTS: Final = 11
#: Duration of instants, in ps; producers write 1 because viewers hide length 0.
_INSTANT_PS: Final = 1
#: Maximum number of events that a producer writes into one timeline.
_MAX_EVENTS: Final = 1_000_000
#: Longest plausible recording, in µs: 11 days. Longer times count from 1970.
_NOT_OF_A_RECORDING_US: Final = 10.0**12
#: Upper limit of a time since 1970, in µs: 3,000 years.
_NOT_A_TIME_US: Final = 10.0**17
#: Derived lines have negative 32-bit ids: unsigned, they are at least this number.
_NEGATIVE: Final = 2**31
#: First byte of the older, binary form of the timeline: the tag of its first process.
_MESSAGE: Final = b"\x0a"
_LONG_NAME: Final = "long_name"
#: Values that may look like numbers but are texts in a profile.
_TEXTS: Final = frozenset(
    {"step_name", "hlo_op", "hlo_module", "tf_op", "annotation", "name", "context_id"}
)
_INTEGER: Final = re.compile(r"-?\d{1,20}\Z")
_DECIMAL: Final = re.compile(r"-?\d+\.\d+(?:[eE][-+]?\d+)?\Z")
_MAX_INT: Final = 2**63 - 1
_MAX_UINT: Final = 2**64 - 1


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
    """Return a binary timeline's events; the first events name processes and threads.

    Raises:
        MalformedMessage: The message is cut or damaged.
    """
    names: list[ViewerEvent] = []
    events: list[ViewerEvent] = []
    for field, value in read_fields(message):
        if isinstance(value, int):
            continue
        if field == _DEVICES:
            names += _name_events(value)
        elif field == _EVENTS:
            events.append(_read_event(value))
    return [*names, *events]


def _name_events(entry: memoryview) -> Iterator[ViewerEvent]:
    pid, device = _key_and_value(entry)
    for field, value in read_fields(device):
        if field == _NAME:
            yield _name_event("process_name", pid, 0, field_text(value))
        elif field == _RESOURCES and not isinstance(value, int):
            tid, resource = _key_and_value(value)
            for part, name in read_fields(resource):
                if part == _NAME:
                    yield _name_event("thread_name", pid, tid, field_text(name))


def _name_event(kind: str, pid: int, tid: int, name: str) -> ViewerEvent:
    return ViewerEvent(ph="M", pid=pid, tid=tid, name=kind, args={"name": name})


def _key_and_value(entry: memoryview) -> tuple[int, memoryview]:
    key, value_bytes = 0, memoryview(b"")
    for field, value in read_fields(entry):
        if field == _KEY and isinstance(value, int):
            key = value
        elif field == _VALUE and not isinstance(value, int):
            value_bytes = value
    return key, value_bytes


def _read_event(message: memoryview) -> ViewerEvent:
    numbers = number_fields(message)
    name, arguments = "", {}
    for field, value in read_fields(message):
        if field == _EVENT_NAME:
            name = field_text(value)
        elif field == _ARGUMENTS and not isinstance(value, int):
            pair = dict(read_fields(value))
            key = field_text(pair.get(_KEY, 0))
            # Later releases write this name with an underscore.
            key = "long_name" if key == "long name" else key
            arguments[key] = field_text(pair.get(_VALUE, 0))
    return ViewerEvent(
        ph="X",
        pid=numbers.get(_EVENT_DEVICE, 0),
        tid=numbers.get(_EVENT_RESOURCE, 0),
        ts=numbers.get(_TIMESTAMP_PS, 0) / PS_PER_US,
        dur=numbers.get(_DURATION_PS, 0) / PS_PER_US,
        name=name,
        args=arguments,
    )


class _Document(msgspec.Struct):
    events: list[ViewerEvent] = msgspec.field(name="traceEvents")


def profile_message(source: HostFiles) -> bytes:
    """Return the profile message from which a timeline was made.

    Raises:
        BadInput: The file is not such a timeline, or is broken.
    """
    path = only_file(source)
    data = open_bytes(path, limit_bytes=source.limit_bytes, mapped=source.mapped)[0]
    remedy = "Copy the whole file again, or give the .xplane.pb next to it."
    content = data.tobytes()
    try:
        if content.startswith(_MESSAGE):
            events = events_of_message(content)
        else:
            events = msgspec.json.decode(content, type=_Document, strict=False).events
        return _message_of_events(source.host, events)
    except MalformedMessage:
        raise BadInput.at(path, "is cut or damaged", remedy) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadInput.at(path, f"the JSON is broken or cut: {error}", remedy) from None
    except RecursionError:
        raise BadInput.at(
            path, "its values are nested too deeply", Remedy.COPY_AGAIN
        ) from None


def _message_of_events(host: str, events: list[ViewerEvent]) -> bytes:
    space = XSpaceBuilder(host, start_ns=None)
    timed = [
        event
        for event in events
        if event.ph == "X" and event.ts is not None and abs(event.ts) < _NOT_A_TIME_US
    ]
    times = [event.ts or 0.0 for event in timed]
    begin = min(times) if times and max(times) >= _NOT_OF_A_RECORDING_US else 0.0
    # Maximum duration of an event, and maximum distance from the first event.
    longest = _NOT_OF_A_RECORDING_US
    shown = [
        event
        for event in timed
        if 0 <= event.dur < longest and abs((event.ts or 0.0) - begin) < longest
    ]
    # (Process, thread or None) → name of the process or thread.
    names: dict[tuple[int, int | None], str] = {}
    for event in events:
        label = (event.args or {}).get("name")
        if event.ph != "M" or label is None:
            continue
        if event.name == "process_name":
            names[event.pid, None] = str(label)
        elif event.name == "thread_name":
            names[event.pid, event.tid] = str(label)
    lines: dict[tuple[int, int], LineBuilder] = {}
    # A device without recorded activity has a name but no events.
    planes: dict[int, PlaneBuilder] = {
        pid: space.plane(name, plane_id=pid)
        for (pid, thread), name in names.items()
        if thread is None
    }
    types: dict[tuple[int, str, str], int] = {}
    for event in shown:
        plane = planes.get(event.pid)
        if plane is None:
            name = f"process {event.pid}"
            plane = planes[event.pid] = space.plane(name, plane_id=event.pid)
        line = lines.get((event.pid, event.tid))
        if line is None:
            name = names.get((event.pid, event.tid), "")
            line = lines[event.pid, event.tid] = plane.line(
                event.tid - 2 * _NEGATIVE
                if _NEGATIVE <= event.tid < 2 * _NEGATIVE
                else event.tid,
                name=name,
            )
        values = dict(event.args or {})
        long_name = str(values.pop(_LONG_NAME, ""))
        key = (event.pid, event.name, long_name)
        if key not in types:
            display = event.name if long_name else ""
            types[key] = plane.event_type(long_name or event.name, display_name=display)
        dur_ps = round(event.dur * PS_PER_US)
        line.event(
            types[key],
            offset_ps=round(((event.ts or 0.0) - begin) * PS_PER_US),
            dur_ps=0 if dur_ps <= _INSTANT_PS else dur_ps,
            stats={name: _profile_value(name, value) for name, value in values.items()},
        )
    _warn_of_missing(space, events, shown)
    return space.to_bytes()


def _warn_of_missing(
    space: XSpaceBuilder, events: list[ViewerEvent], shown: list[ViewerEvent]
) -> None:
    space.warning(
        "The file was made for a viewer: it lacks links between threads, peak rates "
        "and programs of XLA. The .xplane.pb next to it contains this data."
    )
    if len(shown) >= _MAX_EVENTS:
        space.warning(
            f"The writer of the timeline stopped after {_MAX_EVENTS:,} events; the "
            ".xplane.pb next to the file holds all events."
        )
    unread = sum(1 for event in events if event.ph not in {"X", "M", ""})
    broken = sum(1 for event in events if event.ph == "X") - len(shown)
    for count, kind in ((unread, "of kinds that are not read"), (broken, "broken")):
        if count:
            space.warning(f"dropped {count} events: {kind}")


def _profile_value(name: str, value: Any) -> Value:
    """Convert a timeline's value, a text even for numbers, to a value of a profile."""
    if isinstance(value, float | bool):
        return value
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    if name in _TEXTS and not isinstance(value, int):
        return text
    if _INTEGER.match(text):
        number = int(text)
        if abs(number) <= _MAX_INT:
            return number
        # A number that does not fit 64 bits stays a text.
        return Unsigned(number) if 0 < number <= _MAX_UINT else text
    return float(text) if _DECIMAL.match(text) else text
