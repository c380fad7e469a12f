"""What the readers of all formats end with: order, hull, absent devices, the tables.

A reader that has placed and linked the events of a file hands its own tables to
`assemble`; what follows for every format alike is decided here.
"""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np
import polars as pl

from stepscope.errors import BadInput
from stepscope.formats.declared_words import quality_note, why_absent
from stepscope.frozen import Frozen
from stepscope.patterns import Pattern
from stepscope.trace.model import TraceData
from stepscope.trace.quality import DEVICE_IN_DOUBT, QualityNote
from stepscope.trace.tables import AGGREGATES, ENVIRONMENT, TRACKS, TYPE_STATS
from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_NS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from stepscope.array_types import Bools, Int32s, Int64s, UInt8s
    from stepscope.rundir import HostFiles

    Table = pl.DataFrame | Unavailable

_Value = TypeVar("_Value")

#: What lies above every integer of a column's type.
_ENDS: Final[dict[pl.DataType, int]] = {pl.Int32(): 2**31, pl.Int64(): 2**63}
#: No recording lasts so long (26 days); sums of three such times fit 64 bits.
_LONGEST_NS: Final = 2**61 // PS_PER_NS
#: How PyTorch names the range around each batch that a DataLoader hands over.
_LOADER_CALL: Final = Pattern(r"enumerate\(\w+\)#.*__next__")
#: What the names of calls that put work or memory on a device have in common, of any
#: vendor.
_GIVES_WORK: Final = Pattern(
    r"(?i)launch|memcpy|memset|prefetch|enqueue|append|(?:malloc|memalloc)(?!host)"
)
#: The evidence that calls of a runtime give, where none of them gives a device work.
NO_CALL_GIVES_WORK: Final = "no recorded call gave it work"
#: Why there is no work of a device of which nothing says whether it was used.
IN_DOUBT: Final = why_absent("any.device_in_doubt")


class Track(Frozen, frozen=True, kw_only=True, eq=True):
    """One track; fields as the columns of `tracks`."""

    plane: str
    name: str
    kind: str
    derived: str | None = None
    device: int | None = None
    process: int | None = None
    id: int


class PlacedEvents(Frozen, frozen=True, kw_only=True, eq=True):
    """The events of all tracks in their final rows.

    Attributes:
        event_begin, event_end: By track, its rows.
    """

    track: Int32s
    type: Int32s
    start_ps: Int64s
    dur_ps: Int64s
    event_begin: Int64s
    event_end: Int64s

    def frame(self) -> pl.DataFrame:
        """Return the table `events`."""
        columns = ("track", "type", "start_ps", "dur_ps")
        return pl.DataFrame({name: getattr(self, name) for name in columns})


class EventValues(Frozen, frozen=True, kw_only=True, eq=True):
    """The values of a file's events."""

    frame: pl.DataFrame
    strings: tuple[str, ...]


class DeviceTables(Frozen, frozen=True, kw_only=True, eq=True):
    """The tables `device_activity` and `geometries`, and what was doubtful in them.

    Attributes:
        refused: Field of a launch → activities in which it was impossible.
        undirected: Number of copies whose direction is not recorded; taken as local.
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
    """Return the trace of a host, as far as possible each table when it is asked for.

    Args:
        host: Name of the host.
        tables: The format's own tables by name; a reason where it never has one.
        work: What ran on devices.
        why_no_work: Returns why there is nothing of devices; None where there is.
        no_geometries: Why no kernel carries launch details, where none does.
        strings: As `TraceData` has them.
        data: As `TraceData` has it.
        recorder: As `TraceData` has it.
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
    """Return a table, or why there is none, for a builder that has nothing to do."""
    return table


def compute_once(compute: Callable[[], _Value]) -> Callable[[], _Value]:
    """Defer a computation to the first call; all calls, from any thread, share it."""
    lock = threading.Lock()
    kept: list[_Value] = []

    def value() -> _Value:
        with lock:
            if not kept:
                kept.append(compute())
            return kept[0]

    return value


def only_file(source: HostFiles, what: str = "file") -> Path:
    """Return the file of a host, which has one.

    Raises:
        BadInput: Several files were given as parts of one.
    """
    if len(source.paths) != 1:
        raise BadInput.at(
            source.paths[0],
            f"is one of {len(source.paths)} {what}s given as parts of one",
            f"Give each {what} as a separate worker.",
        )
    return source.paths[0]


def tracks_frame(
    tracks: Iterable[object], begin: Int64s | pl.Series, end: Int64s | pl.Series
) -> pl.DataFrame:
    """Return the table `tracks`; `begin` and `end` are rows of events, by track."""
    dtypes = TRACKS.dtypes()
    columns: dict[str, object] = {
        name: [getattr(track, name) for track in tracks]
        for name in dtypes.keys() - {"event_begin", "event_end"}
    }
    columns |= {"event_begin": begin, "event_end": end}
    return pl.DataFrame({name: columns[name] for name in dtypes}, schema=dtypes)


