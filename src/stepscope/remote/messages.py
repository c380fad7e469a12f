"""Messages of the ProfilerService, and their bytes.

TensorFlow, JAX and XProf speak it: protocol buffers (proto3) over gRPC. No package
ships these messages, so that each is declared here with the numbers of its fields.
A profile (an XSpace) stays the bytes that it is.

Definition: docs/remote.md#the-protocol.
"""

from __future__ import annotations

import functools
from typing import (
    Annotated,
    Any,
    Final,
    NamedTuple,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec

from stepscope.xspace.wire import MalformedMessage, field_text, read_fields
from stepscope.xspace.writing.encode import number_field, sized_field

#: A recording that lasts longer is a mistake in the request: an hour.
MOST_MS: Final = 3_600_000
#: Fields of one message, of which each would take time and memory of a hundred bytes.
MAX_FIELDS: Final = 10_000
_VARINT: Final = 0
_LENGTH: Final = 2


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """A message: each field is annotated with its type and its number.

    A field that was not sent has its default, as proto3 has it.
    """


M = TypeVar("M", bound=Message)


class ProfileOptions(Message, frozen=True, kw_only=True):
    """What is to be recorded; `version` is 1 where a client filled the options in."""

    include_dataset_ops: Annotated[bool, 1] = False
    host_tracer_level: Annotated[int, 2] = 0
    device_tracer_level: Annotated[int, 3] = 0
    python_tracer_level: Annotated[int, 4] = 0
    version: Annotated[int, 5] = 0
    device_type: Annotated[int, 6] = 0
    enable_hlo_proto: Annotated[bool, 7] = False
    start_timestamp_ns: Annotated[int, 8] = 0
    duration_ms: Annotated[int, 9] = 0
    repository_path: Annotated[str, 10] = ""
    raise_error_on_start_failure: Annotated[bool, 13] = False
    session_id: Annotated[str, 14] = ""
    override_hostname: Annotated[str, 15] = ""
    #: stepscope's own: end after this many steps. Other servers skip the field.
    steps: Annotated[int, 7001] = 0


class ProfileRequest(Message, frozen=True, kw_only=True):
    """Record for a time."""

    duration_ms: Annotated[int, 1] = 0
    max_events: Annotated[int, 2] = 0
    tools: Annotated[tuple[str, ...], 3] = ()
    opts: Annotated[ProfileOptions, 4] = ProfileOptions()
    repository_root: Annotated[str, 5] = ""
    session_id: Annotated[str, 6] = ""
    host_name: Annotated[str, 7] = ""
    emit_xspace: Annotated[bool, 9] = False


class ProfileToolData(Message, frozen=True, kw_only=True):
    """A file that the client is to write under this name."""

    name: Annotated[str, 1] = ""
    data: Annotated[bytes, 2] = b""


class ProfileResponse(Message, frozen=True, kw_only=True):
    """What was recorded: as files, as one XSpace, or nothing."""

    tool_data: Annotated[tuple[ProfileToolData, ...], 6] = ()
    empty_trace: Annotated[bool, 7] = False
    xspace: Annotated[bytes, 8] = b""


class TerminateRequest(Message, frozen=True, kw_only=True):
    """End the recording of this session now."""

    session_id: Annotated[str, 1] = ""


class MonitorRequest(Message, frozen=True, kw_only=True):
    """Say how the program is."""

    duration_ms: Annotated[int, 1] = 0
    monitoring_level: Annotated[int, 2] = 0
    timestamp: Annotated[bool, 3] = False


class MonitorResponse(Message, frozen=True, kw_only=True):
    """Text for a person; its first line is the server's clock where that was asked."""

    data: Annotated[str, 1] = ""


class GetSnapshotRequest(Message, frozen=True, kw_only=True):
    """Hand over what was recorded since the start or the last snapshot."""

    snapshot_session_id: Annotated[str, 1] = ""


class StopContinuousProfilingRequest(Message, frozen=True, kw_only=True):
    """End the recording that goes on."""

    #: stepscope's own: the recording that is meant, where it was started with an id.
    session_id: Annotated[str, 7001] = ""


class NewProfileSessionRequest(Message, frozen=True, kw_only=True):
    """Record on several hosts; the server that is asked calls the others."""

    request: Annotated[ProfileRequest, 1] = ProfileRequest()
    repository_root: Annotated[str, 2] = ""
    hosts: Annotated[tuple[str, ...], 3] = ()
    session_id: Annotated[str, 4] = ""


class NewProfileSessionResponse(Message, frozen=True, kw_only=True):
    """What went wrong, if anything."""

    error_message: Annotated[str, 1] = ""
    empty_trace: Annotated[bool, 2] = False


class _Field(NamedTuple):
    name: str
    number: int
    kind: type[Any]
    repeated: bool


def encode_message(message: Message) -> bytes:
    """Return the bytes of a message."""
    pieces = []
    for field in _message_fields(type(message)):
        value = getattr(message, field.name)
        values = value if field.repeated else (value,)
        # A field that has proto3's default is not sent.
        pieces += [_encode_field(field, one) for one in values if one or field.repeated]
    return b"".join(pieces)


def decode_message(
    kind: type[M], data: bytes | memoryview, *, copies: bool = True
) -> M:
    """Return the message in some bytes; unknown fields are skipped.

    Args:
        copies: False leaves fields of bytes where they are, as memoryviews.

    Raises:
        MalformedMessage: A length runs beyond its message, a field has the wrong
            type, or there are more fields than any of these messages has.
    """
    known = {field.number: field for field in _message_fields(kind)}
    values: dict[str, Any] = {}
    repeated: dict[str, list[Any]] = {}
    for count, (number, raw) in enumerate(read_fields(data)):
        if count == MAX_FIELDS:
            raise MalformedMessage
        field = known.get(number)
        if field is None:
            continue
        value = _decode_field(field, raw, copies=copies)
        if field.repeated:
            repeated.setdefault(field.name, []).append(value)
        else:
            values[field.name] = value
    return kind(**values, **{name: tuple(given) for name, given in repeated.items()})


@functools.cache
def _message_fields(kind: type[Message]) -> tuple[_Field, ...]:
    found = []
    for name, declared in get_type_hints(kind, include_extras=True).items():
        type_, number = get_args(declared)
        repeated = get_origin(type_) is tuple
        one = get_args(type_)[0] if repeated else type_
        found.append(_Field(name, number, one, repeated))
    return tuple(found)


def _encode_field(field: _Field, value: Any) -> bytes:
    if isinstance(value, int):
        return number_field(field.number << 3 | _VARINT, int(value))
    if isinstance(value, Message):
        value = encode_message(value)
    elif isinstance(value, str):
        value = value.encode("utf-8", "replace")
    return sized_field(field.number << 3 | _LENGTH, value)


def _decode_field(field: _Field, raw: int | memoryview, *, copies: bool) -> Any:
    if field.kind in (int, bool):
        if not isinstance(raw, int):
            raise MalformedMessage
        return field.kind(raw)
    if isinstance(raw, int):
        raise MalformedMessage
    if field.kind is str:
        return field_text(raw)
    if field.kind is bytes:
        return bytes(raw) if copies else raw
    return decode_message(field.kind, raw, copies=copies)
