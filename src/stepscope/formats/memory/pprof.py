"""Reader of the pprof file that `jax.profiler.save_device_memory_profile` writes.

Definition: docs/formats/device_memory_profile.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from stepscope.errors import BadInput
from stepscope.formats.assemble import only_file
from stepscope.formats.declared_texts import quality_note
from stepscope.formats.memory.tables import Frame, Stacks, memory_trace
from stepscope.trace.reading.texts import shorten_text
from stepscope.xspace.reading.source import open_bytes
from stepscope.xspace.wire import (
    MalformedMessage,
    field_text,
    number_fields,
    packed_numbers,
    read_fields,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepscope.rundir import HostFiles
    from stepscope.trace.model import TraceData

_FORMAT_NAME: Final = "JAX device memory profile"
_RECORD: Final = (
    "Record steps with jax.profiler.trace(), or with `stepscope run`, for times."
)
_SAVE_AGAIN: Final = (
    "Write it again with jax.profiler.save_device_memory_profile('FILE.prof')."
)
#: The two values of a sample with their units: number of objects, and bytes.
_COUNTED: Final = [("allocations", "count"), ("space", "bytes")]
_MAX_BYTES: Final = 2**50
_MAX_DEVICES: Final = 1024
_MAX_CHARS: Final = 512
#: Allocator name of memory without a device label, which may be memory of a device.
_NO_DEVICE: Final = "of no named device"
#: Value of the label `kind` for the code of a compiled program, which has no device.
_EXECUTABLE: Final = "executable"
_PROGRAMS: Final = "compiled programs"

#: Field numbers of `Profile` in google/pprof's profile.proto.
_SAMPLE_TYPE: Final = 1
_SAMPLE: Final = 2
_LOCATION: Final = 4
_FUNCTION: Final = 5
_STRING: Final = 6
_TIME_NS: Final = 9
#: Field numbers of `Sample` in google/pprof's profile.proto.
_LOCATION_IDS: Final = 1
_VALUES: Final = 2
_LABEL: Final = 3


class _Profile(NamedTuple):
    types: list[tuple[str, str]]
    samples: list[memoryview]
    frames: dict[int, Frame]
    strings: list[str]
    time_ns: int


def read(source: HostFiles) -> TraceData:
    """Read one device memory profile; raise `BadInput` if nothing can be read."""
    path = only_file(source)
    content, damage = open_bytes(
        path, limit_bytes=source.limit_bytes, mapped=source.mapped
    )
    stacks = Stacks()
    try:
        profile = _read_profile(content.tobytes())
        if profile.types == _COUNTED:
            rows = list(_allocation_rows(profile, stacks))
    except MalformedMessage:
        raise BadInput.at(path, "is cut or damaged", _SAVE_AGAIN) from None
    if damage:
        raise BadInput.at(path, "is cut or damaged", _SAVE_AGAIN)
    if profile.types != _COUNTED:
        named = ", ".join(repr("/".join(pair)) for pair in profile.types[:4]) or "none"
        raise BadInput.at(
            path,
            f"is a pprof profile, but not a memory profile of JAX: its counts are "
            f"{named}",
            "View the file with `pprof -http : FILE`.",
        )
    if not rows:
        raise BadInput.at(path, "holds no buffer", _SAVE_AGAIN)
    return memory_trace(
        source.host,
        path,
        rows,
        what=_FORMAT_NAME,
        record=_RECORD,
        notes=[quality_note("memory.no_history.pprof")],
        stacks=stacks.texts,
        start_unix_ns=profile.time_ns or None,
    )


def _read_profile(message: bytes) -> _Profile:
    types: list[dict[int, int]] = []
    samples: list[memoryview] = []
    locations: list[memoryview] = []
    functions: dict[int, dict[int, int]] = {}
    strings: list[str] = []
    time_ns = 0
    for field, value in read_fields(message):
        if isinstance(value, int):
            time_ns = value if field == _TIME_NS and value < 2**62 else time_ns
        elif field == _SAMPLE_TYPE:
            types.append(number_fields(value))
        elif field == _SAMPLE:
            samples.append(value)
        elif field == _LOCATION:
            locations.append(value)
        elif field == _FUNCTION:
            numbers = number_fields(value)
            functions[numbers.get(1, 0)] = numbers
        elif field == _STRING:
            strings.append(field_text(value))
    return _Profile(
        types=[
            (_string_at(strings, kind.get(1, 0)), _string_at(strings, kind.get(2, 0)))
            for kind in types
        ],
        samples=samples,
        frames=dict(_read_frame(raw, functions, strings) for raw in locations),
        strings=strings,
        time_ns=time_ns,
    )


def _string_at(strings: list[str], place: int) -> str:
    return shorten_text(strings[place], _MAX_CHARS) if 0 <= place < len(strings) else ""


def _read_frame(
    location: memoryview, functions: dict[int, dict[int, int]], strings: list[str]
) -> tuple[int, Frame]:
    number, line = 0, Frame("??", 0, "??")
    has_line = False
    for field, value in read_fields(location):
        if isinstance(value, int):
            number = value if field == 1 else number
        elif field == 4 and not has_line:
            has_line = True
            numbers = number_fields(value)
            function = functions.get(numbers.get(1, 0), {})
            line = Frame(
                _string_at(strings, function.get(4, 0)) or "??",
                min(numbers.get(2, 0), 2**31),
                _string_at(strings, function.get(2, 0)) or "??",
            )
    return number, line


def _blocks_and_size(values: list[int]) -> tuple[int, int]:
    """Return a sample's number of blocks, and their total bytes; 0 bytes if unknown.

    If the size of a program is unknown, its sample has 0 bytes, or -1 byte per block.
    """
    if len(values) != len(_COUNTED) or values[0] >= _MAX_BYTES:
        raise MalformedMessage
    count, size = values
    if not size or size == 2**64 - count:
        return count, 0
    if size >= _MAX_BYTES:
        raise MalformedMessage
    return count, size


def _allocation_rows(profile: _Profile, stacks: Stacks) -> Iterator[dict[str, Any]]:
    in_use: dict[str, int] = {}
    for sample in profile.samples:
        refs: list[int] = []
        values: list[int] = []
        labels: dict[str, str] = {}
        for field, value in read_fields(sample):
            if field == _LOCATION_IDS:
                refs += packed_numbers(value)
            elif field == _VALUES:
                values += packed_numbers(value)
            elif field == _LABEL and not isinstance(value, int):
                pair = number_fields(value)
                key = _string_at(profile.strings, pair.get(1, 0))
                labels[key] = _string_at(profile.strings, pair.get(2, 0))
        count, size = _blocks_and_size(values)
        if not count or not size:
            continue
        code = _PROGRAMS if labels.get("kind") == _EXECUTABLE else _NO_DEVICE
        name = labels.get("device", "").partition("\0")[0] or code
        in_use[name] = in_use.get(name, 0) + size
        if len(in_use) > _MAX_DEVICES:
            raise MalformedMessage
        frames = [profile.frames[ref] for ref in refs if ref in profile.frames]
        stack = stacks.add(frames)
        yield {
            "start_ps": 0,
            "kind": "held",
            "allocator": name,
            "blocks": count,
            "allocated_bytes": size,
            "heap_bytes": in_use[name],
            "older_counted": True,
            "region": labels.get("kind"),
            "source": None if stack is None else stacks.lines[stack],
            "stack": stack,
        }
