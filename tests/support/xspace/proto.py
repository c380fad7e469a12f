"""The oracle of decoder and writer: protobuf itself, from a descriptor written here.

Both sides become the same plain values: planes with their lines, events and values,
names in place of ids. What the decoder adds (names for unknown ids) is added here by
the rule, not by calling it.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

if TYPE_CHECKING:
    from stepscope.xspace.reading.columns import XSpace

_FIELD = descriptor_pb2.FieldDescriptorProto
_TYPES = {
    "int64": _FIELD.TYPE_INT64,
    "uint64": _FIELD.TYPE_UINT64,
    "double": _FIELD.TYPE_DOUBLE,
    # Real files hold names that are no UTF-8: protobuf would refuse them as string.
    "string": _FIELD.TYPE_BYTES,
    "bytes": _FIELD.TYPE_BYTES,
}
#: Message → fields: number, name, type, "*" repeated, "?name" member of a oneof.
_MESSAGES: dict[str, list[tuple[int, str, str, str]]] = {
    "XSpace": [
        (1, "planes", "XPlane", "*"),
        (2, "errors", "string", "*"),
        (3, "warnings", "string", "*"),
        (4, "hostnames", "string", "*"),
    ],
    "XPlane": [
        (1, "id", "int64", ""),
        (2, "name", "string", ""),
        (3, "lines", "XLine", "*"),
        (4, "event_metadata", "XEventMetadata", "map"),
        (5, "stat_metadata", "XStatMetadata", "map"),
        (6, "stats", "XStat", "*"),
    ],
    "XLine": [
        (1, "id", "int64", ""),
        (10, "display_id", "int64", ""),
        (2, "name", "string", ""),
        (11, "display_name", "string", ""),
        (3, "timestamp_ns", "int64", ""),
        (9, "duration_ps", "int64", ""),
        (4, "events", "XEvent", "*"),
    ],
    "XEvent": [
        (1, "metadata_id", "int64", ""),
        (2, "offset_ps", "int64", "?data"),
        (5, "num_occurrences", "int64", "?data"),
        (3, "duration_ps", "int64", ""),
        (4, "stats", "XStat", "*"),
    ],
    "XStat": [
        (1, "metadata_id", "int64", ""),
        (2, "double_value", "double", "?value"),
        (3, "uint64_value", "uint64", "?value"),
        (4, "int64_value", "int64", "?value"),
        (5, "str_value", "string", "?value"),
        (6, "bytes_value", "bytes", "?value"),
        (7, "ref_value", "uint64", "?value"),
    ],
    "XEventMetadata": [
        (1, "id", "int64", ""),
        (2, "name", "string", ""),
        (3, "metadata", "bytes", ""),
        (4, "display_name", "string", ""),
        (5, "stats", "XStat", "*"),
        (6, "child_id", "int64", "*"),
    ],
    "XStatMetadata": [
        (1, "id", "int64", ""),
        (2, "name", "string", ""),
        (3, "description", "string", ""),
    ],
}
_PACKAGE = "stepscope_tests"


def _message_class() -> Any:
    file = descriptor_pb2.FileDescriptorProto(
        name="xspace_of_the_tests.proto", package=_PACKAGE, syntax="proto3"
    )
    for message_name, fields in _MESSAGES.items():
        message = file.message_type.add(name=message_name)
        for number, name, kind, how in fields:
            added = message.field.add(name=name, number=number, label=1)
            type_name = f".{_PACKAGE}.{kind}"
            if how == "map":
                entry_name = name.title().replace("_", "") + "Entry"
                entry = message.nested_type.add(name=entry_name)
                entry.options.map_entry = True
                entry.field.add(name="key", number=1, label=1, type=_TYPES["int64"])
                entry.field.add(
                    name="value",
                    number=2,
                    label=1,
                    type=_FIELD.TYPE_MESSAGE,
                    type_name=type_name,
                )
                type_name = f".{_PACKAGE}.{message_name}.{entry_name}"
            if how in {"*", "map"}:
                added.label = 3
            if kind in _TYPES:
                added.type = _TYPES[kind]
            else:
                added.type, added.type_name = _FIELD.TYPE_MESSAGE, type_name
            if how.startswith("?"):
                if not message.oneof_decl:
                    message.oneof_decl.add(name=how[1:])
                added.oneof_index = 0
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    wanted = pool.FindMessageTypeByName(f"{_PACKAGE}.XSpace")
    return message_factory.GetMessageClass(wanted)


XSpaceMessage = _message_class()

_KINDS = {
    None: 0,
    "double_value": 2,
    "uint64_value": 3,
    "int64_value": 4,
    "str_value": 5,
    "bytes_value": 6,
    "ref_value": 7,
}


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def _signed(number: int) -> int:
    return number - 2**64 if number >= 2**63 else number


def _stat_of_message(stat: Any, names: dict[int, str]) -> tuple[str, int, object]:
    which = stat.WhichOneof("value")
    value = getattr(stat, which) if which else None
    if which == "double_value":
        value = struct.pack("<d", value)
    elif which == "str_value":
        value = _text(value)
    elif which == "ref_value":
        value = names.get(_signed(value))
    number = stat.metadata_id
    return names.get(number, f"(unknown stat {number})"), _KINDS[which], value


def values_of_message(data: bytes) -> dict[str, Any]:
    """Parse with protobuf (which raises for what it does not accept)."""
    space = XSpaceMessage.FromString(data)
    planes = []
    for plane in space.planes:
        names = {key: _text(one.name) for key, one in plane.stat_metadata.items()}
        types = {
            key: {
                "name": _text(one.name),
                "display_name": _text(one.display_name),
                "metadata": one.metadata,
                "stats": [_stat_of_message(stat, names) for stat in one.stats],
            }
            for key, one in plane.event_metadata.items()
        }
        lines = [
            {
                "id": line.id,
                "display_id": line.display_id,
                "name": _text(line.name),
                "display_name": _text(line.display_name),
                "timestamp_ns": line.timestamp_ns,
                "duration_ps": line.duration_ps,
                "events": [
                    (
                        event.metadata_id,
                        event.offset_ps,
                        event.duration_ps,
                        event.num_occurrences
                        if event.WhichOneof("data") == "num_occurrences"
                        else None,
                        [_stat_of_message(stat, names) for stat in event.stats],
                    )
                    for event in line.events
                ],
            }
            for line in plane.lines
        ]
        used = {event[0] for line in lines for event in line["events"]}
        planes.append(
            {
                "id": plane.id,
                "name": _text(plane.name),
                "stats": [_stat_of_message(stat, names) for stat in plane.stats],
                "types": types,
                "unknown": used - set(types),
                "lines": lines,
            }
        )
    return {
        "errors": [_text(one) for one in space.errors],
        "warnings": [_text(one) for one in space.warnings],
        "hostnames": [_text(one) for one in space.hostnames],
        "planes": planes,
    }


def _long_stats(space: XSpace, stats: Any, owners: list[int]) -> list[list[Any]]:
    found: list[list[Any]] = [[] for _ in range(len(owners))]
    row_of = {owner: position for position, owner in enumerate(owners)}
    column = stats.type if hasattr(stats, "type") else stats.event
    raw = space.data.tobytes()
    for owner, key, kind, value, length in zip(
        column.tolist(),
        stats.key.tolist(),
        stats.kind.tolist(),
        stats.value.tolist(),
        stats.length.tolist(),
        strict=True,
    ):
        shown: object = value
        if kind == 0:
            shown = None
        elif kind == 2:
            shown = struct.pack("<q", value)
        elif kind == 3:
            shown = value % 2**64
        elif kind in {5, 6}:
            piece = raw[value : value + length]
            shown = piece if kind == 6 else _text(piece)
        elif kind == 7:
            shown = None if value < 0 else space.strings[value]
        found[row_of[owner]].append((space.strings[key], kind, shown))
    return found


def values_of_space(space: XSpace) -> dict[str, Any]:
    """The same values from the decoder's columns."""
    events = _events(space)
    tables, unknown = _types_by_plane(space)
    return {
        "errors": list(space.errors),
        "warnings": list(space.warnings),
        "hostnames": list(space.hostnames),
        "planes": [
            {
                "id": plane.id,
                "name": plane.name,
                "stats": [_plane_stat(*stat) for stat in plane.stats],
                "types": tables[number],
                "unknown": unknown[number],
                "lines": [
                    _line(space, row, events) for row in _lines_of_plane(space, number)
                ],
            }
            for number, plane in enumerate(space.planes)
        ],
    }


