"""Convert the events of a document to columns, one batch at a time."""

from __future__ import annotations

import gc
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np
import polars as pl

from stepscope.formats.kineto.columns.categories import (
    ON_DEVICE,
    EventClass,
    event_class,
    holds_ranges,
    is_annotation,
    is_foreign,
)
from stepscope.formats.kineto.columns.declared import (
    CALLS,
    DEVICE,
    MEMORY,
    ArgumentColumns,
    EventColumns,
    FileColumns,
    Interned,
    LinkColumns,
    OpColumns,
    PackedValues,
    argument_frame,
    op_arrays,
    whole_number,
)
from stepscope.formats.kineto.json.batches import MAX_EVENT_BYTES, read_batches
from stepscope.formats.kineto.json.messages import (
    ApiArgs,
    DeviceArgs,
    MemoryArgs,
    NameArgs,
    OpArgs,
    read_all_arguments,
)
from stepscope.formats.kineto.json.times import IMPOSSIBLE, Microseconds
from stepscope.trace.reading.texts import Shortening
from stepscope.xspace.vocabulary import forwarded_annotation

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from stepscope.array_types import Int32s, Int64s, UInt8s
    from stepscope.formats.kineto.json.batches import Batch
    from stepscope.formats.kineto.json.document import Document
    from stepscope.formats.kineto.json.messages import Event
    from stepscope.xspace.vocabulary import Forwarded

_MAX_EXAMPLES: Final = 3
_EXAMPLE_LENGTH: Final = 120
_MEMORY: Final = "[memory]"


#: Group of argument columns → event classes, message type, and columns.
_ARGUMENT_GROUPS: Final[
    dict[str, tuple[tuple[EventClass, ...], Any, dict[str, pl.DataType]]]
] = {
    "activity": (ON_DEVICE, DeviceArgs, DEVICE),
    "others": ((EventClass.SYNC, EventClass.COUNTERS), DeviceArgs, DEVICE),
    "calls": ((EventClass.API,), ApiArgs, CALLS),
    "memory": ((EventClass.MEMORY,), MemoryArgs, MEMORY),
}


@contextmanager
def paused_collector() -> Iterator[None]:
    """Pause the garbage collector while many short-lived objects exist.

    If several readers overlap, only the reader that disabled the collector restarts it.
    """
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()


def gather_columns(document: Document) -> FileColumns:
    """Read every event of a document into columns."""
    gathering = _Gathering()
    with paused_collector():
        for batch in read_batches(document):
            gathering.add(batch)
    return gathering.result(document)


