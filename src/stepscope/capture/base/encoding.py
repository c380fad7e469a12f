"""Encoding of event rows as columns of a plane, so that a flush is short."""

from __future__ import annotations

import os
import platform
import sys
import threading
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

# `np.unique` imports `numpy.ma` at its first call, on the thread that stores events. A
# child process forked during the import would wait for its end forever.
import numpy.ma

from stepscope.capture.base.spool import Fragment
from stepscope.xspace.fields import BYTES, DOUBLE, INT, REF, TEXT
from stepscope.xspace.writing.encode import StatColumn
from stepscope.xspace.writing.write import XSpaceBuilder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stepscope.capture.base.clock import ClockPair
    from stepscope.xspace.writing.builders import LineBuilder, PlaneBuilder

#: Prefix of the names of the profiler's own threads.
OWN_THREADS: Final = "stepscope-"
_PS_PER_NS: Final = 1000
#: Maximum number of thread names; beyond it, names of ended threads are dropped.
_MAX_NAMES: Final = 4_096


def native_id(thread: threading.Thread) -> int | None:
    """Return the system's id of a thread; None before the thread starts.

    In a forked process, Python may still report the parent's id for the main thread. On
    Linux, the id of the main thread equals the process id.
    """
    if thread is threading.main_thread() and sys.platform == "linux":
        return os.getpid()
    return thread.native_id


class Rows(NamedTuple):
    """Events of any number of threads, as columns.

    Attributes:
        begin_ns: Start of each event, in ns of the monotonic clock.
        thread: System thread id of each event.
        stats: Values of each event by name; an empty mapping for no values.
    """

    names: Sequence[object]
    begin_ns: Sequence[int]
    end_ns: Sequence[int]
    thread: Sequence[int]
    stats: Sequence[Mapping[str, object]]

    def write_events(
        self, plane: PlaneBuilder, *, zero_ns: int, names: ThreadNames
    ) -> None:
        """Add the events to a plane, with one line per thread.

        Args:
            zero_ns: Monotonic time in ns that the times of lines count from.
        """
        ids = {
            name: plane.event_type(_printable_text(name)) for name in set(self.names)
        }
        types = np.array([ids[name] for name in self.names], np.int64)
        begin = np.array(self.begin_ns, np.int64)
        dur = np.maximum(np.array(self.end_ns, np.int64) - begin, 0)
        threads = np.array(self.thread, np.int64)
        lines: dict[int, LineBuilder] = {}
        for thread in np.unique(threads).tolist():
            lines[thread] = plane.line(thread, name=names.thread_name(thread))
        # Events with equal value names and types share columns. The key is a flat
        # tuple, names and then types, because a key is built for each event.
        rows_by_shape: defaultdict[tuple[Any, ...], list[int]] = defaultdict(list)
        for row, values in enumerate(self.stats):
            shape: tuple[Any, ...] = ()
            if values:
                shape = (*values, *map(type, values.values()))
            rows_by_shape[shape].append(row)
        for shape, chosen in rows_by_shape.items():
            shape_rows = np.array(chosen, np.int64)
            half = len(shape) // 2
            for thread, line in lines.items():
                line_rows = shape_rows[threads[shape_rows] == thread]
                if not len(line_rows):
                    continue
                stats = [self.stats[row] for row in line_rows.tolist()]
                line.events(
                    types[line_rows],
                    (begin[line_rows] - zero_ns) * _PS_PER_NS,
                    dur[line_rows] * _PS_PER_NS,
                    stats=[
                        _make_column(
                            plane, name, kind, [values[name] for values in stats]
                        )
                        for name, kind in zip(shape[:half], shape[half:], strict=True)
                    ],
                )


class ThreadNames:
    """Names of threads, kept after the threads end."""

    def __init__(self) -> None:
        self._names: dict[int, str] = {}

    def refresh_names(self) -> None:
        """Read the names of the threads that exist now."""
        if len(self._names) >= _MAX_NAMES:
            self._names.clear()
        for thread in threading.enumerate():
            number = native_id(thread)
            if number is not None:
                self._names[number] = thread.name

    def own_threads(self) -> frozenset[int]:
        """Return the system ids of the profiler's own threads."""
        return frozenset(
            thread
            for thread, name in self._names.items()
            if name.startswith(OWN_THREADS)
        )

    def thread_name(self, thread: int) -> str:
        """Return the name of a thread, or `thread ID` if the name is unknown."""
        return self._names.get(thread, f"thread {thread}")


def rows_fragment(
    rows_by_plane: Mapping[str, Rows],
    *,
    clock: ClockPair,
    names: ThreadNames,
    lost: int = 0,
    why_lost: str = "",
) -> Fragment:
    """Return events as a fragment of a recording; empty without any events.

    Args:
        rows_by_plane: Name of a plane → its events.
        clock: Clock pair that the times of lines count from.
        lost: Number of events that were lost, for a warning.
    """
    space = XSpaceBuilder(platform.node(), start_ns=None)
    if lost:
        space.dropped(lost, why_lost)
    begins: list[int] = []
    for name, rows in rows_by_plane.items():
        if rows.names:
            plane = space.plane(name)
            rows.write_events(plane, zero_ns=clock.monotonic_ns, names=names)
            begins += rows.begin_ns
    if not begins and not lost:
        return Fragment(b"", 0)
    return Fragment(space.to_bytes(), len(begins), min(begins, default=None))


def _make_column(
    plane: PlaneBuilder, name: str, kind: type, values: Sequence[object]
) -> StatColumn:
    key = plane.stat_id(name)
    if issubclass(kind, int | np.integer):
        try:
            return StatColumn(key, INT, np.array(values, np.int64))
        except OverflowError:
            # Integers beyond 64 bits are written as text.
            return _text_column(plane, key, [str(value) for value in values])
    if issubclass(kind, float | np.floating):
        return StatColumn(key, DOUBLE, np.array(values, np.float64))
    if kind is bytes:
        places = {body: place for place, body in enumerate(dict.fromkeys(values))}
        return StatColumn(
            key,
            BYTES,
            np.array([places[body] for body in values], np.int64),
            texts=[body for body in places if isinstance(body, bytes)],
        )
    return _text_column(plane, key, [_printable_text(value) for value in values])


def _text_column(plane: PlaneBuilder, key: int, texts: Sequence[str]) -> StatColumn:
    distinct = dict.fromkeys(texts)
    if 2 * len(distinct) <= len(texts):
        # Repeated texts are stored once, among the stat names.
        ids = {text: plane.stat_id(text) for text in distinct}
        return StatColumn(key, REF, np.array([ids[text] for text in texts], np.int64))
    positions = {text: position for position, text in enumerate(distinct)}
    return StatColumn(
        key,
        TEXT,
        np.array([positions[text] for text in texts], np.int64),
        texts=[text.encode() for text in distinct],
    )


def _printable_text(value: object) -> str:
    """Return a text as it is; of other values the type, as `str` might run code."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    return f"<{type(value).__qualname__}>"