def _events(space: XSpace) -> list[tuple[Any, ...]]:
    """Type id, offset, duration, occurrences or None, and values of each event."""
    events = space.events
    counted = dict(
        zip(events.aggregated.tolist(), events.occurrences.tolist(), strict=True)
    )
    stats = _long_stats(space, space.stats, list(range(len(events))))
    ids = space.event_types.id.tolist()
    columns = (events.type.tolist(), events.offset_ps.tolist(), events.dur_ps.tolist())
    return [
        (ids[kind], offset, dur, counted.get(row), stats[row])
        for row, (kind, offset, dur) in enumerate(zip(*columns, strict=True))
    ]


def _types_by_plane(space: XSpace) -> tuple[list[dict[int, Any]], list[set[int]]]:
    """Of each plane the types by id, and the ids that have no entry."""
    types = space.event_types
    stats = _long_stats(space, space.type_stats, list(range(len(types))))
    tables: list[dict[int, Any]] = [{} for _ in space.planes]
    unknown: list[set[int]] = [set() for _ in space.planes]
    for row, (plane, number) in enumerate(
        zip(types.plane.tolist(), types.id.tolist(), strict=True)
    ):
        name = space.strings[types.name[row]]
        if types.unknown[row]:
            assert name == f"(unknown event {number})"
            unknown[plane].add(number)
            continue
        place, length = int(types.metadata_place[row]), int(types.metadata_length[row])
        tables[plane][number] = {
            "name": name,
            "display_name": _or_empty(space, types.display_name[row]),
            "metadata": space.data[place : place + length].tobytes(),
            "stats": stats[row],
        }
    return tables, unknown


