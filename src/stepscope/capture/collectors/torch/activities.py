"""Activities that PyTorch's tracer (Kineto) recorded, as columns.

A live result returns each activity with its arguments, as in an exported trace. In
versions whose result lacks arguments (such as 2.11), the exported trace is read.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import msgspec
import numpy as np
from msgspec import Raw

from stepscope.xspace.vocabulary import ANNOTATION_CATEGORY, forwarded_annotation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from stepscope.array_types import Int64s

_A = TypeVar("_A")

#: Type of a flow arrow from an op to the op of its gradient.
_GRADIENT_FLOW: Final = 1
_GRADIENT: Final = "fwdbwd"
#: Name that PyTorch exports for a name that is not valid text.
_NO_NAME: Final = "unknown"
_NS_PER_US: Final = 1_000
#: Maximum number of stored activities, and of Python calls: each takes 10 µs or more.
_MAX_EVENTS: Final = 500_000
_MAX_CALLS: Final = 100_000
_PYTHON_CALL: Final = "python_function"
_TASKS: Final = Path("/proc/self/task")
#: Methods that a result's activities must have.
_NEEDED: Final = ("metadata_json", "timestamp", "duration", "resource_id", "type")


class Device(NamedTuple):
    """An accelerator; unknown fields are None."""

    ordinal: int
    name: str | None = None
    vendor: str | None = None
    major: int | None = None
    minor: int | None = None
    cores: int | None = None
    memory_bytes: int | None = None
    clock_khz: int | None = None
    memory_bytes_per_s: int | None = None


@dataclass(frozen=True, kw_only=True)
class Activities:
    """All recorded activities as columns, in no particular order.

    Attributes:
        category: `cpu_op`, `kernel` and so on, in lower case.
        start_ns: Nanoseconds since 1970, int64.
        dur_ns: Duration in ns, int64; 0 for instants.
        place: Process id of host activities, ordinal of device activities, int64.
        lane: Thread id or stream id, int64.
        external: Id of an op, or of the op that caused an activity; 0 for none, int64.
        gradient: Id that an op shares with the op of its gradient; 0 for none, int64.
        arguments: One JSON object per activity.
        thread_names: (process, thread) → thread name, if known.
        left_out: Number of the latest activities, Python calls first, that are not
            stored.
        complete_until_ns: Start of the first activity that was not stored, in ns since
            1970; None if all were stored.
    """

    name: Sequence[str]
    category: Sequence[str]
    start_ns: Int64s
    dur_ns: Int64s
    place: Int64s
    lane: Int64s
    external: Int64s
    gradient: Int64s
    arguments: Sequence[bytes]
    thread_names: dict[tuple[int, int], str]
    devices: tuple[Device, ...]
    left_out: int = 0
    complete_until_ns: int | None = None

    def __len__(self) -> int:
        return len(self.name)


def live_activities(
    result: Any, *, thread_names: dict[tuple[int, int], str], devices: Sequence[Device]
) -> Activities | None:
    """Return the activities of a result; None if this PyTorch cannot return them."""
    hand_out = getattr(result, "trace_activities", None)
    if hand_out is None:
        return None
    everything = hand_out()
    if everything and not all(hasattr(everything[0], field) for field in _NEEDED):
        return None
    kept, complete_until_ns = _drop_latest(
        everything,
        category=lambda activity: activity.type().lower(),
        name=lambda activity: _decoded_text(activity.name, _NO_NAME),
        start=lambda activity: activity.timestamp(),
    )
    rows = [
        (
            _decoded_text(activity.name, _NO_NAME),
            activity.type(),
            activity.timestamp(),
            activity.duration(),
            activity.device_id(),
            activity.resource_id(),
            activity.correlation_id(),
            activity.linked_correlation_id(),
            activity.flow_id() if activity.flow_type() == _GRADIENT_FLOW else 0,
            _decoded_text(activity.metadata_json, ""),
        )
        for activity in kept
    ]
    columns = list(zip(*rows, strict=True)) if rows else [()] * 10
    category = [text.lower() for text in columns[1]]
    on_host = np.array([text == "cpu_op" for text in category], bool)
    instant = np.array([text == "cpu_instant_event" for text in category], bool)
    own, linked = _int64_array(columns[6]), _int64_array(columns[7])
    return Activities(
        name=columns[0],
        category=category,
        start_ns=_int64_array(columns[2]),
        # PyTorch reports that an instant lasts until the end of the recording.
        dur_ns=np.where(instant, 0, _int64_array(columns[3])),
        place=_int64_array(columns[4]),
        lane=_int64_array(columns[5]),
        external=np.where(on_host, own, linked),
        gradient=_int64_array(columns[8]),
        arguments=[b"{" + text.encode() + b"}" for text in columns[9]],
        thread_names=thread_names,
        devices=tuple(devices),
        left_out=len(everything) - len(kept),
        complete_until_ns=complete_until_ns,
    )


class _Event(msgspec.Struct, gc=False):
    """One object of `traceEvents`, with times in microseconds as in the file."""

    ph: str = ""
    cat: str = ""
    name: str = ""
    pid: int | str | None = None
    tid: int | str | None = None
    id: int | str | None = None
    ts: Raw = Raw(b"null")
    dur: Raw = Raw(b"null")
    args: Raw = Raw(b"{}")


class _DeviceProperties(msgspec.Struct):
    id: int | None = None
    name: str | None = None
    memory: int | None = msgspec.field(default=None, name="totalGlobalMem")
    major: int | None = msgspec.field(default=None, name="computeMajor")
    minor: int | None = msgspec.field(default=None, name="computeMinor")
    cores: int | None = msgspec.field(default=None, name="numSms")


class _Document(msgspec.Struct):
    events: list[_Event] = msgspec.field(default_factory=list, name="traceEvents")
    base_ns: int = msgspec.field(default=0, name="baseTimeNanoseconds")
    devices: list[_DeviceProperties] = msgspec.field(
        default_factory=list, name="deviceProperties"
    )


class _External(msgspec.Struct, gc=False):
    """The id of an op, under both argument names that PyTorch uses."""

    id: int | str | None = msgspec.field(default=None, name="External id")
    older: int | str | None = msgspec.field(default=None, name="external id")


def exported_activities(document: bytes) -> Activities:
    """Return the activities of a trace that PyTorch exported."""
    decoded = msgspec.json.decode(document, type=_Document)
    # The recording's own events have no numeric process and thread ids.
    everything = [
        event
        for event in decoded.events
        if event.ph in ("X", "i")
        and isinstance(event.pid, int)
        and isinstance(event.tid, int)
    ]
    stored, complete_to_ns = _drop_latest(
        everything,
        category=lambda event: event.cat.lower(),
        name=lambda event: event.name,
        start=lambda event: _parse_ns(event.ts),
    )
    base = decoded.base_ns
    arguments = [bytes(event.args) for event in stored]
    ids = msgspec.json.decode(b"[" + b",".join(arguments) + b"]", type=list[_External])
    start = [base + _parse_ns(event.ts) for event in stored]
    arrows = [event for event in decoded.events if event.cat == _GRADIENT]
    return Activities(
        name=[event.name for event in stored],
        category=[event.cat.lower() for event in stored],
        start_ns=_int64_array(start),
        dur_ns=_int64_array([_parse_ns(event.dur) for event in stored]),
        place=_int64_array([event.pid for event in stored]),
        lane=_int64_array([event.tid for event in stored]),
        external=_int64_array(
            [
                next((id_ for id_ in (row.id, row.older) if isinstance(id_, int)), 0)
                for row in ids
            ]
        ),
        gradient=_int64_array(_gradient_ids(arrows, stored, start, base)),
        arguments=arguments,
        thread_names=dict(_named_threads(decoded.events)),
        devices=tuple(
            Device(
                device.id,
                name=device.name,
                vendor="AMD" if "AMD" in (device.name or "") else None,
                major=device.major,
                minor=device.minor,
                cores=device.cores,
                memory_bytes=device.memory,
            )
            for device in decoded.devices
            if device.id is not None
        ),
        left_out=len(everything) - len(stored),
        complete_until_ns=None if complete_to_ns is None else base + complete_to_ns,
    )


def thread_names() -> dict[tuple[int, int], str]:
    """Return (process, thread) → name of each thread of this process."""
    names = {}
    for task in _TASKS.iterdir() if _TASKS.is_dir() else ():
        try:
            name = (task / "comm").read_text(encoding="utf-8", errors="replace")
        except OSError:
            # The thread ended while its name was read.
            continue
        number = int(task.name)
        names[os.getpid(), number] = f"thread {number} ({name.strip()})"
    return names


def used_devices() -> tuple[Device, ...]:
    """Return the GPUs that the program uses, without initialising CUDA."""
    import torch  # noqa: PLC0415 - the program's framework

    if not torch.cuda.is_initialized():
        return ()
    vendor = "AMD" if getattr(torch.version, "hip", None) else "Nvidia"
    devices = []
    for ordinal in range(torch.cuda.device_count()):
        properties = torch.cuda.get_device_properties(ordinal)
        memory_khz = getattr(properties, "memory_clock_rate", None)
        width_bits = getattr(properties, "memory_bus_width", None)
        # Two transfers per memory clock cycle. AMD reports a different clock, so no
        # rate is known.
        rate = None
        if vendor == "Nvidia" and memory_khz and width_bits:
            rate = int(2 * memory_khz * 1000 * width_bits // 8)
        devices.append(
            Device(
                ordinal,
                name=properties.name,
                vendor=vendor,
                major=properties.major,
                minor=properties.minor,
                cores=properties.multi_processor_count,
                memory_bytes=properties.total_memory,
                clock_khz=getattr(properties, "clock_rate", None),
                memory_bytes_per_s=rate,
            )
        )
    return tuple(devices)


def _drop_latest(
    every: Sequence[_A],
    *,
    category: Callable[[_A], str],
    name: Callable[[_A], str],
    start: Callable[[_A], int],
) -> tuple[Sequence[_A], int | None]:
    """Return the activities to store: above the limits, only the earliest.

    Annotations are stored first, because they mark the steps. The second result is the
    start of the first activity that is left out; None if all are stored.
    """
    if len(every) <= _MAX_CALLS:
        return every, None
    is_call = np.array([category(activity) == _PYTHON_CALL for activity in every], bool)
    if is_call.sum() <= _MAX_CALLS and len(every) <= _MAX_EVENTS:
        return every, None
    began = np.array([start(activity) for activity in every], np.int64)
    annotates = [
        category(activity) == ANNOTATION_CATEGORY
        or forwarded_annotation(name(activity)) is not None
        for activity in every
    ]
    order = np.lexsort((began, ~np.array(annotates, bool)))
    call_rows, other_rows = order[is_call[order]], order[~is_call[order]]
    max_calls = min(_MAX_CALLS, max(_MAX_EVENTS - len(other_rows), 0))
    kept = np.concatenate((other_rows[:_MAX_EVENTS], call_rows[:max_calls]))
    left_out = np.concatenate((other_rows[_MAX_EVENTS:], call_rows[max_calls:]))
    return [every[row] for row in np.sort(kept).tolist()], int(began[left_out].min())


def _decoded_text(hand_out: Callable[[], str], otherwise: str) -> str:
    """Return a text from PyTorch, or `otherwise` if its bytes are not valid UTF-8."""
    try:
        return hand_out()
    except UnicodeDecodeError:
        return otherwise


def _gradient_ids(
    arrows: Sequence[_Event], events: Sequence[_Event], start: Sequence[int], base: int
) -> list[int]:
    """Return the id of the flow arrow that starts at each kept event; 0 if none."""
    # Ops with the same start are nested. The arrow belongs to the inner op, the last.
    op_rows = {
        (event.pid, event.tid, start_ns): row
        for row, (event, start_ns) in enumerate(zip(events, start, strict=True))
        if event.cat.lower() == "cpu_op"
    }
    gradient_ids = [0] * len(events)
    for arrow in arrows:
        row = op_rows.get((arrow.pid, arrow.tid, base + _parse_ns(arrow.ts)))
        if row is not None and isinstance(arrow.id, int):
            gradient_ids[row] = arrow.id
    return gradient_ids


def _named_threads(events: Sequence[_Event]) -> Iterator[tuple[tuple[int, int], str]]:
    for event in events:
        if event.ph != "M" or event.name != "thread_name":
            continue
        name = msgspec.json.decode(event.args).get("name")
        if isinstance(event.pid, int) and isinstance(event.tid, int) and name:
            yield (event.pid, event.tid), str(name)


def _parse_ns(written: Raw) -> int:
    """Convert microseconds, as text, to exact nanoseconds; null becomes 0."""
    text = bytes(written).decode()
    return 0 if text == "null" else round(Decimal(text) * _NS_PER_US)


def _int64_array(numbers: Any) -> Int64s:
    return np.array(list(numbers), dtype=np.int64)