class _Gathering:
    def __init__(self) -> None:
        self._names: Interned[str | None] = Interned()
        self._phases: Interned[str | None] = Interned()
        self._categories: Interned[str | None] = Interned()
        self._processes: Interned[int | str | None] = Interned()
        self._threads: Interned[int | str | None] = Interned()
        self._shapes: Interned[tuple[bytes, bytes]] = Interned()
        self._annotations: set[int] = set()
        # Number of a name → the annotation values that are packed into the name.
        self._packed: dict[int, Forwarded] = {}
        self._event_columns: dict[str, list[NDArray[np.generic]]] = {}
        self._frames: dict[str, list[pl.DataFrame]] = {}
        self._thread_names: dict[tuple[int, int], str] = {}
        self._unknown: dict[str, Counter[str]] = {
            "category": Counter(),
            "foreign": Counter(),
            "phase": Counter(),
        }
        self._refused: Counter[str] = Counter()
        self._examples: dict[str, list[str]] = {}
        self._decimals = False
        self._ranges_among_ops = False
        self._lenient = 0
        self._bad_place: int | None = None
        self._cut_at: int | None = None
        self._event_count = 0
        self._total = 0

    def add(self, batch: Batch) -> None:
        self._lenient += batch.lenient
        if batch.cut_at is not None:
            self._cut_at = batch.cut_at
        for beginning in batch.too_large:
            self._count_refused(f"of more than {MAX_EVENT_BYTES:,} bytes", beginning)
        for place, beginning in batch.refused:
            if self._bad_place is None:
                self._bad_place = place
            self._count_refused("not readable as an event", beginning)
        self._decimals |= batch.decimals
        events = batch.events
        kind = self._classify_events(events)
        rows = np.flatnonzero(kind <= EventClass.OTHER)
        for row in np.flatnonzero(kind == EventClass.NAME).tolist():
            event = events[row]
            if event.name == "thread_name":
                (arguments,) = read_all_arguments([event.args], NameArgs)
                if arguments.name:
                    thread = self._processes[event.pid], self._threads[event.tid]
                    self._thread_names[thread] = arguments.name.strip()
        self._add_links(batch, np.flatnonzero(kind == EventClass.LINK))
        start = batch.start_ns[rows]
        ranges = np.ones(len(rows), np.bool_)
        ranges[kind[rows] == EventClass.MEMORY] = False
        ranges[kind[rows] == EventClass.INSTANT] = False
        for index in np.flatnonzero(kind[rows] == EventClass.RECORDING).tolist():
            ranges[index] = events[rows[index]].ph == "X"
        dur = np.zeros(len(rows), np.int64)
        durations = [events[row].dur for row in rows[ranges].tolist()]
        dur[ranges] = Microseconds.of(durations).to_nanoseconds()
        good = (start != IMPOSSIBLE) & (dur >= 0)
        if not good.all():
            self._refuse_events(events, rows[~good], start[~good], dur[~good])
            rows, start, dur = rows[good], start[good], dur[good]
        self._add_events(events, rows, kind[rows], start, dur)
        self._total += len(events)

    def result(self, document: Document) -> FileColumns:
        columns, cut = self._event_columns, Shortening()
        name = _join_arrays(columns, "name", np.int32)
        packed = np.flatnonzero(np.isin(name, list(self._packed)))
        values = PackedValues(
            place=packed,
            json=[self._packed[number].values for number in name[packed].tolist()],
        )
        # Names without the values that are packed into them.
        shown: Interned[str | None] = Interned()
        number = shown.numbers(
            [
                self._packed[index].name if index in self._packed else text
                for index, text in enumerate(self._names)
            ]
        )
        return FileColumns(
            events=EventColumns(
                ordinal=_join_arrays(columns, "ordinal", np.int64),
                kind=_join_arrays(columns, "kind", np.uint8),
                name=number[name],
                process=_join_arrays(columns, "process", np.int32),
                thread=_join_arrays(columns, "thread", np.int32),
                start_ns=_join_arrays(columns, "start_ns", np.int64),
                dur_ns=_join_arrays(columns, "dur_ns", np.int64),
            ),
            activity=self._argument_columns("activity"),
            calls=self._argument_columns("calls"),
            others=self._argument_columns("others"),
            ops=OpColumns(
                place=_join_arrays(columns, "ops", np.int64),
                external=_join_arrays(columns, "op_external", np.int64),
                shape=_join_arrays(columns, "op_shape", np.int32),
            ),
            memory=self._argument_columns("memory"),
            links=LinkColumns(
                id=_join_arrays(columns, "link_id", np.int64),
                process=_join_arrays(columns, "link_process", np.int32),
                thread=_join_arrays(columns, "link_thread", np.int32),
                start_ns=_join_arrays(columns, "link_start_ns", np.int64),
            ),
            shortening=cut,
            values=values,
            names=[None if text is None else cut.text(text) for text in shown],
            processes=[
                cut.text(process) if isinstance(process, str) else process
                for process in self._processes
            ],
            threads=[
                cut.text(tid) if isinstance(tid, str) else tid for tid in self._threads
            ],
            shapes=list(self._shapes),
            thread_names={
                place: cut.text(name) for place, name in self._thread_names.items()
            },
            ranges_among_ops=self._ranges_among_ops,
            categories=dict(self._unknown["category"]),
            foreign=dict(self._unknown["foreign"]),
            phases=dict(self._unknown["phase"]),
            refused=dict(self._refused),
            examples=self._examples,
            decimals=self._decimals,
            lenient=self._lenient,
            bad_place=self._bad_place,
            cut_at=self._cut_at if self._cut_at is not None else document.cut_at,
            total=self._total,
        )

    def _argument_columns(self, group: str) -> ArgumentColumns:
        *_, schema = _ARGUMENT_GROUPS[group]
        return ArgumentColumns(
            place=_join_arrays(self._event_columns, group, np.int64),
            frame=pl.concat(
                [pl.DataFrame(schema=schema), *self._frames.pop(group, ())]
            ),
        )

    def _classify_events(self, events: Sequence[Event]) -> UInt8s:
        phase = self._phases.numbers([event.ph for event in events])
        category = self._categories.numbers([event.cat for event in events])
        category_count = len(self._categories)
        pair = phase * np.int32(category_count) + category
        counts = np.bincount(pair, minlength=len(self._phases) * category_count)
        phases, categories = list(self._phases), list(self._categories)
        of_pair = np.zeros(len(counts), np.uint8)
        for number in np.flatnonzero(counts).tolist():
            ph, cat = (
                phases[number // category_count],
                categories[number % category_count],
            )
            event_kind = event_class(ph, cat)
            of_pair[number] = event_kind
            if event_kind == EventClass.OP and holds_ranges(cat):
                self._ranges_among_ops = True
            if event_kind == EventClass.OTHER:
                self._unknown["category"][cat or "(none)"] += int(counts[number])
            elif event_kind == EventClass.UNKNOWN_PHASE:
                self._unknown["phase"][ph or "(none)"] += int(counts[number])
            if cat is not None and is_foreign(ph, cat):
                self._unknown["foreign"][cat] += int(counts[number])
        kind: UInt8s = of_pair[pair]
        for row in np.flatnonzero(kind == EventClass.INSTANT).tolist():
            event = events[row]
            if event.name == _MEMORY:
                kind[row] = EventClass.MEMORY
            elif whole_number(event.pid) is None:
                kind[row] = EventClass.RECORDING
        return kind

    def _refuse_events(
        self, events: Sequence[Event], rows: Int64s, start: Int64s, dur: Int64s
    ) -> None:
        for row, begin, length in zip(
            rows.tolist(), start.tolist(), dur.tolist(), strict=True
        ):
            if begin == IMPOSSIBLE:
                why = "without a start"
            elif length == IMPOSSIBLE:
                why = "without a duration"
            else:
                why = "with a negative duration"
            known = len(self._examples.get(why, ()))
            text = b"" if known >= _MAX_EXAMPLES else msgspec.json.encode(events[row])
            self._count_refused(why, text.decode("utf-8", "replace")[:_EXAMPLE_LENGTH])

    def _count_refused(self, reason: str, example: str) -> None:
        self._refused[reason] += 1
        examples = self._examples.setdefault(reason, [])
        if len(examples) < _MAX_EXAMPLES:
            examples.append(example)

    def _add_events(
        self,
        events: Sequence[Event],
        rows: Int64s,
        kind: UInt8s,
        start: Int64s,
        dur: Int64s,
    ) -> None:
        chosen = [events[row] for row in rows.tolist()]
        known = len(self._names)
        name = self._names.numbers([event.name for event in chosen])
        kind = self._mark_annotations(kind, name, known)
        self._append_columns(
            ordinal=rows + self._total,
            kind=kind,
            name=name,
            process=self._processes.numbers([event.pid for event in chosen]),
            thread=self._threads.numbers([event.tid for event in chosen]),
            start_ns=start,
            dur_ns=dur,
        )
        for group, (classes, layout, schema) in _ARGUMENT_GROUPS.items():
            chosen_rows = np.flatnonzero(np.isin(kind, classes))
            if len(chosen_rows):
                self._append_columns(**{group: chosen_rows + self._event_count})
                raw_arguments = [chosen[row].args for row in chosen_rows.tolist()]
                messages = read_all_arguments(raw_arguments, layout)
                frame = argument_frame(messages, schema)
                self._frames.setdefault(group, []).append(frame)
        ops = np.flatnonzero(kind == EventClass.OP)
        if len(ops):
            arguments = read_all_arguments(
                [chosen[row].args for row in ops.tolist()], OpArgs
            )
            external, shape = op_arrays(arguments, self._shapes)
            self._append_columns(
                ops=ops + self._event_count, op_external=external, op_shape=shape
            )
        self._event_count += len(chosen)

    def _mark_annotations(self, kind: UInt8s, name: Int32s, known: int) -> UInt8s:
        """Set the class of operators whose name is that of a range to `ANNOTATION`."""
        for value, number in list(self._names.items())[known:]:
            if value is None:
                continue
            packed = forwarded_annotation(value)
            if packed is not None:
                self._packed[number] = packed
            if packed is not None or is_annotation(value):
                self._annotations.add(number)
        if not self._annotations:
            return kind
        annotation = np.zeros(len(self._names), np.bool_)
        annotation[list(self._annotations)] = True
        renamed = (kind == EventClass.OP) & annotation[name]
        return np.where(renamed, np.uint8(EventClass.ANNOTATION), kind)

    def _add_links(self, batch: Batch, rows: Int64s) -> None:
        if not len(rows):
            return
        chosen = [batch.events[row] for row in rows.tolist()]
        ids = [whole_number(event.id) for event in chosen]
        start = batch.start_ns[rows]
        good = (start != IMPOSSIBLE) & np.array([link is not None for link in ids])
        self._append_columns(
            link_id=np.array([link or 0 for link in ids], dtype=np.int64)[good],
            link_process=self._processes.numbers([event.pid for event in chosen])[good],
            link_thread=self._threads.numbers([event.tid for event in chosen])[good],
            link_start_ns=start[good],
        )

    def _append_columns(self, **columns: NDArray[np.generic]) -> None:
        for name, values in columns.items():
            self._event_columns.setdefault(name, []).append(values)


def _join_arrays(
    columns: dict[str, list[NDArray[np.generic]]], name: str, dtype: type[np.generic]
) -> NDArray[Any]:
    parts = columns.pop(name, None)
    if not parts:
        return np.zeros(0, dtype)
    return np.concatenate(parts).astype(dtype, copy=False)