def _plane_stat(key: str, kind: int, value: object) -> tuple[str, int, object]:
    packed = struct.pack("<d", value) if isinstance(value, float) else value
    return key, kind, packed


def _lines_of_plane(space: XSpace, number: int) -> range:
    plane = space.planes[number]
    rows = range(plane.line_begin, plane.line_end)
    assert {int(space.lines.plane[row]) for row in rows} <= {number}
    return rows


def _line(space: XSpace, row: int, events: list[tuple[Any, ...]]) -> dict[str, Any]:
    lines = space.lines
    return {
        "id": int(lines.id[row]),
        "display_id": int(lines.display_id[row]),
        "name": space.strings[lines.name[row]],
        "display_name": _or_empty(space, lines.display_name[row]),
        "timestamp_ns": int(lines.timestamp_ns[row]),
        "duration_ps": int(lines.duration_ps[row]),
        "events": events[lines.event_begin[row] : lines.event_end[row]],
    }


def _or_empty(space: XSpace, handle: int) -> str:
    return "" if handle < 0 else space.strings[handle]


def holds_unknown_fields(data: bytes) -> bool:
    """Whether protobuf skipped anything, such as a group, which the decoder refuses."""
    message = XSpaceMessage.FromString(data)
    known = message.SerializeToString(deterministic=True)
    message.DiscardUnknownFields()
    return bool(message.SerializeToString(deterministic=True) != known)
