"""Conversion of PyTorch's activities to planes: host threads and device streams.

Arguments keep PyTorch's names and values. Values that profile readers expect under
different names are added: launch shapes, sizes of copies, correlation ids, and the op
that caused an activity.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
import numpy as np

from stepscope.capture.collectors.torch.stats import decoded_arguments, stat_columns
from stepscope.xspace.op_links import (
    BOOKKEEPING,
    innermost_around,
    last_with_id,
    operands_text,
)
from stepscope.xspace.vocabulary import (
    ANNOTATION_CATEGORY,
    CATEGORY,
    OP_CATEGORY,
    PROGRAM_ORDINAL,
    forwarded_annotation,
)
from stepscope.xspace.writing.write import XSpaceBuilder

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from stepscope.array_types import Bools, Int64s
    from stepscope.capture.collectors.torch.activities import Activities, Device
    from stepscope.xspace.writing.builders import LineBuilder, PlaneBuilder

_HOST: Final = "/host:CPU"
_PS_PER_NS: Final = 1_000
#: Ids of lines with derived events, and of the line of tracer overhead
#: (docs/formats/xplane.md#planes-become-groups-of-tracks).
_DERIVED: Final = -559038737
_OVERHEAD: Final = _DERIVED + 6
_LAST_DERIVED: Final = _DERIVED + 389
_MAX_STREAMS: Final = 256
_COUNTERS: Final = 2**63 - 1
#: Stream id of a synchronisation that does not wait for a single stream.
_NO_STREAM: Final = 2**32 - 1
#: Added to the ids of a device's non-stream lines, so that they differ from stream ids.
_OTHER_LINE_IDS: Final = 2**40

_MEMORY: Final = "[memory]"
_ON_THREAD: Final = frozenset(
    {OP_CATEGORY, ANNOTATION_CATEGORY, "python_function", "cpu_instant_event"}
)
#: Categories of device activities.
ON_STREAM: Final = frozenset({"kernel", "gpu_memcpy", "gpu_memset"})
#: Suffixes of the categories of runtime and driver calls.
CALLS: Final = ("_runtime", "_driver")
#: Maximum number of events encoded at a time, which limits the memory for columns.
_BATCH_EVENTS: Final = 2**15


class _Place(NamedTuple):
    """Plane and line of an event.

    Attributes:
        row: Order of the plane: 0 for a host plane, 1 for a device plane.
    """

    row: int
    plane: str
    line: int
    name: str


def build_planes(
    activities: Activities, *, hostname: str, process: int, start_ns: int, stop_ns: int
) -> XSpaceBuilder:
    """Return a profile message of activities; start and stop are in ns since 1970."""
    activities = _unwrap_annotations(activities)
    began_ns = start_ns
    if len(activities):
        # Device activities may have begun before the recording.
        start_ns = min(start_ns, int(activities.start_ns.min()))
    builder = XSpaceBuilder(hostname, start_ns=start_ns, stop_ns=stop_ns)
    builder.plane(_HOST).stat("process_id", process)
    for ordinal, device in _devices_by_number(activities).items():
        plane = builder.plane(_device_plane(ordinal))
        for name, value in (
            ("gpu_device_name", device.name),
            ("device_vendor", device.vendor),
            ("compute_cap_major", device.major),
            ("compute_cap_minor", device.minor),
            ("core_count", device.cores),
            ("memory_size", device.memory_bytes),
            ("clock_rate", device.clock_khz),
            ("memory_bandwidth", device.memory_bytes_per_s),
            (PROGRAM_ORDINAL, device.ordinal if device.ordinal != ordinal else None),
        ):
            if value is not None:
                plane.stat(name, value)
    writing = _Writing(activities, builder, start_ns, lead_ns=began_ns - start_ns)
    for place, rows in _rows_by_place(activities, process):
        writing.write_line(place, rows)
    return builder


class _Writing:
    def __init__(
        self,
        activities: Activities,
        builder: XSpaceBuilder,
        start_ns: int,
        *,
        lead_ns: int,
    ) -> None:
        self._activities = activities
        self._builder = builder
        self._lead_ns = lead_ns
        self._offset = (activities.start_ns - start_ns) * _PS_PER_NS
        self._dur = activities.dur_ns * _PS_PER_NS
        self._op_of = _rows_of_ops(activities)
        self._types: dict[str, dict[tuple[str, str], int]] = {}
        self._shapes: dict[int, str | None] = {}

    def write_line(self, place: _Place, rows: Int64s) -> None:
        plane = self._builder.plane(place.plane)
        # Lines of one thread are merged only if they have the same start time.
        lead_ns = self._lead_ns
        if (self._offset[rows] // _PS_PER_NS < lead_ns).any():
            lead_ns = 0
        line = plane.line(place.line, name=place.name, timestamp_ns=lead_ns)
        category = np.array([self._activities.category[row] for row in rows.tolist()])
        # Events of one category have the same argument names.
        for kind in np.unique(category).tolist():
            of_kind = rows[category == kind]
            for first in range(0, len(of_kind), _BATCH_EVENTS):
                batch = of_kind[first : first + _BATCH_EVENTS]
                self._write_batch(plane, line, batch, kind, lead_ns=lead_ns)

    def _write_batch(
        self,
        plane: PlaneBuilder,
        line: LineBuilder,
        rows: Int64s,
        category: str,
        *,
        lead_ns: int,
    ) -> None:
        activities = self._activities
        chosen = rows.tolist()
        values = decoded_arguments(
            [activities.arguments[row] for row in chosen], category
        )
        if category == OP_CATEGORY:
            values["fwdbwd"] = [
                ref or None for ref in activities.gradient[rows].tolist()
            ]
        elif category in ON_STREAM or category == "cpu_instant_event":
            ops = self._op_of[rows].tolist()
            values["tf_op"] = [activities.name[op] if op >= 0 else None for op in ops]
            if category in ON_STREAM:
                shapes = [self._shape_of(op) if op >= 0 else None for op in ops]
                values["shape"] = shapes
        # The category is part of the key: several categories may share a name.
        types = self._types.setdefault(plane.name, {})
        for row in chosen:
            name = activities.name[row]
            if (name, category) not in types:
                types[name, category] = plane.event_type(
                    name, type_id=len(types) + 1, stats={CATEGORY: category}
                )
        line.events(
            [types[activities.name[row], category] for row in chosen],
            self._offset[rows] - lead_ns * _PS_PER_NS,
            self._dur[rows],
            stats=stat_columns(plane, values),
        )

    def _shape_of(self, op: int) -> str | None:
        if op not in self._shapes:
            try:
                operands = msgspec.json.decode(
                    self._activities.arguments[op], type=_Operands
                )
                self._shapes[op] = operands_text(operands.sizes, operands.types)
            except (msgspec.DecodeError, UnicodeDecodeError):
                self._shapes[op] = None
        return self._shapes[op]


def _unwrap_annotations(activities: Activities) -> Activities:
    """Give forwarded annotations their original names.

    Bookkeeping records that PyTorch lists as ops become annotations too.
    """
    names, categories = list(activities.name), list(activities.category)
    arguments = list(activities.arguments)
    for row, name in enumerate(names):
        annotation = forwarded_annotation(name)
        if annotation is not None:
            names[row], categories[row] = annotation.name, ANNOTATION_CATEGORY
            arguments[row] = bytes(annotation.values)
        elif name in BOOKKEEPING and categories[row] == OP_CATEGORY:
            categories[row] = ANNOTATION_CATEGORY
    return replace(activities, name=names, category=categories, arguments=arguments)


def _rows_by_place(activities: Activities, pid: int) -> Iterator[tuple[_Place, Int64s]]:
    rows: dict[_Place, list[int]] = {}
    known: dict[tuple[str, int, int], _Place] = {}
    for row, key in enumerate(
        zip(
            activities.category,
            activities.place.tolist(),
            activities.lane.tolist(),
            strict=True,
        )
    ):
        if key not in known:
            known[key] = _line_place(*key, process=pid, names=activities.thread_names)
        rows.setdefault(known[key], []).append(row)
    for place in sorted(rows):
        yield place, np.array(rows[place], np.int64)


def _line_place(
    category: str,
    place: int,
    lane: int,
    *,
    process: int,
    names: Mapping[tuple[int, int], str],
) -> _Place:
    shown = names.get((place, lane))
    if category in _ON_THREAD or category.endswith(CALLS):
        # The tracer writes 0 or -1 if it does not know the process.
        own = place in (0, -1, process)
        name = shown or names.get((process, lane)) or f"thread {lane}"
        return _Place(0, _HOST if own else f"{_HOST} [{place}]", lane, name)
    if category == "overhead":
        return _Place(0, _HOST, _OVERHEAD, "Profiler overhead")
    stream = (shown or f"stream {lane}").strip()
    plane, line, name = _device_plane(place), lane, stream
    if category == "gpu_user_annotation":
        line, name = _LAST_DERIVED - lane % _MAX_STREAMS, f"{stream}: annotations"
    elif category == "cuda_sync":
        known = 0 <= lane < _NO_STREAM
        line = _OTHER_LINE_IDS + lane
        name = f"{stream}: synchronisation" if known else "synchronisation"
    elif category == "cuda_profiler_range":
        line, name = _COUNTERS, "_counters_"
    elif category not in ON_STREAM:
        plane = f"/device:CUSTOM:{category}"
    return _Place(1, plane, line, name)


def _rows_of_ops(activities: Activities) -> Int64s:
    """Return for each event the row of its op, or -1.

    The op is found by the event's external id or, on a device, by its launch call. If
    neither finds an op, take the innermost op around the event or call on its thread.

    Definition: docs/formats/kineto.md#device-activity.
    """
    category = np.array(activities.category, dtype=object)
    is_op = category == OP_CATEGORY
    op_rows = np.flatnonzero(is_op)
    external = activities.external
    op_of = np.full(len(activities), -1, np.int64)
    if not len(op_rows):
        return op_of
    carries = np.flatnonzero(~is_op & (external > 0))
    index = last_with_id(external[op_rows], external[carries])
    op_of[carries] = np.where(index >= 0, np.append(op_rows, -1)[index], -1)
    op_of = np.where(op_of >= 0, op_of, _ops_around(activities, is_op))
    launched = np.flatnonzero(np.isin(category, list(ON_STREAM)) & (op_of < 0))
    calls = np.flatnonzero([text.endswith(CALLS) for text in activities.category])
    if len(launched) and len(calls):
        index = last_with_id(
            _correlation_ids(activities, calls), _correlation_ids(activities, launched)
        )
        op_of[launched] = np.where(index >= 0, np.append(op_of[calls], -1)[index], -1)
    return op_of


def _ops_around(activities: Activities, is_op: Bools) -> Int64s:
    """Return for each host event the row of the innermost op around it, or -1."""
    concerned = [
        kind == OP_CATEGORY or kind.endswith(CALLS) or name == _MEMORY
        for kind, name in zip(activities.category, activities.name, strict=True)
    ]
    rows = np.flatnonzero(concerned)
    track = np.unique(activities.lane[rows], return_inverse=True)[1]
    order = np.lexsort((-activities.dur_ns[rows], activities.start_ns[rows], track))
    rows = rows[order]
    around = innermost_around(
        activities.start_ns[rows],
        activities.dur_ns[rows],
        track=track[order].astype(np.int32),
        is_op=is_op[rows],
    )
    op_of = np.full(len(activities), -1, np.int64)
    op_of[rows] = np.where(around >= 0, rows[around], -1)
    return op_of


class _Correlated(msgspec.Struct, gc=False):
    correlation: int = -1


def _correlation_ids(activities: Activities, rows: Int64s) -> Int64s:
    listed = b",".join(activities.arguments[row] for row in rows.tolist())
    decoded = msgspec.json.decode(b"[" + listed + b"]", type=list[_Correlated])
    return np.array([call.correlation for call in decoded], np.int64)


class _Operands(msgspec.Struct):
    sizes: list[Any] = msgspec.field(default_factory=list, name="Input Dims")
    types: list[Any] = msgspec.field(default_factory=list, name="Input type")


def _devices_by_number(activities: Activities) -> dict[int, Device]:
    """Return the devices by the numbers that activities use.

    ROCm numbers devices differently in activities and in its list. If activities use
    one number and the list has one device, both mean that device. If ROCm has several
    numbers or devices, the device is unknown.

    Definition: docs/formats/kineto.md#device-activity.
    """
    used = {
        place
        for category, place in zip(
            activities.category, activities.place.tolist(), strict=True
        )
        if category in ON_STREAM
    }
    listed = {device.ordinal: device for device in activities.devices}
    if len(used) == 1 and len(listed) == 1 and not used & listed.keys():
        return {used.pop(): next(iter(listed.values()))}
    return listed


def _device_plane(ordinal: int) -> str:
    return f"/device:GPU:{ordinal}"
