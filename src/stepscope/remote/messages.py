"""Messages of the ProfilerService, and their encoding.

TensorFlow, JAX and XProf use this service: protocol buffers (proto3) over gRPC. No
package ships these messages, so each one is declared here with its field numbers. A
profile (an XSpace) is passed as bytes without decoding.

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

#: Maximum duration of a recording, in ms: one hour.
MAX_MS: Final = 3_600_000
#: Maximum number of fields in a message; each costs time and about 100 bytes.
MAX_FIELDS: Final = 10_000
_VARINT: Final = 0
_LENGTH: Final = 2


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """A message; each field is annotated with its type and its number.

    A field that was not sent has its default value, as in proto3.
    """


M = TypeVar("M", bound=Message)


class ProfileOptions(Message, frozen=True, kw_only=True):
    """What to record; `version` is 1 if the client set the options."""

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
    #: Stepscope's own field: maximum number of steps. Other servers ignore this field.
    steps: Annotated[int, 7001] = 0


class ProfileRequest(Message, frozen=True, kw_only=True):
    """Request to record for some time."""

    duration_ms: Annotated[int, 1] = 0
    max_events: Annotated[int, 2] = 0
    tools: Annotated[tuple[str, ...], 3] = ()
    opts: Annotated[ProfileOptions, 4] = ProfileOptions()
    repository_root: Annotated[str, 5] = ""
    session_id: Annotated[str, 6] = ""
    host_name: Annotated[str, 7] = ""
    emit_xspace: Annotated[bool, 9] = False


class ProfileToolData(Message, frozen=True, kw_only=True):
    """File that the client is to write under the given name."""

    name: Annotated[str, 1] = ""
    data: Annotated[bytes, 2] = b""


class ProfileResponse(Message, frozen=True, kw_only=True):
    """Recorded data, as files, as one XSpace, or empty."""

    tool_data: Annotated[tuple[ProfileToolData, ...], 6] = ()
    empty_trace: Annotated[bool, 7] = False
    xspace: Annotated[bytes, 8] = b""


class TerminateRequest(Message, frozen=True, kw_only=True):
    """Request to end the recording of a session now."""

    session_id: Annotated[str, 1] = ""


class MonitorRequest(Message, frozen=True, kw_only=True):
    """Request for the state of the program."""

    duration_ms: Annotated[int, 1] = 0
    monitoring_level: Annotated[int, 2] = 0
    timestamp: Annotated[bool, 3] = False


class MonitorResponse(Message, frozen=True, kw_only=True):
    """Text for the user; its first line is the server's time if requested."""

    data: Annotated[str, 1] = ""


class GetSnapshotRequest(Message, frozen=True, kw_only=True):
    """Request for the events since the start or the last snapshot."""

    snapshot_session_id: Annotated[str, 1] = ""


class StopContinuousProfilingRequest(Message, frozen=True, kw_only=True):
    """Request to end the continuous recording."""

    #: Stepscope's own field: id of the recording, if it was started with an id.
    session_id: Annotated[str, 7001] = ""


class NewProfileSessionRequest(Message, frozen=True, kw_only=True):
    """Request to record several hosts; the server that gets it calls the others."""

    request: Annotated[ProfileRequest, 1] = ProfileRequest()
    repository_root: Annotated[str, 2] = ""
    hosts: Annotated[tuple[str, ...], 3] = ()
    session_id: Annotated[str, 4] = ""


class NewProfileSessionResponse(Message, frozen=True, kw_only=True):
    """Result of a recording of several hosts: an error, or nothing."""

    error_message: Annotated[str, 1] = ""
    empty_trace: Annotated[bool, 2] = False


class _Field(NamedTuple):
    name: str
    number: int
    kind: type[Any]
    repeated: bool


def encode_message(message: Message) -> bytes:
    """Return the bytes of a message."""
    out = []
    for field in _message_fields(type(message)):
        value = getattr(message, field.name)
        values = value if field.repeated else (value,)
        # proto3 does not send a field that has its default value.
        out += [_encode_field(field, part) for part in values if part or field.repeated]
    return b"".join(out)


def decode_message(
    kind: type[M], data: bytes | memoryview, *, copies: bool = True
) -> M:
    """Return the message that some bytes encode; unknown fields are skipped.

    Args:
        copies: Whether to copy fields of bytes; if false, they are memoryviews.

    Raises:
        MalformedMessage: A length exceeds its message, a field has the wrong type, or
            there are more than `MAX_FIELDS` fields.
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
    return kind(**values, **{name: tuple(parts) for name, parts in repeated.items()})


@functools.cache
def _message_fields(kind: type[Message]) -> tuple[_Field, ...]:
    fields = []
    for name, declared in get_type_hints(kind, include_extras=True).items():
        type_, number = get_args(declared)
        repeated = get_origin(type_) is tuple
        member_type = get_args(type_)[0] if repeated else type_
        fields.append(_Field(name, number, member_type, repeated))
    return tuple(fields)


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
