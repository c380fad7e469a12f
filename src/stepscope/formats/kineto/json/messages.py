"""The messages of a trace as typed structs: only the fields that tables need.

What else a message holds is skipped while decoding. Fields that some producer wrote in
another type are unions. Arguments stay as they are in the file until they are read;
then those of many events are decoded at once.

Producers write `NaN`, a comma too many, bytes that are no UTF-8; disks fill up in the
middle of an event. The strict decoder refuses all that. What it refuses is read
leniently, one value at a time, as much of it as makes sense.
"""

from __future__ import annotations

import json
import re
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, get_type_hints

import msgspec
from msgspec import Raw, field

if TYPE_CHECKING:
    from collections.abc import Sequence

#: What the strict decoder raises on input that may still be readable.
LENIENT_ERRORS: Final = (
    msgspec.MsgspecError,
    UnicodeDecodeError,
    RecursionError,
    OverflowError,
)
#: And what the lenient one does.
_ERRORS: Final = (ValueError, RecursionError)
#: Containers within one another; recorded arguments have three. Deeper ones could be
#: read, and not be written again.
_DEEPEST: Final = 64
_EXTRA_COMMA: Final = re.compile(r",(?=\s*[}\]])")
#: The arguments of an event without any.
NO_ARGS: Final = Raw(b"{}")
#: A field that is not there.
NOTHING: Final = Raw(b"null")
#: Phases that PyTorch writes, and its categories from 2020 on. What the decoder knows
#: by heart it hands out again and again instead of making a text of it each time.
Phase = Literal["X", "i", "M", "s", "t", "f"]
Category = Literal[
    "cpu_op",
    "user_annotation",
    "python_function",
    "cpu_instant_event",
    "cuda_runtime",
    "cuda_driver",
    "kernel",
    "gpu_memcpy",
    "gpu_memset",
    "gpu_user_annotation",
    "cuda_sync",
    "overhead",
    "cuda_profiler_range",
    "ac2g",
    "fwdbwd",
    "Trace",
    "Operator",
    "Runtime",
    "Kernel",
    "Memcpy",
    "Memset",
    "async",
    "async_cpu_to_gpu",
    "async_gpu",
    "forward_backward",
]


def _decimal_or_none(text: str) -> Decimal | None:
    try:
        return Decimal(text)
    except InvalidOperation:
        return None


# Decimals keep every digit; control characters inside texts are let through.
_DECODER: Final = json.JSONDecoder(
    parse_float=_decimal_or_none,
    # `NaN` and the infinities are unknown.
    parse_constant=lambda _: None,
    strict=False,
)


_ENCODER: Final = msgspec.json.Encoder(decimal_format="number")


def value_end(text: str, at: int) -> int | None:
    """Return the place after the value that begins at a place; None if it is broken."""
    try:
        return _DECODER.raw_decode(text, at)[1]
    except _ERRORS:
        return None


def json_value(data: bytes) -> Any:
    """Return a value from its bytes; None where they make no sense.

    Bytes that are no UTF-8 are replaced, a comma before a closing bracket is left
    out, and what is no number becomes None.
    """
    text = data.decode("utf-8", "replace")
    for candidate in (text, _EXTRA_COMMA.sub("", text)):
        try:
            value = _DECODER.decode(candidate)
        except _ERRORS:
            continue
        return None if _is_too_deep(value) else _without_surrogates(value, candidate)
    return None


def _is_too_deep(value: Any) -> bool:
    level = [value]
    for _ in range(_DEEPEST + 1):
        level = [
            inner
            for outer in level
            if isinstance(outer, list | dict)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            return False
    return True


def _without_surrogates(value: Any, source: str) -> Any:
    """Return the value with every half of a pair that lacks the other half replaced."""
    if "\\ud" not in source and "\\uD" not in source:
        return value
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, list):
        return [_without_surrogates(it, source) for it in value]
    if isinstance(value, dict):
        return {
            _without_surrogates(key, source): _without_surrogates(it, source)
            for key, it in value.items()
        }
    return value


def encode_lenient_value(value: object) -> bytes:
    """Return a leniently read value as JSON that the strict decoder accepts."""
    return _ENCODER.encode(value)


# None of these holds a container that could hold it again: the collector may skip
# them.
class Event(msgspec.Struct, gc=False):
    """One object of `traceEvents`; times in microseconds."""

    ph: str | None = None
    cat: str | None = None
    name: str | None = None
    pid: int | str | None = None
    tid: int | str | None = None
    ts: int | float | str | None = None
    dur: int | float | str | None = None
    id: int | str | None = None
    args: Raw = NO_ARGS


