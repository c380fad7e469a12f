"""The decoded content of one profile, shared by the builders of several tables."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np

from stepscope.formats.xplane.decoded.columns import NO_TEXT, Texts, Values
from stepscope.formats.xplane.decoded.event_order import (
    Timeline,
    build_timeline,
    time_base,
)
from stepscope.formats.xplane.decoded.shown_texts import (
    add_shown_texts,
    listed_programs,
)
from stepscope.formats.xplane.decoded.tracks import (
    activity_tracks,
    find_tracks,
    plane_role,
)
from stepscope.trace.reading.by_row import values_by_row
from stepscope.trace.reading.texts import Shortening
from stepscope.xspace.reading.columns import Stats, pivot_range, pivot_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from stepscope.array_types import Bools, Int32s, Int64s
    from stepscope.formats.xplane.decoded.shown_texts import Program
    from stepscope.formats.xplane.decoded.tracks import PlaneRole, Track
    from stepscope.xspace.reading.columns import Pivot, XSpace

_PROGRAM: Final = "program_id"


class Recording:
    """A decoded file with its tracks and its timeline.

    Attributes:
        space: The decoded message, with starts instead of event offsets.
        roles: Role of each plane.
        strings: Handle → text, for all texts that tables refer to.
    """

    def __init__(self, host: str, paths: tuple[Path, ...], space: XSpace) -> None:
        self.host = host
        self.paths = paths
        self.shortening = Shortening()
        cut = self.shortening
        planes = tuple(
            msgspec.structs.replace(
                plane,
                name=cut.text(plane.name),
                stats=tuple(
                    (key, kind, cut.text(value) if isinstance(value, str) else value)
                    for key, kind, value in plane.stats
                ),
            )
            for plane in space.planes
        )
        space = self.space = msgspec.structs.replace(
            space,
            planes=planes,
            strings=cut.texts(space.strings),
            errors=tuple(cut.texts(space.errors)),
            warnings=tuple(cut.texts(space.warnings)),
            hostnames=tuple(cut.texts(space.hostnames)),
        )
        self.roles: list[PlaneRole] = [plane_role(plane) for plane in space.planes]
        self.tracks: list[Track] = find_tracks(space, self.roles)
        self.base = time_base(space.lines)
        self.timeline: Timeline = build_timeline(space, self.tracks, self.base)
        # Shortened texts may be equal; the last handle is used.
        self._handles = {text: handle for handle, text in enumerate(space.strings)}
        self.strings: tuple[str, ...] = tuple(space.strings)
        self._shared_values: dict[str, Values | None] = {}
        if self.activity_tracks:
            known = len(self.strings)
            texts = self.texts()
            tracks = [self.tracks[row] for row in self.activity_tracks]
            add_shown_texts(texts, self.space, tracks, self.programs.values())
            self.strings = tuple(texts.strings)
            self._handles |= {
                text: known + index for index, text in enumerate(self.strings[known:])
            }

    def texts(self) -> Texts:
        """Return all texts by handle; a table may add texts that it compares."""
        return Texts(self.space.data, self.strings, self._handles)

    @property
    def damaged_at(self) -> int | None:
        """Offset of the first unreadable byte; None in a whole file."""
        damage = self.space.damage
        return damage[0].offset if damage else None

    @cached_property
    def programs(self) -> dict[int, Program]:
        """The compiled programs that the file lists, by id."""
        return listed_programs(self.space, self.type_values([_PROGRAM])[_PROGRAM])

    @cached_property
    def stats(self) -> Stats:
        """Stats sorted by final row of `events`."""
        stats, rows = self.space.stats, self.timeline.rows
        if rows is None:
            return stats
        final = np.full(self.timeline.file_rows, -1, dtype=np.int32)
        final[rows] = np.arange(len(rows), dtype=np.int32)
        event = final[stats.event]
        order = np.argsort(event, kind="stable")
        order = order[np.searchsorted(event[order], np.int32(0)) :]
        return Stats(
            event[order],
            stats.key[order],
            stats.kind[order],
            stats.value[order],
            stats.length[order],
        )

    @cached_property
    def activity_tracks(self) -> list[int]:
        """Rows of the tracks with device activity."""
        return activity_tracks(self.tracks)

    @cached_property
    def time_range(self) -> tuple[int, int] | None:
        """First start and last end of all events but counters; None if none exist."""
        counted = [
            row for row, track in enumerate(self.tracks) if track.kind != "counters"
        ]
        return self.timeline.time_range(counted)

    def handle(self, text: str) -> int:
        """Return the handle of a text, or -1 if the file does not contain it."""
        return self._handles.get(text, -1)

    @cached_property
    def no_text(self) -> Int32s:
        """Handles of the texts that mean "unknown value"."""
        handles = [self.handle(text) for text in NO_TEXT]
        return np.array([handle for handle in handles if handle >= 0], dtype=np.int32)

    @cached_property
    def type_names(self) -> NDArray[np.object_]:
        """The name of every event type."""
        names = np.empty(len(self.space.event_types), dtype=object)
        strings = self.strings
        names[:] = [strings[handle] for handle in self.space.event_types.name.tolist()]
        return names

    def types_named(self, wanted: Callable[[str], bool]) -> Bools:
        """Return a mask of the event types whose names are wanted."""
        return np.array([wanted(name) for name in self.type_names], dtype=np.bool_)

    def host_rows(self, wanted: Callable[[str], bool]) -> Int64s:
        """Return rows of events on host threads whose names are wanted, ascending."""
        chosen = self.types_named(wanted)
        if not chosen.any():
            return np.zeros(0, dtype=np.int64)
        line = self.timeline
        rows = [
            begin + np.flatnonzero(values_by_row(chosen, line.type[begin:end]))
            for begin, end in self.ranges(self.host_tracks)
        ]
        return np.concatenate([np.zeros(0, dtype=np.int64), *rows])

    def host_values(self, key: str) -> tuple[Int64s, Values]:
        """Return the rows of host thread events with a given stat, and its values."""
        stats, handle = self.stats, self.handle(key)
        parts = [np.zeros(0, np.int64)]
        for bounds in self.ranges(self.host_tracks):
            # Both bounds have the column's type; otherwise NumPy would copy the column.
            needles = np.array(bounds, dtype=np.int32)
            low, high = np.searchsorted(stats.event, needles).tolist()
            parts.append(low + np.flatnonzero(stats.key[low:high] == handle))
        chosen = np.concatenate(parts)
        # If an event has several values of a stat, the last value is used.
        chosen = chosen[np.diff(stats.event[chosen], append=-1) != 0]
        return stats.event[chosen].astype(np.int64), Values.of_rows(stats, chosen)

    @cached_property
    def host_tracks(self) -> list[int]:
        """Rows of the tracks that are threads of a host."""
        return [
            row
            for row, track in enumerate(self.tracks)
            if track.kind == "thread" and track.role.device_type is None
        ]

    def ranges(self, tracks: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Yield the half-open range of rows of each given track."""
        for track in tracks:
            yield (
                int(self.timeline.event_begin[track]),
                int(self.timeline.event_end[track]),
            )

    def values_in_range(
        self, keys: Sequence[str], begin: int, end: int
    ) -> dict[str, Values]:
        """Return stats of the events [begin, end), missing ones from their types."""
        handles = [self.handle(key) for key in keys]
        pivot = pivot_range(self.stats, handles, event_begin=begin, event_end=end)
        return self._own_or_shared(keys, pivot, self.timeline.type[begin:end])

    def values_at_rows(self, keys: Sequence[str], rows: Int64s) -> dict[str, Values]:
        """Return stats of the events in some rows, missing ones from their types."""
        handles = [self.handle(key) for key in keys]
        pivot = pivot_rows(self.stats, handles, rows.astype(np.int32))
        return self._own_or_shared(keys, pivot, self.timeline.type[rows])

    def type_values(self, keys: Sequence[str]) -> dict[str, Values]:
        """Return the stats of the given names, by event type."""
        count, own = len(self.space.event_types), self.space.type_stats
        stats = Stats(own.type, own.key, own.kind, own.value, own.length)
        handles = [self.handle(key) for key in keys]
        pivot = pivot_range(stats, handles, event_begin=0, event_end=count)
        return _values_by_key(keys, pivot)

    def _own_or_shared(
        self, keys: Sequence[str], pivot: Pivot, types: Int32s
    ) -> dict[str, Values]:
        # Keep the stats of types for the next block; None for a stat that no type has.
        shared = self._shared_values
        missing = [key for key in keys if key not in shared]
        if missing:
            for key, values in self.type_values(missing).items():
                shared[key] = values if values.kind.any() else None
        merged = _values_by_key(keys, pivot)
        for key, values in merged.items():
            of_types = shared[key]
            if of_types is not None:
                own = values.kind != 0
                merged[key] = Values(
                    np.where(own, values.kind, of_types.kind[types]),
                    np.where(own, values.value, of_types.value[types]),
                    np.where(own, values.length, of_types.length[types]),
                )
        return merged


def _values_by_key(keys: Sequence[str], pivot: Pivot) -> dict[str, Values]:
    return {key: Values.of_rows(pivot, slot) for slot, key in enumerate(keys)}
