"""Steps that the readers of all formats share: row order, time range, and final tables.

A reader assigns a file's events to tracks, links them, and passes its own tables to
`assemble_trace`.
"""

from __future__ import annotations

import itertools
import threading
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np
import polars as pl

from stepscope.errors import BadInput
from stepscope.formats.declared_texts import quality_note, why_absent
from stepscope.frozen import Frozen
from stepscope.patterns import Pattern
from stepscope.rundir import shown_name
from stepscope.trace.model import TraceData
from stepscope.trace.quality import DEVICE_IN_DOUBT, QualityNote
from stepscope.trace.tables import AGGREGATES, ENVIRONMENT, TRACKS, TYPE_STATS
from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_NS, duration_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from stepscope.array_types import Bools, Int32s, Int64s, UInt8s
    from stepscope.rundir import HostFiles

    Table = pl.DataFrame | Unavailable

_Value = TypeVar("_Value")

#: Column type → smallest integer that is too large for the type.
_ENDS: Final[dict[pl.DataType, int]] = {pl.Int32(): 2**31, pl.Int64(): 2**63}
#: Longest plausible recording, in ns (26 days); three times it, in ps, fits 64 bits.
_LONGEST_NS: Final = 2**61 // PS_PER_NS
#: Name of the range that PyTorch records around each batch fetch of a DataLoader.
_LOADER_CALL: Final = Pattern(r"enumerate\(\w+\)#.*__next__")
#: Matches calls of any vendor that launch work or allocate memory on a device.
_LAUNCHES_WORK: Final = Pattern(
    r"(?i)launch|memcpy|memset|prefetch|enqueue|append|(?:malloc|memalloc)(?!host)"
)
#: Upper bound of device ordinals; a larger ordinal comes from a damaged file.
MAX_DEVICES: Final = 2**16
#: Maximum overlap, in ps, of kernels of one stream that a coarse clock may cause.
_MAX_CLOCK_OVERLAP_PS: Final = 1_000_000
#: Reason for missing activity of a device that the program did not use.
NO_LAUNCH: Final = why_absent(
    "any.idle_devices", evidence="no recorded call launched work on it"
)
#: Reason for missing activity of a device that may or may not have been used.
IN_DOUBT: Final = why_absent("any.device_in_doubt")


class Track(Frozen, frozen=True, kw_only=True, eq=True):
    """One track; the fields are the columns of `tracks`."""

    plane: str
    name: str
    kind: str
    derived: str | None = None
    device: int | None = None
    process: int | None = None
    id: int


class PlacedEvents(Frozen, frozen=True, kw_only=True, eq=True):
    """The events of all tracks, in the final order of rows.

    Attributes:
        event_begin, event_end: Half-open range of rows of each track.
    """

    track: Int32s
    type: Int32s
    start_ps: Int64s
    dur_ps: Int64s
    event_begin: Int64s
    event_end: Int64s

    def columns_at(self, rows: Int32s | Int64s) -> dict[str, NDArray[np.generic]]:
        """Return the columns of `events` in some rows, and the rows as `event`."""
        return {
            "event": rows.astype(np.int32, copy=False),
            "track": self.track[rows],
            "type": self.type[rows],
            "start_ps": self.start_ps[rows],
            "dur_ps": self.dur_ps[rows],
        }


class EventValues(Frozen, frozen=True, kw_only=True, eq=True):
    """Values (stats) of a file's events."""

    frame: pl.DataFrame
    strings: tuple[str, ...]


class DeviceTables(Frozen, frozen=True, kw_only=True, eq=True):
    """The tables `device_activity` and `geometries`, with counts of impossible values.

    Attributes:
        refused: Field of a launch → number of activities with an impossible value.
        undirected: Number of copies of unknown direction, which count as device-local.
    """

    frame: pl.DataFrame
    geometries: pl.DataFrame
    refused: dict[str, int]
    undirected: int


