"""Convert lines to tracks; plane, id and name of a line decide the track's kind."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Final, NamedTuple

from stepscope.frozen import Frozen
from stepscope.patterns import Pattern
from stepscope.xspace.samples_line import SamplesLine

if TYPE_CHECKING:
    from stepscope.xspace.reading.columns import Plane, XSpace

HOST_PLANE: Final = "/host:CPU"
#: Planes whose lines are host threads; producers usually merge these planes into one.
_SIDE_PLANES: Final = frozenset(
    {"/host:CUPTI", "/host:ROCTRACER", "/host:python-tracer", "/host:TPU-runtime"}
)
_CHILD: Final = Pattern(r"(?P<name>.*) \[(?P<pid>\d+)\]\Z", re.DOTALL)
_DEVICE: Final = Pattern(
    r"/device:(?P<type>GPU|TPU):(?P<ordinal>\d{1,9})(?P<rest>.*)\Z", re.DOTALL
)
#: Ids that producers give to derived lines: base, base + 1, and so on. Definition:
#: docs/formats/xplane.md#planes-become-groups-of-tracks.
_DERIVED_BASE: Final = -559038737
_DERIVED_LAST: Final = _DERIVED_BASE + 389
_OVERHEAD_ID: Final = _DERIVED_BASE + 6
_COUNTERS_ID: Final = 2**63 - 1
_DERIVED_NAMES: Final = {
    "Steps": "steps",
    "Launch Stats": "launch_stats",
    "Framework Name Scope": "name_scope",
    "TensorFlow Name Scope": "name_scope",
    "Framework Ops": "framework_ops",
    "TensorFlow Ops": "framework_ops",
    "XLA Modules": "xla_modules",
    "XLA Ops": "xla_ops",
    "Source code": "source",
    "Source Code": "source",
}
#: Ending of the names of GPU lines on which streams wait.
_WAITS: Final = "synchronisation"
_LINE_TYPES: Final = Pattern(r"Stream #\S*?\((?P<types>[^)]*)\)")


def integer_stat(plane: Plane, name: str) -> int | None:
    """Return an integer stat; None if it is missing or exceeds 64 bits (signed)."""
    value = _last_value(plane, name)
    if isinstance(value, float) and math.isfinite(value):
        value = int(value)
    if isinstance(value, int) and -(2**63) <= value < 2**63:
        return value
    return None


def real_stat(plane: Plane, name: str) -> float | None:
    """Return a stat that is a finite number; None if it is missing or another value."""
    value = _last_value(plane, name)
    if isinstance(value, int | float) and math.isfinite(value):
        return float(value)
    return None


def text_stat(plane: Plane, name: str) -> str | None:
    """Return a stat that is a non-empty text; None if it is missing."""
    value = _last_value(plane, name)
    return value if isinstance(value, str) and value else None


def bytes_stat(plane: Plane, name: str) -> bytes | None:
    """Return a stat that is bytes; None if it is missing."""
    value = _last_value(plane, name)
    return value if isinstance(value, bytes) else None


def _last_value(plane: Plane, name: str) -> float | int | str | bytes | None:
    last = None
    for key, _, value in plane.stats:
        if key == name:
            last = value
    return last


class PlaneRole(Frozen, frozen=True, eq=True):
    """Meaning of the lines of a plane.

    Attributes:
        group: Name of the group of tracks; all planes of a group are shown as one.
        process: Process id, if recorded.
        device_type: GPU, TPU or CUSTOM; None for the host.
        device: Ordinal; None for the host and for parts of a chip without an ordinal.
        core: Whether the plane is a whole device, not a part of one.
        side: Whether the plane has host threads from a separate collector.
    """

    group: str
    process: int | None = None
    device_type: str | None = None
    device: int | None = None
    core: bool = False
    side: bool = False


class Track(NamedTuple):
    """One track, and the lines of the file that it combines."""

    role: PlaneRole
    name: str
    kind: str
    derived: str | None
    id: int
    lines: tuple[int, ...]

    @property
    def plane(self) -> str:
        """Name of the track's group."""
        return self.role.group

    @property
    def device(self) -> int | None:
        """Ordinal of the track's device; None on the host."""
        return self.role.device

    @property
    def process(self) -> int | None:
        """Process id, if recorded."""
        return self.role.process