class KnownEvent(msgspec.Struct, gc=False):
    """An event whose phase and category are known: most files hold no other."""

    ph: Phase | None = None
    cat: Category | None = None
    name: str | None = None
    pid: int | str | None = None
    tid: int | str | None = None
    ts: int | float | str | None = None
    dur: int | float | str | None = None
    id: int | str | None = None
    args: Raw = NO_ARGS


class ExactEvent(msgspec.Struct, gc=False):
    """An event with its start as it is written, which a double would round."""

    ph: str | None = None
    cat: str | None = None
    name: str | None = None
    pid: int | str | None = None
    tid: int | str | None = None
    ts: Raw = NOTHING
    dur: int | float | str | None = None
    id: int | str | None = None
    args: Raw = NO_ARGS


class ArgumentsOnly(msgspec.Struct, gc=False):
    """An event of which only the arguments are read."""

    args: Raw = NO_ARGS


class DeviceArgs(msgspec.Struct, gc=False):
    """What ran on a device: a kernel, a copy, a memset, a synchronisation."""

    device: int | None = None
    stream: int | None = None
    correlation: int | None = None
    external: int | None = field(default=None, name="External id")
    external_old: int | None = field(default=None, name="external id")
    grid: tuple[int, int, int] | None = None
    block: tuple[int, int, int] | None = None
    registers: int | None = field(default=None, name="registers per thread")
    shared: int | None = field(default=None, name="shared memory")
    bytes: int | None = None
    kind: str | None = None


class ApiArgs(msgspec.Struct, gc=False):
    """A call of a runtime or a driver."""

    correlation: int | None = None
    external: int | None = field(default=None, name="External id")
    external_old: int | None = field(default=None, name="external id")


class OpArgs(msgspec.Struct, gc=False):
    """An operator."""

    external: int | None = field(default=None, name="External id")
    external_old: int | None = field(default=None, name="external id")
    dims: Raw = field(default=NOTHING, name="Input Dims")
    dims_old: Raw = field(default=NOTHING, name="Input dims")
    types: Raw = field(default=NOTHING, name="Input type")


class MemoryArgs(msgspec.Struct, gc=False):
    """An allocation; `bytes` below 0 give memory back. The totals are after it."""

    address: int | None = field(default=None, name="Addr")
    bytes: int | None = field(default=None, name="Bytes")
    device_type: int | None = field(default=None, name="Device Type")
    device: int | None = field(default=None, name="Device Id")
    allocated: int | None = field(default=None, name="Total Allocated")
    reserved: int | None = field(default=None, name="Total Reserved")


class NameArgs(msgspec.Struct, gc=False):
    """The name of a process or a thread."""

    name: str | None = None


class DeviceProperties(msgspec.Struct):
    """One entry of `deviceProperties`."""

    id: int | None = None
    name: str | None = None
    total_memory: int | None = field(default=None, name="totalGlobalMem")
    major: int | None = field(default=None, name="computeMajor")
    minor: int | None = field(default=None, name="computeMinor")
    multiprocessors: int | None = field(default=None, name="numSms")
    warp_size: int | None = field(default=None, name="warpSize")


class DistributedInfo(msgspec.Struct):
    """What `distributedInfo` says about this process among the others."""

    backend: str | None = None
    rank: int | None = None
    world_size: int | None = None
    nccl_version: str | None = None


_Args = TypeVar(
    "_Args",
    DeviceArgs,
    ApiArgs,
    OpArgs,
    MemoryArgs,
    NameArgs,
    DeviceProperties,
    DistributedInfo,
)


def read_all_arguments(raws: Sequence[Raw], shape: type[_Args]) -> list[_Args]:
    """Decode many messages of one shape at once, leniently where one is odd."""
    try:
        return msgspec.json.decode(b"[" + b",".join(raws) + b"]", type=list[shape])  # type: ignore[valid-type]
    except LENIENT_ERRORS:
        return [read_one_message(raw, shape) for raw in raws]


def read_one_message(raw: Raw | bytes, shape: type[_Args]) -> _Args:
    """Decode one message; a field of another type is converted, or left out."""
    try:
        return msgspec.json.decode(raw, type=shape)
    except LENIENT_ERRORS:
        value = json_value(bytes(raw))
    if not isinstance(value, dict):
        return shape()
    types = get_type_hints(shape)
    found: dict[str, Any] = {}
    for known in msgspec.structs.fields(shape):
        given = value.get(known.encode_name)
        if types[known.name] is Raw:
            found[known.name] = Raw(encode_lenient_value(given))
            continue
        try:
            found[known.name] = msgspec.convert(given, types[known.name], strict=False)
        except msgspec.ValidationError:
            continue
    return shape(**found)