def assemble_trace(
    host: str,
    tables: Mapping[str, Callable[[], Table] | Unavailable],
    *,
    work: Callable[[], DeviceTables],
    why_no_work: Callable[[], Unavailable | None],
    no_geometries: Unavailable,
    strings: Sequence[str],
    data: UInt8s,
    recorder: str | None = None,
) -> TraceData:
    """Return the trace of a host; most tables are built when they are first read.

    Args:
        tables: Table name → its builder, or the reason why the format lacks the table.
        work: Builder of the tables of device activity.
        why_no_work: Returns why there is no device activity; None if there is activity.
        no_geometries: The reason to report if no kernel has launch details.
        strings: Value of `TraceData.strings`.
        data: Value of `TraceData.data`.
        recorder: Value of `TraceData.recorder`.
    """

    def geometries() -> Table:
        shapes = work().geometries
        return why_no_work() or (no_geometries if shapes.is_empty() else shapes)

    builders: dict[str, Callable[[], Table]] = {
        "aggregates": lambda: pl.DataFrame(schema=AGGREGATES.dtypes()),
        "type_stats": lambda: pl.DataFrame(schema=TYPE_STATS.dtypes()),
        "device_activity": lambda: why_no_work() or work().frame,
        "geometries": geometries,
    }
    builders |= {
        name: partial(given_table, table) if isinstance(table, Unavailable) else table
        for name, table in tables.items()
    }
    return TraceData(host, builders, strings=strings, data=data, recorder=recorder)


def given_table(table: Table) -> Table:
    """Return the given table or reason; used as a builder without computation."""
    return table


def compute_once(compute: Callable[[], _Value]) -> Callable[[], _Value]:
    """Return a function that computes a value once and returns it to all threads."""
    lock = threading.Lock()
    cached: list[_Value] = []

    def value() -> _Value:
        with lock:
            if not cached:
                cached.append(compute())
            return cached[0]

    return value


def only_file(source: HostFiles, noun: str = "file") -> Path:
    """Return the file of a host that has exactly one file.

    Raises:
        BadInput: The host has several files.
    """
    if len(source.paths) != 1:
        raise BadInput.at(
            source.paths[0],
            f"is one of {len(source.paths)} {noun}s given as parts of one",
            f"Give each {noun} as a separate worker.",
        )
    return source.paths[0]


def tracks_frame(
    tracks: Iterable[object], begin: Int64s | pl.Series, end: Int64s | pl.Series
) -> pl.DataFrame:
    """Return the table `tracks`; `begin` and `end` are the range of rows per track."""
    dtypes = TRACKS.dtypes()
    columns: dict[str, object] = {
        name: [getattr(track, name) for track in tracks]
        for name in dtypes.keys() - {"event_begin", "event_end"}
    }
    columns |= {"event_begin": begin, "event_end": end}
    return pl.DataFrame({name: columns[name] for name in dtypes}, schema=dtypes)


def columns_frame(columns: object, dtypes: Mapping[str, pl.DataType]) -> pl.DataFrame:
    """Return a table whose columns are attributes of an object."""
    return pl.DataFrame({name: getattr(columns, name) for name in dtypes}, dtypes)


def as_declared(frame: pl.DataFrame, dtypes: Mapping[str, pl.DataType]) -> pl.DataFrame:
    """Return the declared columns of a frame; columns that the frame lacks are null."""
    return frame.select(
        pl.col(name).cast(dtype)
        if name in frame.columns
        else pl.lit(None, dtype).alias(name)
        for name, dtype in dtypes.items()
    )


def environment_frame(
    paths: Sequence[Path], format_name: str, given: Mapping[str, object]
) -> pl.DataFrame:
    """Return the single row of `environment`; values that are not given are null.

    An integer that its column cannot hold comes from a damaged file and becomes null.
    """
    dtypes = ENVIRONMENT.dtypes()
    fields = {
        "file": " + ".join(map(shown_name, paths)),
        "format": format_name,
        "file_bytes": sum(path.stat().st_size for path in paths),
        "grouped": False,
        **given,
    }
    row = {
        name: value
        for name, value in fields.items()
        if not isinstance(value, int)
        or isinstance(value, bool)
        or -_ENDS[dtypes[name]] <= value < _ENDS[dtypes[name]]
    }
    return pl.DataFrame([{name: row.get(name) for name in dtypes}], schema=dtypes)


