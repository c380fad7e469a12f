"""Relations of one span: its device activity, its launch, its op, and other spans."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
import numpy as np

from stepscope.analysis.results.tables import missing_fields, package_reasons
from stepscope.analysis.timeline.spans import Place
from stepscope.derive.columns.arrays import handles, ints
from stepscope.derive.device.attribution import OpEvidence, activity_ops
from stepscope.derive.host.event_nesting import event_nesting
from stepscope.derive.host.op_events import host_op_events
from stepscope.derive.host.placed_frames import function_frames
from stepscope.unavailable import Missing, Unavailable
from stepscope.units import PS_PER_S

if TYPE_CHECKING:
    from stepscope.analysis.timeline.spans import HostTimeline
    from stepscope.derive.profile_data import ProfileData

_WHY: Final = package_reasons("timeline")

#: Maximum number of children listed; a span around a whole program may have thousands.
MAX_CHILDREN = 100

_SHAPED: Final = (
    "registers",
    "static_shared_memory_bytes",
    "dynamic_shared_memory_bytes",
    "shared_memory_bytes",
    "occupancy_percent",
)


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """Shape and resources of a kernel launch; a field is null if not recorded.

    Attributes:
        grid: Number of blocks along x, y and z.
        block: Number of threads of a block along x, y and z.
        registers: Registers per thread.
        static_shared_memory_bytes: Static shared memory per block.
        dynamic_shared_memory_bytes: Dynamic shared memory per block.
        shared_memory_bytes: Static and dynamic shared memory per block.
        occupancy_percent: Theoretical occupancy as recorded.
    """

    grid: tuple[int, int, int] | None
    block: tuple[int, int, int] | None
    registers: int | None
    static_shared_memory_bytes: int | None
    dynamic_shared_memory_bytes: int | None
    shared_memory_bytes: int | None
    occupancy_percent: float | None


class Activity(msgspec.Struct, frozen=True, kw_only=True):
    """A device activity.

    Attributes:
        kind: Kind of activity: kernel, collective, h2d, d2h, p2p_copy, local_copy,
            memset or transfer_wait.
        device: Ordinal of the device.
        stream: Id of the stream.
        bytes: Bytes of a copy; null if not recorded.
        bytes_per_s: Bytes divided by duration; null if unknown or the duration is 0.
        op: Op that the activity belongs to; null if unknown.
        op_type: Type of the op; null if unknown.
        op_evidence: Source of the op: hlo, hlo_name, annotation, copy, launch, none.
        launch: Launch shape and resources; null if nothing was recorded.
    """

    kind: str
    device: int
    stream: int
    bytes: int | None
    bytes_per_s: float | None
    op: str | None
    op_type: str | None
    op_evidence: str
    launch: Launch | None


KERNELS: Final = ("kernel", "collective")


def missing_of_activity(activity: Activity) -> tuple[Missing, ...]:
    """Return which fields of an activity are null because data is missing, and why."""
    reasons = dict.fromkeys(("op", "op_type"), _WHY["no_op"])
    of_launch: list[Missing] = []
    if activity.kind not in KERNELS:
        reasons["bytes"] = _WHY["no_size"]
        sized = activity.bytes is not None
        reasons["bytes_per_s"] = _WHY["no_time"] if sized else _WHY["no_size"]
    elif activity.launch is None:
        reasons["launch"] = _WHY["no_details"]
    else:
        why = dict.fromkeys(Launch.__struct_fields__, _WHY["no_details"])
        of_launch = missing_fields(activity.launch, why, prefix="activity.launch.")
    return (*missing_fields(activity, reasons, prefix="activity."), *of_launch)


def row_of_activity(profile: ProfileData, host: str, event: int) -> int | None:
    """Return the row of device_activity that a row of events shows; None for none."""
    table = profile.table(host, "device_activity")
    if isinstance(table, Unavailable):
        return None
    rows = np.flatnonzero(handles(table, "event") == event)
    return int(rows[0]) if len(rows) else None


def shown_activity(profile: ProfileData, host: str, event: int) -> Activity | None:
    """Return the device activity that a row of events shows; None for none."""
    table = profile.table(host, "device_activity")
    row = row_of_activity(profile, host, event)
    if row is None or isinstance(table, Unavailable):
        return None
    given = table.row(row, named=True)
    size, dur_ps = given["bytes"], given["dur_ps"]
    geometries = profile.table(host, "geometries")
    if given["geometry"] is None or isinstance(geometries, Unavailable):
        launch = None
    else:
        shape = geometries.row(given["geometry"], named=True)
        grid, block = (
            tuple(shape[f"{what}_{axis}"] for axis in "xyz")
            for what in ("grid", "block")
        )
        launch = Launch(
            grid=None if None in grid else grid,
            block=None if None in block else block,
            **{name: shape[name] for name in _SHAPED},
        )
    ops = profile.derived(host, activity_ops)
    of_row, evidence = {}, OpEvidence.NONE
    if not isinstance(ops, Unavailable):
        of_row = ops.ops.row(int(ops.op[row]), named=True)
        evidence = OpEvidence(of_row["evidence"])
    known = evidence is not OpEvidence.NONE
    return Activity(
        kind=given["kind"],
        device=given["device"],
        stream=given["stream"],
        bytes=size,
        bytes_per_s=None if size is None or not dur_ps else size * PS_PER_S / dur_ps,
        launch=launch,
        op=of_row["name"] if known else None,
        op_type=of_row["type"] if known else None,
        op_evidence=evidence.name.lower(),
    )


class Links(msgspec.Struct, frozen=True, kw_only=True):
    """Op, kernel and step of a span, for links to other pages; null if there is none.

    Attributes:
        op: Name of the activity's op, or of the op that ran on the host.
        kernel: Name of a kernel.
        step: Number of the step.
    """

    op: str | None
    kernel: str | None
    step: int | None


def event_origin(
    profile: ProfileData, host: str, event: int
) -> tuple[str | None, str | None]:
    """Return op and source of an event: of device work, a host op or a function.

    The source is a file and a line, or the file alone; None for what is unknown.
    """
    row = row_of_activity(profile, host, event)
    if row is not None:
        device_ops = profile.derived(host, activity_ops)
        if isinstance(device_ops, Unavailable):
            return None, None
        described = device_ops.ops.row(int(device_ops.op[row]), named=True)
        evidence = OpEvidence(described["evidence"])
        named = evidence not in (OpEvidence.COPY, OpEvidence.NONE)
        return described["name"] if named else None, _op_source(described)
    ops = profile.derived(host, host_op_events)
    if not isinstance(ops, Unavailable):
        execution = int(np.searchsorted(ops.event, event))
        if execution < len(ops.event) and ops.event[execution] == event:
            known = ops.ops.row(int(ops.op[execution]), named=True)
            return known["name"], _op_source(known)
    frames = profile.derived(host, function_frames)
    if isinstance(frames, Unavailable):
        return None, None
    known_frames = np.flatnonzero(frames.event == event)
    if not len(known_frames):
        return None, None
    name = frames.names[int(frames.type[known_frames[0]])]
    return None, _source_place(name.file, name.line)


def _op_source(op: dict[str, Any]) -> str | None:
    return _source_place(op["source_file"], op["source_line"])


def _source_place(file: str | None, line: int | None) -> str | None:
    if file is None or line is None:
        return file
    return f"{file}:{line}"


class SameName(msgspec.Struct, frozen=True, kw_only=True):
    """Comparison of a span with all spans of its name.

    Equal names on host threads, on a device and on derived tracks count as different.

    Attributes:
        count: Number of spans of this name, including this span.
        total_ps: Total duration of all spans of this name, including nested spans.
        percentile: Percentage of the spans of this name that are at most as long.
        previous: The span of this name that starts before this one; null for the first.
        next: The span of this name that starts after this one; null for the last.
    """

    count: int
    total_ps: int
    percentile: float
    previous: Place | None
    next: Place | None


class Family(NamedTuple):
    """The spans around and inside a span.

    Attributes:
        self_ps: Duration without the time of nested spans.
        children: The first `MAX_CHILDREN` spans directly inside the span.
    """

    self_ps: int
    parent: Place | None
    children: tuple[Place, ...]
    children_count: int


def same_name(shown: HostTimeline, code: int, *, track: int, item: int) -> SameName:
    """Compare a span with all spans of its name."""
    if shown.timeline.line(track) is None:
        items = np.flatnonzero(handles(shown.events, "type") == code)
        tracks = shown.track_of_events(items)
        # No track shows some events, such as those of the recorder.
        items, tracks = items[tracks >= 0], tracks[tracks >= 0]
        start_ps, dur_ps = (
            ints(shown.events, column)[items] for column in ("start_ps", "dur_ps")
        )
    else:
        columns = []
        for number, index in enumerate(shown.lanes):
            line = shown.timeline.line(number)
            if line is not None:
                rows = np.flatnonzero(line.spans.name == code)
                place = np.full(len(rows), number, np.int64)
                times = line.spans.start_ps[rows], line.spans.dur_ps[rows]
                columns.append((place, rows + index.first_item, *times))
        tracks, items, start_ps, dur_ps = (
            np.concatenate(column) for column in zip(*columns, strict=True)
        )
    own_row = int(np.flatnonzero((items == item) & (tracks == track))[0])
    order = np.lexsort((items, start_ps))
    position = int(np.flatnonzero(order == own_row)[0])
    around = [
        shown.place_of_item(int(tracks[order[place]]), int(items[order[place]]))
        if 0 <= place < len(order)
        else None
        for place in (position - 1, position + 1)
    ]
    return SameName(
        count=len(items),
        total_ps=int(dur_ps.sum()),
        percentile=100 * int(np.count_nonzero(dur_ps <= dur_ps[own_row])) / len(items),
        previous=around[0],
        next=around[1],
    )


def span_family(
    profile: ProfileData, host: str, shown: HostTimeline, *, track: int, event: int
) -> Family | Unavailable:
    """Return the spans around and inside a recorded span."""
    nesting = profile.derived(host, event_nesting)
    if isinstance(nesting, Unavailable):
        return nesting
    parent = int(nesting.parent[event])
    begin, end = shown.timeline.tracks.select("begin", "end").row(track)
    inside = np.flatnonzero(nesting.parent[begin:end] == event) + begin
    return Family(
        self_ps=int(nesting.self_ps[event]),
        parent=None if parent < 0 else shown.place_of_item(track, parent),
        children=tuple(
            shown.place_of_item(track, item) for item in inside[:MAX_CHILDREN].tolist()
        ),
        children_count=len(inside),
    )