def find_tracks(space: XSpace, roles: list[PlaneRole]) -> list[Track]:
    """Return tracks in file order; equal lines of one group of planes are one track."""
    lines = space.lines
    tracks: list[Track] = []
    of_name: dict[tuple[str, int, str], int] = {}
    of_id: dict[tuple[str, int], int] = {}
    for row, (plane, line, name_handle, display) in enumerate(
        zip(
            lines.plane.tolist(),
            lines.id.tolist(),
            lines.name.tolist(),
            lines.display_name.tolist(),
            strict=True,
        )
    ):
        role = roles[plane]
        name = space.strings[name_handle]
        same = of_name.get((role.group, line, name))
        if same is None:
            same = of_id.get((role.group, line))
            # Lines of equal id are one thread if one is from a separate collector.
            if same is not None and not (role.side or tracks[same].role.side):
                same = None
        if same is not None:
            before = tracks[same]
            tracks[same] = before._replace(lines=(*before.lines, row))
            continue
        shown = space.strings[display] if display >= 0 else ""
        kind, derived = _kind_of_line(role, line, name)
        of_name[role.group, line, name] = len(tracks)
        of_id.setdefault((role.group, line), len(tracks))
        tracks.append(
            Track(
                role=role,
                name=shown or name or f"line {line}",
                kind=kind,
                derived=derived,
                id=line,
                lines=(row,),
            )
        )
    return tracks


def line_types(name: str) -> tuple[str, ...]:
    """Return the words in a stream's name, such as `Stream #7(Compute,MemcpyD2D)`."""
    match = _LINE_TYPES.search(name)
    return tuple(match["types"].split(",")) if match else ()


def activity_tracks(tracks: list[Track]) -> list[int]:
    """Return rows of the tracks with device activity, in order."""
    return [
        row
        for row, track in enumerate(tracks)
        if (track.role.device_type == "GPU" and track.kind == "stream")
        or (track.role.device_type == "TPU" and track.kind == "core")
    ]


def plane_role(plane: Plane) -> PlaneRole:
    """Return the meaning of a plane's lines, from the plane's name."""
    name, process = plane.name, integer_stat(plane, "process_id")
    child = _CHILD.match(name)
    if child is not None:
        name, process = child["name"], int(child["pid"])
    device = _DEVICE.match(name)
    if device is not None:
        return PlaneRole(
            group=plane.name,
            process=process,
            device_type=device["type"],
            device=int(device["ordinal"]),
            core=not device["rest"],
        )
    if name.startswith(("/device:", "/custom:")):
        return PlaneRole(group=plane.name, process=process, device_type="CUSTOM")
    if name.startswith("#Chip"):
        return PlaneRole(group=plane.name, process=process, device_type="TPU")
    if name in _SIDE_PLANES:
        group = HOST_PLANE + plane.name.removeprefix(name)
        return PlaneRole(group=group, process=process, side=True)
    return PlaneRole(group=plane.name or f"plane {plane.id}", process=process)


def _kind_of_line(role: PlaneRole, line: int, name: str) -> tuple[str, str | None]:
    if line == _COUNTERS_ID or name == "_counters_":
        return "counters", None
    if line == _OVERHEAD_ID or name == "CUPTI overhead":
        return "overhead", None
    if SamplesLine.of(line, name) is not None:
        return "samples", None
    view = _DERIVED_NAMES.get(name.split(" - from #", 1)[0])
    if _DERIVED_BASE <= line <= _DERIVED_LAST:
        return "derived", view or "other"
    if role.device_type is None:
        return "thread", None
    if role.device_type == "TPU" and view == "xla_ops":
        # A TPU records its line of ops; the line is not derived from streams.
        view, kind = None, "core" if role.core else "asynchronous"
    else:
        works = role.device_type == "GPU" and not name.endswith(_WAITS)
        kind = "stream" if works else "asynchronous"
    return ("derived", view) if view else (kind, None)