def is_far_off(start_ns: Int64s, dur_ns: Int64s) -> Bools:
    """Return True for events over 26 days long, or 26 days from the median start."""
    near = np.zeros(len(start_ns), np.bool_)
    if not len(start_ns) or (
        int(start_ns.max()) - int(start_ns.min()) <= _LONGEST_NS
        and int(dur_ns.max()) <= _LONGEST_NS
    ):
        return near
    middle = int(np.partition(start_ns, len(start_ns) // 2)[len(start_ns) // 2])
    # Compute the bounds of the starts as Python integers, which cannot overflow.
    first = max(middle - _LONGEST_NS, np.iinfo(np.int64).min)
    last = min(middle + _LONGEST_NS, np.iinfo(np.int64).max)
    return (start_ns < first) | (start_ns > last) | (dur_ns > _LONGEST_NS)


def row_order(track: Int32s, start: Int64s, dur: Int64s) -> Int64s:
    """Return the row order: by track, then start, then longest first; ties keep order.

    An event inside another event therefore follows the outer event.
    """
    # NumPy's stable sort merges ascending runs, and uses radix sort for 16-bit numbers.
    order = np.argsort(start, kind="stable")
    is_16_bit = int(track.max(initial=0)) < 2**16
    sort_track = track.astype(np.uint16) if is_16_bit else track
    order = order[np.argsort(sort_track[order], kind="stable")]
    is_tied = np.ones(max(len(order) - 1, 0), np.bool_)
    for column in (start, sort_track):
        ordered = column[order]
        is_tied &= ordered[1:] == ordered[:-1]
    first = np.flatnonzero(is_tied)
    if (dur[order[first + 1]] > dur[order[first]]).any():
        return np.lexsort((-dur, start, track))
    return order


def range_of_tracks(
    start_ps: Int64s, dur_ps: Int64s, tracks: Iterable[tuple[int, int]]
) -> tuple[int, int] | None:
    """Return first start and last end of the tracks' events; None if there are none.

    The rows of each track must be sorted by start.
    """
    filled = [slice(begin, end) for begin, end in tracks if end > begin]
    if not filled:
        return None
    first = min(int(start_ps[rows.start]) for rows in filled)
    return first, max(int((start_ps[rows] + dur_ps[rows]).max()) for rows in filled)


def or_lost(absent: Unavailable, damaged_at: int | None) -> Unavailable:
    """Return why a table is absent; for a damaged file, the damage is the reason.

    Args:
        absent: Reason to return if the file is whole.
        damaged_at: Offset of the file's first unreadable byte; None in a whole file.
    """
    if damaged_at is None:
        return absent
    return why_absent("any.damaged", at=damaged_at)


def launches_work(calls: Iterable[str]) -> bool:
    """Return whether any of the runtime or driver calls puts work on a device.

    Calls that allocate memory count; waits and queries of properties do not.
    """
    return any(_LAUNCHES_WORK.search(name) for name in calls if name)


def is_loader_call(name: str) -> bool:
    """Return whether a range of this name is one `next()` call of a DataLoader."""
    return _LOADER_CALL.match(name) is not None


def doubt_note(
    absent: Unavailable, count: int | None, kind: str = DEVICE_IN_DOUBT
) -> QualityNote:
    """Return a note that a listed device may or may not have been used."""
    return QualityNote(
        kind=kind,
        severity="warning",
        count=count,
        message=absent.reason,
        remedy=absent.remedy,
    )


def overlap_notes(
    activity: pl.DataFrame, track_kinds: Iterable[str]
) -> Iterator[QualityNote]:
    """Return a note if activities of one stream overlap by more than a coarse clock."""
    is_stream = np.array([kind == "stream" for kind in track_kinds], np.bool_)
    rows = activity.select("track", "start_ps", "dur_ps").sort("track", "start_ps")
    track, start, dur = (column.to_numpy() for column in rows)
    # Compare with the latest end: a long activity may overlap several others.
    first = np.concatenate(([True], track[1:] != track[:-1]))[: len(track)]
    latest = np.zeros(len(track), np.int64)
    for begin, end in itertools.pairwise([*np.flatnonzero(first), len(track)]):
        latest[begin:end] = np.maximum.accumulate((start + dur)[begin:end])
    early = np.where(first[1:] | ~is_stream[track[1:]], 0, latest[:-1] - start[1:])
    early = early[early > _MAX_CLOCK_OVERLAP_PS]
    if len(early):
        longest = duration_text(int(early.max()))
        yield quality_note("any.overlapping_activity", len(early), longest=longest)


def work_notes(refused: Mapping[str, int], undirected: int) -> Iterator[QualityNote]:
    """Return notes on impossible launch details and copies of unknown direction.

    Args:
        refused: Field of a launch → number of kernels with an impossible value.
        undirected: Number of copies without a recorded direction.
    """
    for field, count in sorted(refused.items()):
        yield quality_note("any.impossible_launch_details", count, scope=field)
    if undirected:
        yield quality_note("any.copies_without_direction", undirected)
