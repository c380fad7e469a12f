"""A memory snapshot of PyTorch (`torch.cuda.memory._dump_snapshot`) becomes a trace.

Definition: docs/formats/memory_snapshot.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from stepscope.errors import BadInput, Malformed
from stepscope.formats.memory.levels import history_of
from stepscope.formats.memory.plain_pickle import RefusedPickle, plain_pickle
from stepscope.formats.memory.snapshot_values import values_of
from stepscope.formats.memory.tables import memory_trace, only_file
from stepscope.trace.quality import QualityNote
from stepscope.units import PS_PER_US
from stepscope.xspace.reading.source import open_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepscope.formats.memory.levels import History
    from stepscope.formats.memory.snapshot_values import SnapshotValues
    from stepscope.rundir import HostFiles
    from stepscope.trace.model import TraceData

_WHAT: Final = "PyTorch memory snapshot"
_RECORD: Final = (
    "Record the same steps with torch.profiler, or with `stepscope run`, for times."
)
_DUMP_AGAIN: Final = (
    "Write it again with torch.cuda.memory._dump_snapshot('FILE.pickle')."
)
_REMEMBER: Final = "Call torch.cuda.memory._record_memory_history() before the steps."


def read(source: HostFiles) -> TraceData:
    """Read one snapshot.

    Raises:
        BadInput: Nothing can be read; the message names the file, what was wrong and
            the way out.
    """
    path = only_file(source)
    content, _ = open_bytes(path, limit_bytes=source.limit_bytes, mapped=source.mapped)
    try:
        found = plain_pickle(content.tobytes())
    except RefusedPickle as refused:
        raise Malformed.at_offset(
            path, refused.offset, refused.what, _DUMP_AGAIN
        ) from refused
    if isinstance(found, list):
        # What torch.cuda.memory_snapshot() returns, stored by the program itself.
        found = {"segments": found}
    if not isinstance(found, dict) or not isinstance(found.get("segments"), list):
        raise BadInput.at(
            path, "is a pickle without the segments of an allocator", _DUMP_AGAIN
        )
    values = values_of(found)
    rows, notes, begin_us = _rows_of_devices(values)
    if not rows:
        raise BadInput.at(
            path, "holds neither an event nor a block that is in use", _REMEMBER
        )
    return memory_trace(
        source.host,
        path,
        rows,
        what=_WHAT,
        record=_RECORD,
        notes=[*notes, *_notes(values)],
        stacks=values.stacks.texts,
        start_unix_ns=begin_us * 1000 if values.timed and begin_us else None,
    )


def _rows_of_devices(
    values: SnapshotValues,
) -> tuple[list[dict[str, Any]], list[QualityNote], int]:
    """Return the rows of all devices by time, doubts, and the time of the first."""
    begin = min(
        (it.time_us for each in values.events.values() for it in each), default=0
    )
    rows: list[dict[str, Any]] = []
    notes: list[QualityNote] = []
    for device in sorted(values.events.keys() | values.segments.keys()):
        history = history_of(
            values.events.get(device, []),
            values.segments.get(device, []),
            begin_us=begin,
        )
        name = f"cuda:{device}"
        rows += _rows(name, history, values.stacks.lines, begin)
        notes += (*_doubts(name, history), *_nameless(name, history))
    rows.sort(key=lambda row: row["start_ps"])
    return rows, notes, begin


def _rows(
    name: str, history: History, lines: list[str | None], begin_us: int
) -> Iterator[dict[str, Any]]:
    latest = begin_us
    for at, change in enumerate(history.changes):
        # Clocks of threads differ by little; the order is that of the allocator.
        latest = max(latest, change.time_us)
        reserved, stack = change.reserved, change.stack
        yield {
            "start_ps": (latest - begin_us) * PS_PER_US,
            "kind": change.kind,
            "allocator": name,
            "address": change.address,
            "allocated_bytes": change.size,
            "requested_bytes": change.size,
            "heap_bytes": change.active,
            "tensor_bytes": change.tensors,
            "free_bytes": None if reserved is None else reserved - change.active,
            "older_counted": not history.contradicted,
            "fragmentation": history.fragmentation if at == history.peak else None,
            "source": None if stack is None else lines[stack],
            "stack": stack,
        }


def _doubts(name: str, history: History) -> Iterator[QualityNote]:
    if history.contradicted:
        yield QualityNote(
            kind="memory_snapshot_cut",
            severity="warning",
            count=history.contradicted,
            scope=name,
            message=f"Of {history.contradicted:,} blocks the events of {name} say "
            "something else than its segments at the end: events are missing, and "
            "what is older than the first event is not known.",
            remedy="Raise max_entries of torch.cuda.memory._record_memory_history(), "
            "and dump the snapshot before recording is turned off.",
        )
    if any(it.reserved is None for it in history.changes):
        yield QualityNote(
            kind="memory_reserved_unknown",
            severity="info",
            scope=name,
            message=f"The events of {name} do not lead to its segments at the end, so "
            "how much was reserved over time is not known.",
        )


def _nameless(name: str, history: History) -> Iterator[QualityNote]:
    """Say why no line is known of the larger part of the peak, where that is old."""
    if history.peak is None:
        return
    used, nameless = history.changes[history.peak].active, history.nameless
    if used and 2 * nameless > used:
        yield QualityNote(
            kind="memory_before_history",
            severity="warning",
            scope=name,
            message=f"{100 * nameless / used:.1f} % of the peak of {name} is in blocks "
            "that are older than the recorded events: which line asked for them is "
            "not known.",
            remedy="Call torch.cuda.memory._record_memory_history() before the program "
            "makes its model and its optimizer, with a max_entries that keeps all.",
        )


def _notes(values: SnapshotValues) -> Iterator[QualityNote]:
    if not any(values.events.values()):
        yield QualityNote(
            kind="no_history",
            severity="warning",
            scope="file",
            message="The snapshot was taken without a history: it shows what was in "
            "use at its instant, and nothing of the time before.",
            remedy=_REMEMBER,
        )
    elif not values.timed:
        yield QualityNote(
            kind="no_clock",
            severity="warning",
            scope="file",
            message="Not every event has a time, or some are months apart: an event's "
            "time is its number, in microseconds.",
            remedy="Record with PyTorch 2.2 or later.",
        )
    if values.failed:
        yield QualityNote(
            kind="out_of_memory",
            severity="warning",
            count=values.failed,
            scope="file",
            message=f"Memory ran out {values.failed:,} times: an allocation failed.",
            remedy="Look at what was alive at the peak.",
        )
    if values.refused:
        named = ", ".join(
            f"{count:,} {what}" for what, count in values.refused.most_common(3)
        )
        yield QualityNote(
            kind="refused_events",
            severity="warning",
            count=values.refused.total(),
            scope="file",
            message=f"What cannot be read is left out: {named}.",
        )
