"""Profile messages from literal planes, lines and events, encoded by protobuf.

    data = space(
        plane("/host:CPU", line(1, "main", event("train", 0, 900, step_num=7))),
        hostnames=("vm",),
    )

Times are picoseconds. A stat is an int (int64), `Unsigned`, a float, a str (text in
place), a `Ref` (reference to a name) or bytes. What is odd stays odd: nothing is
sorted, merged or checked, unlike in the project's own writer.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tests.support.xspace.proto import XSpaceMessage


class Unsigned(int):
    """A number in the unsigned field."""


class Ref(str):
    """A text by reference."""

    __slots__ = ()


class Event(NamedTuple):
    name: str
    offset_ps: int
    dur_ps: int
    stats: dict[str, Any]
    occurrences: int | None = None


class Line(NamedTuple):
    id: int
    name: str
    events: tuple[Event, ...]
    timestamp_ns: int
    display_name: str


class Plane(NamedTuple):
    name: str
    lines: tuple[Line, ...]
    id: int
    stats: dict[str, Any]
    types: dict[str, dict[str, Any]]
    display_names: dict[str, str]
    type_ids: dict[str, int]


def event(
    name: str,
    offset_ps: int,
    dur_ps: int,
    stats: dict[str, Any] | None = None,
    *,
    occurrences: int | None = None,
    **more: Any,
) -> Event:
    return Event(name, offset_ps, dur_ps, {**(stats or {}), **more}, occurrences)


def line(
    line_id: int,
    name: str,
    *events: Event,
    timestamp_ns: int = 0,
    display_name: str = "",
) -> Line:
    return Line(line_id, name, events, timestamp_ns, display_name)


def plane(
    name: str,
    *lines: Line,
    plane_id: int = 0,
    stats: dict[str, Any] | None = None,
    types: dict[str, dict[str, Any]] | None = None,
    display_names: dict[str, str] | None = None,
    type_ids: dict[str, int] | None = None,
) -> Plane:
    """One plane; `types` gives event names stats of their own, used or not."""
    return Plane(
        name,
        lines,
        plane_id,
        stats or {},
        types or {},
        display_names or {},
        type_ids or {},
    )


def space(
    *planes: Plane,
    errors: tuple[str, ...] = (),
    warnings: tuple[str, ...] = (),
    hostnames: tuple[str, ...] = ("vm",),
) -> bytes:
    message = XSpaceMessage()
    for one in planes:
        _Encoder(message.planes.add(), one).encode()
    message.errors.extend(text.encode() for text in errors)
    message.warnings.extend(text.encode() for text in warnings)
    message.hostnames.extend(text.encode() for text in hostnames)
    data: bytes = message.SerializeToString()
    return data


class _Encoder:
    def __init__(self, message: Any, literal: Plane) -> None:
        self._message = message
        self._literal = literal
        self._names: dict[str, int] = {}
        self._types: dict[str, int] = dict(literal.type_ids)

    def encode(self) -> None:
        literal, message = self._literal, self._message
        message.id, message.name = literal.id, literal.name.encode()
        for one in literal.lines:
            added = message.lines.add()
            added.id, added.name = one.id, one.name.encode()
            added.timestamp_ns = one.timestamp_ns
            added.display_name = one.display_name.encode()
            for each in one.events:
                self._event(added.events.add(), each)
        for name in literal.types:
            self._type(name)
        for name, number in self._types.items():
            entry = message.event_metadata[number]
            entry.id, entry.name = number, name.encode()
            entry.display_name = literal.display_names.get(name, "").encode()
            for key, value in literal.types.get(name, {}).items():
                self._stat(entry.stats.add(), key, value)
        for key, value in literal.stats.items():
            self._stat(message.stats.add(), key, value)
        for name, number in self._names.items():
            message.stat_metadata[number].id = number
            message.stat_metadata[number].name = name.encode()

    def _event(self, message: Any, literal: Event) -> None:
        message.metadata_id = self._type(literal.name)
        if literal.occurrences is None:
            message.offset_ps = literal.offset_ps
        else:
            message.num_occurrences = literal.occurrences
        message.duration_ps = literal.dur_ps
        for key, value in literal.stats.items():
            self._stat(message.stats.add(), key, value)

    def _stat(self, message: Any, key: str, value: Any) -> None:
        message.metadata_id = self._name(key)
        if isinstance(value, Ref):
            message.ref_value = self._name(str(value))
        elif isinstance(value, str):
            message.str_value = value.encode()
        elif isinstance(value, bytes):
            message.bytes_value = value
        elif isinstance(value, float):
            message.double_value = value
        elif isinstance(value, Unsigned):
            message.uint64_value = value
        else:
            message.int64_value = value

    def _name(self, text: str) -> int:
        return self._names.setdefault(text, len(self._names) + 1)

    def _type(self, name: str) -> int:
        return self._types.setdefault(name, max(self._types.values(), default=0) + 1)