def declared_frame(
    dtypes: Mapping[str, pl.DataType],
    given: Mapping[str, pl.Series | NDArray[Any]],
    height: int,
) -> pl.DataFrame:
    """Return a declared table of some columns; one that is not given is null."""
    return pl.DataFrame(
        [
            pl.Series(name, given[name], dtype=dtype)
            if name in given
            else pl.Series(name, [None], dtype=dtype).new_from_index(0, height)
            for name, dtype in dtypes.items()
        ]
    )


def as_declared(frame: pl.DataFrame, dtypes: Mapping[str, pl.DataType]) -> pl.DataFrame:
    """Return the declared columns of a frame; one that it lacks is null."""
    return frame.select(
        pl.col(name).cast(dtype)
        if name in frame.columns
        else pl.lit(None, dtype).alias(name)
        for name, dtype in dtypes.items()
    )


def environment_frame(given: Mapping[str, object]) -> pl.DataFrame:
    """Return the one row of `environment`; what is not given is null.

    An integer that its column has no room for is unknown, as damaged files have them.
    """
    dtypes = ENVIRONMENT.dtypes()
    row = {
        name: value
        for name, value in given.items()
        if not isinstance(value, int)
        or isinstance(value, bool)
        or -_ENDS[dtypes[name]] <= value < _ENDS[dtypes[name]]
    }
    return pl.DataFrame([{name: row.get(name) for name in dtypes}], schema=dtypes)


def is_far_off(start_ns: Int64s, dur_ns: Int64s) -> Bools:
    """Return which events start weeks away from most others, or last as long."""
    near = np.zeros(len(start_ns), np.bool_)
    if not len(start_ns) or (
        int(start_ns.max()) - int(start_ns.min()) <= _LONGEST_NS
        and int(dur_ns.max()) <= _LONGEST_NS
    ):
        return near
    middle = int(np.partition(start_ns, len(start_ns) // 2)[len(start_ns) // 2])
    # Compared with bounds that were computed without overflow.
    first = max(middle - _LONGEST_NS, np.iinfo(np.int64).min)
    last = min(middle + _LONGEST_NS, np.iinfo(np.int64).max)
    return (start_ns < first) | (start_ns > last) | (dur_ns > _LONGEST_NS)


def row_order(track: Int32s, start: Int64s, dur: Int64s) -> Int64s:
    """Return the rows by track, by start, the longer first; equal ones stay in order.

    What is inside of another event thus follows it, however short both are.
    """
    # What lies in runs of ascending starts is merged, and few tracks are counted.
    order = np.argsort(start, kind="stable")
    few = int(track.max(initial=0)) < 2**16
    own = track.astype(np.uint16) if few else track
    order = order[np.argsort(own[order], kind="stable")]
    together = np.ones(max(len(order) - 1, 0), np.bool_)
    for column in (start, own):
        ordered = column[order]
        together &= ordered[1:] == ordered[:-1]
    first = np.flatnonzero(together)
    if (dur[order[first + 1]] > dur[order[first]]).any():
        return np.lexsort((-dur, start, track))
    return order


def hull_of_tracks(
    start_ps: Int64s, dur_ps: Int64s, tracks: Iterable[tuple[int, int]]
) -> tuple[int, int] | None:
    """Return first start and last end of some tracks' rows; None where there is none.

    Rows of a track are in order of their starts.
    """
    filled = [slice(begin, end) for begin, end in tracks if end > begin]
    if not filled:
        return None
    first = min(int(start_ps[rows.start]) for rows in filled)
    last = max(int((start_ps[rows] + dur_ps[rows]).max()) for rows in filled)
    return first, last


def or_lost(absent: Unavailable, damaged_at: int | None) -> Unavailable:
    """Return why a table is absent: where damage may have taken it, that is the reason.

    Args:
        absent: The reason in a whole file.
        damaged_at: First byte of the file that cannot be read; None in a whole file.
    """
    if damaged_at is None:
        return absent
    return why_absent("any.damaged", at=damaged_at)


def gives_work(calls: Iterable[str]) -> bool:
    """Return whether any of these calls of a runtime or driver puts work on a device.

    Memory is work to come. Calls that only ask for properties, or wait for what was
    never launched, give none.
    """
    return any(_GIVES_WORK.search(name) for name in calls if name)


def idle_devices(evidence: str) -> Unavailable:
    """Return why there is no work of a device that is listed, and was not used."""
    return why_absent("any.idle_devices", evidence=evidence)


def is_loader_call(name: str) -> bool:
    """Return whether a range of this name is one call of a DataLoader's iterator."""
    return _LOADER_CALL.match(name) is not None


def doubt_note(
    why: Unavailable, count: int | None, kind: str = DEVICE_IN_DOUBT
) -> QualityNote:
    """Note that it is not known whether a listed device was used."""
    return QualityNote(
        kind=kind,
        severity="warning",
        count=count,
        message=why.reason,
        remedy=why.remedy,
    )


def work_notes(refused: Mapping[str, int], undirected: int) -> Iterator[QualityNote]:
    """Note which details of launches are impossible, and copies without direction.

    Args:
        refused: Field of a launch → kernels in which it was impossible.
        undirected: Number of copies whose direction is not recorded.
    """
    for field, count in sorted(refused.items()):
        yield quality_note("any.impossible_launch_details", count, scope=field)
    if undirected:
        yield quality_note("any.copies_without_direction", undirected)
