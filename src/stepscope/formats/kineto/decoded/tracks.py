"""Assign every event to a track: a host thread, a device stream, or another track.

A track is identified by process, device (if any), and thread or stream. Names repeat
and do not identify tracks. The class of an event determines its track.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.formats.assemble import MAX_DEVICES, Track
from stepscope.formats.kineto.columns.categories import ON_THREAD, EventClass
from stepscope.formats.kineto.columns.declared import whole_number
from stepscope.frozen import Frozen
from stepscope.patterns import Pattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from stepscope.array_types import Int32s, Int64s
    from stepscope.formats.kineto.columns.declared import ArgumentColumns, FileColumns

_HOST: Final = "/host:CPU"
_RECORDER: Final = "PyTorch Profiler"
#: Stream ids that producers write for "no stream".
NO_STREAM: Final = frozenset({-1, 2**32 - 1})
_NUMBER: Final = Pattern(r"(-?\d{1,19})\s*\Z")

#: Order of the tracks; within a section, tracks are sorted by device, then by stream.
_SECTIONS: Final = ("host", "device", "overhead", "recorder", "other")


class Placement(Frozen, frozen=True, kw_only=True, eq=True):
    """All tracks, and the track of every event.

    Attributes:
        tracks: Tracks in their final order.
        track: int32 by index in `EventColumns`; -1 for a device event without a device.
        main_process: Process number of the program; None if no thread has a number.
    """

    tracks: list[Track]
    track: Int32s
    main_process: int | None


def place_events(columns: FileColumns) -> Placement:
    """Assign every event to a track."""
    placing = _Placing(columns)
    placing.threads()
    for device_columns in (columns.activity, columns.others):
        placing.streams(device_columns)
    placing.annotations()
    placing.beside()
    return placing.result()


class _Placing:
    def __init__(self, columns: FileColumns) -> None:
        self._event_columns = columns
        self._events = columns.events
        self._pids = [whole_number(process) for process in columns.processes]
        self._tids = [_thread_number(thread) for thread in columns.threads]
        self._track = np.full(len(self._events.kind), -1, np.int32)
        self._numbers: dict[tuple[object, ...], int] = {}
        self._tracks: list[tuple[tuple[int, ...], Track]] = []
        # The main process is the one with the most events on threads.
        rows = np.flatnonzero(np.isin(self._events.kind, ON_THREAD))
        counts = np.bincount(
            self._events.process[rows], minlength=len(self._event_columns.processes)
        )
        by_events: list[int] = np.argsort(-counts, kind="stable").tolist()
        known = (self._pids[number] for number in by_events if counts[number])
        self._main = next((pid for pid in known if pid), None)
        self._shown = {
            (self._pids[process], self._tids[thread]): name
            for (process, thread), name in columns.thread_names.items()
        }

    def threads(self) -> None:
        """Add the tracks of host threads."""
        rows = np.flatnonzero(np.isin(self._events.kind, ON_THREAD))
        for process, thread, indices in self._pairs_of_process_and_thread(rows):
            pid = self._pids[process]
            # The tracer writes process number 0 if it does not know the process.
            pid = pid or self._main
            tid = self._tids[thread]
            text = None if tid is not None else str(self._event_columns.threads[thread])
            name = self._event_columns.thread_names.get((process, thread))
            own = pid == self._main
            self._put_on_track(
                rows[indices],
                (EventClass.OP, pid, tid, text),
                (_SECTIONS.index("host"), not own, pid or 0, int(rows[indices[0]])),
                Track(
                    plane=_HOST if own else f"{_HOST} [{pid}]",
                    name=name or text or f"thread {tid}",
                    kind="thread",
                    process=pid,
                    id=-1 if tid is None else tid,
                ),
            )

    def streams(self, columns: ArgumentColumns) -> None:
        """Add the tracks of streams, synchronisations and kernel counters."""
        place = columns.place
        if not len(place):
            return
        # In older files the process number is the device, and the thread is the stream.
        pids = pl.Series(self._pids, dtype=pl.Int64).gather(self._events.process[place])
        tids = pl.Series(self._tids, dtype=pl.Int64).gather(self._events.thread[place])
        device, stream = (
            column.to_numpy()
            for column in columns.frame.select(
                device=pl.coalesce("device", pids, -1),
                stream=pl.coalesce("stream", tids, -1),
            )
        )
        usable = np.flatnonzero((device >= 0) & (device < MAX_DEVICES))
        kind = self._events.kind[place]
        streams, stream_number = np.unique(stream[usable], return_inverse=True)
        pair = device[usable] * len(streams) + stream_number.reshape(-1)
        for number, indices in _group_indices(pair):
            chosen = usable[indices]
            of_device = number // len(streams)
            of_stream = int(streams[number % len(streams)])
            rows, of_kind = place[chosen], kind[chosen]
            is_sync = of_kind == EventClass.SYNC
            is_counters = of_kind == EventClass.COUNTERS
            on_device = partial(Track, plane=_device_plane(of_device), device=of_device)
            name = self._stream_name(of_device, of_stream)
            self._put_on_track(
                rows[~is_sync & ~is_counters],
                (EventClass.KERNEL, of_device, of_stream),
                (_SECTIONS.index("device"), of_device, 0, of_stream, 0),
                on_device(name=name, kind="stream", id=of_stream),
            )
            no_stream = of_stream in NO_STREAM
            stream_id = -1 if no_stream else of_stream
            label = "synchronisation"
            self._put_on_track(
                rows[is_sync],
                (EventClass.SYNC, of_device, stream_id),
                (_SECTIONS.index("device"), of_device, 1, stream_id),
                on_device(
                    name=label if no_stream else f"{name}: {label}",
                    kind="asynchronous",
                    id=stream_id,
                ),
            )
            self._put_on_track(
                rows[is_counters],
                (EventClass.COUNTERS, of_device),
                (_SECTIONS.index("device"), of_device, 2),
                on_device(name="counters of kernels", kind="counters", id=0),
            )

    def annotations(self) -> None:
        """Add tracks for annotations on streams, which repeat the time of kernels."""
        kind = self._events.kind
        rows = np.flatnonzero(kind == EventClass.DEVICE_ANNOTATION)
        for process, thread, indices in self._pairs_of_process_and_thread(rows):
            device, stream = self._pids[process], self._tids[thread]
            if device is None or not 0 <= device < MAX_DEVICES:
                continue
            stream = -1 if stream is None else stream
            self._put_on_track(
                rows[indices],
                (EventClass.DEVICE_ANNOTATION, device, stream),
                (_SECTIONS.index("device"), device, 0, stream, 1),
                Track(
                    plane=_device_plane(device),
                    name=f"{self._stream_name(device, stream)}: annotations",
                    kind="derived",
                    derived="other",
                    device=device,
                    id=stream,
                ),
            )

    def beside(self) -> None:
        """Add tracks of profiler overhead, the recording, and unknown categories."""
        kind = self._events.kind
        for event_kind, section, plane, track_kind, track_name in (
            (EventClass.OVERHEAD, "overhead", _HOST, "overhead", "Profiler overhead"),
            (EventClass.RECORDING, "recorder", _RECORDER, "asynchronous", "Recording"),
        ):
            self._put_on_track(
                np.flatnonzero(kind == event_kind),
                (event_kind,),
                (_SECTIONS.index(section),),
                Track(plane=plane, name=track_name, kind=track_kind, id=0),
            )
        rows = np.flatnonzero(kind == EventClass.OTHER)
        for process, thread, indices in self._pairs_of_process_and_thread(rows):
            tid = self._tids[thread]
            name = self._event_columns.thread_names.get((process, thread))
            self._put_on_track(
                rows[indices],
                (EventClass.OTHER, process, thread),
                (_SECTIONS.index("other"), process, thread),
                Track(
                    plane=f"process {self._event_columns.processes[process]}",
                    name=name or f"thread {self._event_columns.threads[thread]}",
                    kind="asynchronous",
                    process=self._pids[process],
                    id=-1 if tid is None else tid,
                ),
            )

    def result(self) -> Placement:
        order = sorted(range(len(self._tracks)), key=lambda row: self._tracks[row][0])
        final = np.full(len(order) + 1, -1, np.int32)
        final[order] = np.arange(len(order), dtype=np.int32)
        return Placement(
            tracks=[self._tracks[index][1] for index in order],
            track=final[self._track],
            main_process=self._main,
        )

    def _stream_name(self, device: int, stream: int) -> str:
        return self._shown.get((device, stream), f"stream {stream}")

    def _pairs_of_process_and_thread(
        self, rows: Int64s
    ) -> Iterable[tuple[int, int, Int64s]]:
        width = max(len(self._event_columns.threads), 1)
        pair = self._events.process[rows].astype(np.int64) * width
        pair += self._events.thread[rows]
        for number, indices in _group_indices(pair):
            yield number // width, number % width, indices

    def _put_on_track(
        self, rows: Int64s, key: tuple[object, ...], rank: tuple[int, ...], track: Track
    ) -> None:
        """Assign events to the track with a key; create the track if it is missing."""
        if not len(rows):
            return
        number = self._numbers.setdefault(key, len(self._tracks))
        if number == len(self._tracks):
            self._tracks.append((rank, track))
        self._track[rows] = number


def _group_indices(numbers: Int64s) -> Iterator[tuple[int, Int64s]]:
    """Yield each distinct number with its indices; sorts once for all numbers."""
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    begins = np.flatnonzero(np.diff(ordered, prepend=ordered[:1] - 1))
    ends = np.append(begins[1:], len(ordered))
    for begin, end in zip(begins.tolist(), ends.tolist(), strict=False):
        yield int(ordered[begin]), order[begin:end]


def _device_plane(device: int) -> str:
    return f"/device:GPU:{device}"


def _thread_number(value: int | str | None) -> int | None:
    """Return the number of a thread or stream, also from text such as `stream 7`."""
    number = whole_number(value)
    if number is None and isinstance(value, str):
        match = _NUMBER.search(value)
        number = whole_number(match[1]) if match and "stream" in value else None
    return number
