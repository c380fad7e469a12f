"""Read a Kineto file into the tables of a trace, and name its host.

Every process of a distributed run writes a separate file. The rank of the process is
recorded in the file or may be in the file name. The machine's name does not identify a
process, because several ranks may share one machine.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, overload

import polars as pl

from stepscope.formats.assemble import (
    assemble_trace,
    columns_frame,
    compute_once,
    only_file,
    tracks_frame,
)
from stepscope.formats.declared_texts import why_absent
from stepscope.formats.kineto.decoded.recording import Recording
from stepscope.formats.kineto.json.document import open_document
from stepscope.formats.kineto.tables.device_activity import collect_activity
from stepscope.formats.kineto.tables.environment import devices_table, environment_table
from stepscope.formats.kineto.tables.host import (
    allocations_table,
    iterators_table,
    launches_table,
)
from stepscope.formats.kineto.tables.missing_devices import why_no_activity, why_unused
from stepscope.formats.kineto.tables.quality import quality_table
from stepscope.formats.kineto.tables.stats import read_arguments
from stepscope.formats.sniff import read_head
from stepscope.formats.workers import RANK_IN_NAME, grouped_by_name
from stepscope.patterns import Pattern
from stepscope.rundir import HostFiles
from stepscope.trace.tables import EVENT_TYPES, TABLES
from stepscope.xspace.reading.input_file import open_input

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from stepscope.trace.model import TraceData


#: Matches the rank in `distributedInfo`; other fields of the object may precede it.
_RANK: Final = Pattern(rb'"distributedInfo"\s*:\s*\{[^}]*?"rank"\s*:\s*"?(\d{1,9})')
#: Number of bytes at the end of a file that are searched for the rank.
_TAIL_BYTES: Final = 2**16


class Strings(Sequence[str]):
    """Handle → text; the handles do not depend on which tables were built first.

    Args:
        known: The texts of the first handles.
        load_all: Returns all texts, starting with the known ones. Called only when an
            unknown text, or the number of texts, is needed.
    """

    def __init__(
        self, known: tuple[str, ...], load_all: Callable[[], tuple[str, ...]]
    ) -> None:
        self._known = known
        self._load_all = load_all

    @overload
    def __getitem__(self, handle: int) -> str: ...
    @overload
    def __getitem__(self, handle: slice) -> tuple[str, ...]: ...
    def __getitem__(self, handle: int | slice) -> str | tuple[str, ...]:
        if isinstance(handle, int) and 0 <= handle < len(self._known):
            return self._known[handle]
        return self._load_all()[handle]

    def __len__(self) -> int:
        return len(self._load_all())

    def __iter__(self) -> Iterator[str]:
        return iter(self._load_all())

    def index(self, value: object, start: int = 0, stop: int = sys.maxsize) -> int:
        """Return the handle of a text; the search runs no Python code per text."""
        return self._load_all().index(value, start, stop)


def name_hosts(paths: Sequence[Path]) -> tuple[HostFiles, ...]:
    """Return each trace as a separate host: `rank3`, `worker3` or the name of its file.

    If hosts have the same name (two recordings of one worker), the file name is added.

    Returns:
        Hosts in the order of their names, `rank10` after `rank9`.
    """
    names = [_worker_name(path) for path in paths]
    counts = Counter(names)
    hosts = [
        HostFiles(
            host=name if counts[name] == 1 else f"{name} ({_stem_of_name(path)})",
            paths=(path,),
        )
        for name, path in zip(names, paths, strict=True)
    ]
    return tuple(sorted(hosts, key=lambda host: _numbers_and_words(host.host)))


def recorded_together(paths: Sequence[Path]) -> list[tuple[Path, ...]]:
    """Group the traces of all ranks or workers; group the other traces by file name.

    A trace without a rank or worker in its content or name is a separate run.
    """
    hosts = name_hosts(paths)
    ranks = tuple(host.paths[0] for host in hosts if RANK_IN_NAME.fullmatch(host.host))
    other_paths = [host.paths[0] for host in hosts if host.paths[0] not in ranks]
    return [*([ranks] if ranks else []), *grouped_by_name(other_paths)]


def _worker_name(path: Path) -> str:
    rank = _RANK.search(read_head(path))
    if rank is None:
        # Also search the end of the file; in a compressed file this finds nothing.
        with open_input(path) as file:
            file.seek(max(0, file.seek(0, 2) - _TAIL_BYTES))
            rank = _RANK.search(file.read())
    if rank is not None:
        return f"rank{int(rank[1])}"
    named = RANK_IN_NAME.search(path.name)
    return f"{named[1].lower()}{int(named[2])}" if named else _stem_of_name(path)


def _stem_of_name(path: Path) -> str:
    name = path.name.removesuffix(".gz").removesuffix(".json")
    return name.removesuffix(".trace").removesuffix(".pt") or path.name


def _numbers_and_words(name: str) -> tuple[tuple[int, str], ...]:
    parts = re.split(r"(\d+)", name)
    return tuple(
        (int(part), "") if index % 2 else (-1, part) for index, part in enumerate(parts)
    )


def read(source: HostFiles) -> TraceData:
    """Read the trace of one process; raise `BadInput` if nothing can be read."""
    path = only_file(source)
    document = open_document(path, limit_bytes=source.limit_bytes, mapped=source.mapped)
    recording = Recording(path, document)
    activity = compute_once(partial(collect_activity, recording))
    arguments = compute_once(partial(read_arguments, recording))
    line = recording.timeline
    return assemble_trace(
        source.host,
        {
            "tracks": lambda: tracks_frame(
                recording.tracks, line.event_begin, line.event_end
            ),
            "events": lambda: columns_frame(line, TABLES["events"].dtypes()),
            "event_types": lambda: _event_types(recording),
            "stats": lambda: arguments().frame,
            "launches": lambda: (
                why_unused(recording, activity())
                or launches_table(recording, activity())
            ),
            "allocations": lambda: allocations_table(recording),
            "iterators": lambda: iterators_table(recording),
            "parameters": why_absent("kineto.no_parameters"),
            "hlo_ops": why_absent("kineto.no_hlo"),
            "devices": lambda: devices_table(recording, activity()),
            "environment": lambda: environment_table(recording),
            "quality": lambda: quality_table(recording, activity()),
        },
        work=activity,
        why_no_work=lambda: why_no_activity(recording, activity()),
        no_geometries=why_absent("kineto.no_geometries"),
        strings=Strings(recording.texts.strings, lambda: arguments().strings),
        data=recording.document.data,
        recorder="kineto",
    )


def _event_types(recording: Recording) -> pl.DataFrame:
    names = recording.type_names
    return pl.DataFrame(
        {
            "name": names,
            "display_name": [None] * len(names),
            "known": [
                recording.columns.names[number] is not None
                for number in recording.types.name.tolist()
            ],
            "op": recording.types.op,
            "annotation": recording.types.annotation,
        },
        schema=EVENT_TYPES.dtypes(),
    )
