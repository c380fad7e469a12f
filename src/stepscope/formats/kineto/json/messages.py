"""The messages of a trace as typed structs, with only the fields that tables need.

The decoder skips all other fields. A field that files write in several types is a
union. Arguments stay undecoded until needed, then are decoded for many events at once.

Producers write `NaN`, extra commas and bytes that are not UTF-8, and full disks cut
files inside an event. The strict decoder refuses such input. A lenient decoder then
reads the refused values one at a time, as far as possible.
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

#: Errors of the strict decoder for input that the lenient decoder may still read.
LENIENT_ERRORS: Final = (
    msgspec.MsgspecError,
    UnicodeDecodeError,
    RecursionError,
    OverflowError,
)
#: Errors of the lenient decoder.
_ERRORS: Final = (ValueError, RecursionError)
#: Maximum nesting depth of containers; recorded arguments have three levels. Deeper
#: values could be decoded but not encoded again.
_MAX_DEPTH: Final = 64
_EXTRA_COMMA: Final = re.compile(r",(?=\s*[}\]])")
#: Value for the arguments of an event that has none.
NO_ARGS: Final = Raw(b"{}")
#: Value of an absent field.
NO_VALUE: Final = Raw(b"null")
#: Phases and categories that PyTorch writes since 2020. For these known texts the
#: decoder reuses one object instead of creating a new text each time.
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


# Decimals keep every digit; control characters inside texts are accepted.
_DECODER: Final = json.JSONDecoder(
    parse_float=_decimal_or_none,
    # `NaN` and the infinities become None.
    parse_constant=lambda _: None,
    strict=False,
)


_ENCODER: Final = msgspec.json.Encoder(decimal_format="number")


def value_end(text: str, offset: int) -> int | None:
    """Return the position after the value at `offset`; None if the value is broken."""
    try:
        return _DECODER.raw_decode(text, offset)[1]
    except _ERRORS:
        return None


def json_value(data: bytes) -> Any:
    """Decode a value leniently; return None if the bytes cannot be decoded.

    Bytes that are not UTF-8 are replaced, a comma before a closing bracket is removed,
    and invalid numbers become None.
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
    for _ in range(_MAX_DEPTH + 1):
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
    """Return the value with every unpaired surrogate in its texts replaced."""
    if "\\ud" not in source and "\\uD" not in source:
        return value
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, list):
        return [_without_surrogates(member, source) for member in value]
    if isinstance(value, dict):
        return {
            _without_surrogates(key, source): _without_surrogates(member, source)
            for key, member in value.items()
        }
    return value


def encode_lenient_value(value: object) -> bytes:
    """Encode a leniently decoded value as JSON that the strict decoder accepts."""
    return _ENCODER.encode(value)


# `gc=False` is safe below, because these structs cannot be in a reference cycle.
class Event(msgspec.Struct, gc=False):
    """One object of `traceEvents`; times are in microseconds."""

    ph: str | None = None
    cat: str | None = None
    name: str | None = None
    pid: int | str | None = None
    tid: int | str | None = None
    ts: int | float | str | None = None
    dur: int | float | str | None = None
    id: int | str | None = None
    args: Raw = NO_ARGS


class KnownEvent(Event, gc=False):
    """An event with a known phase and category; most files have only such events."""

    ph: Phase | None = None
    cat: Category | None = None


class ExactEvent(Event, gc=False):
    """An event with its start as undecoded JSON; a double would round the start."""

    ts: Raw = NO_VALUE  # type: ignore[assignment]


class ArgumentsOnly(msgspec.Struct, gc=False):
    """An event of which only the arguments are decoded."""

    args: Raw = NO_ARGS


class DeviceArgs(msgspec.Struct, gc=False):
    """Arguments of a device event: a kernel, a copy, a memset or a synchronisation."""

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
    """Arguments of a call of a runtime or a driver."""

    correlation: int | None = None
    external: int | None = field(default=None, name="External id")
    external_old: int | None = field(default=None, name="external id")


class OpArgs(msgspec.Struct, gc=False):
    """Arguments of an operator."""

    external: int | None = field(default=None, name="External id")
    external_old: int | None = field(default=None, name="external id")
    dims: Raw = field(default=NO_VALUE, name="Input Dims")
    dims_old: Raw = field(default=NO_VALUE, name="Input dims")
    types: Raw = field(default=NO_VALUE, name="Input type")


class MemoryArgs(msgspec.Struct, gc=False):
    """An allocation, or a deallocation if `bytes` is negative.

    The totals `allocated` and `reserved` are those after the event.
    """

    address: int | None = field(default=None, name="Addr")
    bytes: int | None = field(default=None, name="Bytes")
    device_type: int | None = field(default=None, name="Device Type")
    device: int | None = field(default=None, name="Device Id")
    allocated: int | None = field(default=None, name="Total Allocated")
    reserved: int | None = field(default=None, name="Total Reserved")


class NameArgs(msgspec.Struct, gc=False):
    """Arguments of an event that names a process or a thread."""

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
    """The field `distributedInfo`: rank and number of processes of the run."""

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
    """Decode many messages of one type at once; decode one by one if that fails."""
    try:
        return msgspec.json.decode(b"[" + b",".join(raws) + b"]", type=list[shape])  # type: ignore[valid-type]
    except LENIENT_ERRORS:
        return [read_one_message(raw, shape) for raw in raws]


def read_one_message(raw: Raw | bytes, shape: type[_Args]) -> _Args:
    """Decode one message; convert or leave out fields of a wrong type."""
    try:
        return msgspec.json.decode(raw, type=shape)
    except LENIENT_ERRORS:
        value = json_value(bytes(raw))
    if not isinstance(value, dict):
        return shape()
    types = get_type_hints(shape)
    args: dict[str, Any] = {}
    for arg in msgspec.structs.fields(shape):
        member = value.get(arg.encode_name)
        if types[arg.name] is Raw:
            args[arg.name] = Raw(encode_lenient_value(member))
            continue
        try:
            args[arg.name] = msgspec.convert(member, types[arg.name], strict=False)
        except msgspec.ValidationError:
            continue
    return shape(**args)
