"""Sequences of symbols in which the search for unmarked steps looks for repetition.

On a device, a sequence is the kernels of the stream with most kernel time. On a host, a
sequence is the ops of the busiest thread, the ops of all threads, or the executed
instructions of compiled programs, merged over all threads.

Definition: docs/how-steps-are-found.md#steps-without-markers.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.derive.columns.arrays import (
    ACTIVITY_CODES,
    TRACK_CODES,
    are_input_threads,
    codes,
    handles,
    ints,
    wanted_rows,
)
from stepscope.derive.columns.dense_codes import Codes, number_rows, number_values
from stepscope.derive.names.event_kinds import EventFlag, EventKinds
from stepscope.frozen import Frozen
from stepscope.trace.reading.nullable import absent_mask

if TYPE_CHECKING:
    import polars as pl

    from stepscope.array_types import Bools, Int32s, Int64s
    from stepscope.derive.device.correlation import Correlation


class SymbolSequence(Frozen, frozen=True, dict=True):
    """Kernels, ops or instructions in time order, one entry for each.

    Attributes:
        symbol: int32 by entry, dense from 0.
        label: int32 by symbol: number of its kind, comparable between sequences.
        at_ps: int64, ascending: time of the entry on the clock of the step boundaries.
        weight: int64: time of the entry; coverage is a share of the total weight.
        work: int64: kernel time on a device, 1 on a host.
        gap_ps: int64: idle time just before the entry.
        launch: int32 or None: row of launches that caused the entry, -1 for none.
    """

    what: str
    symbol: Int32s
    label: Int32s
    at_ps: Int64s
    weight: Int64s
    work: Int64s
    gap_ps: Int64s
    end_ps: int
    on_device: bool
    launch: Int32s | None = None

    def __len__(self) -> int:
        return len(self.symbol)

    @cached_property
    def counts(self) -> Int64s:
        """Occurrences per symbol."""
        return np.bincount(self.symbol).astype(np.int64)

    @cached_property
    def weight_before(self) -> Int64s:
        """Total weight of all entries before each entry, and of all entries."""
        return _running_sums(self.weight)

    @cached_property
    def work_before(self) -> Int64s:
        """Total work of all entries before each entry, and of all entries."""
        return _running_sums(self.work)

    @cached_property
    def heaviest(self) -> Int64s:
        """All symbols, sorted by descending weight."""
        return np.argsort(-np.bincount(self.symbol, weights=self.weight), kind="stable")

    @cached_property
    def index(self) -> Int64s:
        """The entries by symbol, as ascending symbol × (length + 1) + entry."""
        small = len(self.counts) <= np.iinfo(np.uint16).max
        # 16-bit numbers are sorted by counting, many times faster than by comparing.
        symbol = self.symbol.astype(np.uint16) if small else self.symbol
        order = np.argsort(symbol, kind="stable")
        return self.symbol[order].astype(np.int64) * (len(self) + 1) + order

    def symbol_entries(self, symbols: Int64s) -> list[Int64s]:
        """Return the entries of each of the given symbols, ascending."""
        number = np.zeros(len(self.counts), np.uint16)
        number[symbols] = np.arange(1, len(symbols) + 1)
        numbers = number[self.symbol]
        entry = np.flatnonzero(numbers)
        order = np.argsort(numbers[entry], kind="stable")
        return np.split(entry[order], np.cumsum(self.counts[symbols])[:-1])


#: Kinds of device activity in a sequence: computing and waiting.
_PROGRAM: Final = (ACTIVITY_CODES["kernel"], ACTIVITY_CODES["transfer_wait"])
#: Maximum share of the recording that one event of a sequence can take.
_MAX_EVENT_SHARE: Final = 0.5
#: Minimum share of an input worker's op time in functions of the input pipeline.
_MIN_WORKER_SHARE: Final = 0.5
#: Events that are not ops of the program, or that repeat an op.
_NO_OP: Final = (
    EventFlag.DATASET
    | EventFlag.ALLOCATOR
    | EventFlag.THREADPOOL
    | EventFlag.PRODUCER
    | EventFlag.END_THUNK
    | EventFlag.PYTHON_FRAME
)


def device_sequence(
    tracks: pl.DataFrame, device_activity: pl.DataFrame, launch_of: Int32s | None
) -> SymbolSequence | None:
    """Return the kernels of the busiest stream; None if no kernel ran.

    A symbol is a kernel's name with its launch shape and, if recorded, its op. Layers
    that repeat inside one step run equal kernels for different ops, but equal steps run
    equal kernels for equal ops.
    """
    kernel = np.flatnonzero(np.isin(codes(device_activity, "kind"), _PROGRAM))
    if not len(kernel):
        return None
    own_tracks = handles(device_activity, "track")[kernel]
    # Add 1 ps per kernel, so that a stream of kernels of length 0 is not empty.
    busy = np.bincount(own_tracks, weights=ints(device_activity, "dur_ps")[kernel] + 1)
    track = int(np.argmax(busy))
    row = kernel[own_tracks == track]
    start, dur = (ints(device_activity, name)[row] for name in ("start_ps", "dur_ps"))
    symbols = _kernel_symbols(device_activity, row)
    return SymbolSequence(
        what=f"kernels of {tracks['name'][track]} of device {tracks['device'][track]}",
        symbol=symbols.code,
        label=handles(device_activity, "type")[row[symbols.first]],
        at_ps=start,
        weight=dur,
        work=dur,
        gap_ps=_pauses_and_union(start, dur)[0],
        end_ps=int((start + dur).max()),
        on_device=True,
        launch=None if launch_of is None else launch_of[row],
    )


def activity_by_launch(correlation: Correlation) -> SymbolSequence | None:
    """Return all kernels at their launch times; None if no launches were recorded."""
    device_activity, launches = correlation.activity, correlation.launches
    launch_of_activity = correlation.launch_of_activity
    kind = codes(device_activity, "kind")
    wanted: Bools = np.isin(kind, (*_PROGRAM, ACTIVITY_CODES["collective"]))
    row = np.flatnonzero((launch_of_activity >= 0) & wanted)
    if not len(row):
        return None
    called_ps = ints(launches, "start_ps")[launch_of_activity[row]]
    if (called_ps[1:] < called_ps[:-1]).any():
        order = np.argsort(called_ps, kind="stable")
        row, called_ps = row[order], called_ps[order]
    dur = ints(device_activity, "dur_ps")[row]
    symbols = _kernel_symbols(device_activity, row)
    return SymbolSequence(
        what="kernels by their launch calls",
        symbol=symbols.code,
        label=handles(device_activity, "type")[row[symbols.first]],
        at_ps=called_ps,
        weight=dur,
        work=dur,
        gap_ps=_pauses_and_union(called_ps, np.zeros(len(called_ps), np.int64))[0],
        end_ps=int(called_ps[-1]),
        on_device=True,
    )


def op_sequences(
    tracks: pl.DataFrame, events: pl.DataFrame, event_kinds: EventKinds
) -> dict[int, SymbolSequence]:
    """Return the ops of each thread, busiest first; key -1 has the ops of all threads.

    Workers of an input pipeline are left out: their ops do not repeat with the steps.
    """
    of_type, of_track = handles(events, "type"), handles(events, "track")
    is_op = event_kinds.is_op() & ~event_kinds.has(_NO_OP)
    event = np.flatnonzero(is_op[of_type] & program_threads(tracks)[of_track])
    if not len(event):
        return {}
    dur = ints(events, "dur_ps")
    busy = np.bincount(of_track[event], weights=dur[event], minlength=len(tracks))
    captured = wanted_rows(of_type, event_kinds.has(EventFlag.CAPTURED_FUNCTION))
    fed = np.bincount(of_track[captured], weights=dur[captured], minlength=len(tracks))
    busy[fed >= _MIN_WORKER_SHARE * busy] = 0
    threads = np.argsort(-busy, kind="stable")[: np.count_nonzero(busy)]
    if not busy[of_track[event]].all():
        event = event[busy[of_track[event]] > 0]
    sequences = {}
    for track in threads.tolist():
        # Events are ordered by track, so the events of one track are consecutive.
        begin, end = (int(tracks[f"event_{edge}"][track]) for edge in ("begin", "end"))
        first, last = np.searchsorted(event, [begin, end])
        own_events = event[first:last]
        what = f"ops of thread {tracks['name'][track]}"
        sequences[track] = sequence_of_events(what, events, own_events)
    if len(threads) > 1:
        sequences[-1] = sequence_of_events("ops of all threads", events, event)
    return sequences


def instruction_sequence(
    tracks: pl.DataFrame, events: pl.DataFrame, kinds: EventKinds, executed: Int32s
) -> SymbolSequence | None:
    """Return instructions of compiled programs on host threads; None if there are none.

    Args:
        executed: Rows of the events that are instructions.
    """
    event = np.unique(executed).astype(np.int64)
    event = event[~kinds.has(EventFlag.END_THUNK)[handles(events, "type")[event]]]
    event = event[program_threads(tracks)[handles(events, "track")[event]]]
    if not len(event):
        return None
    return sequence_of_events("instructions of compiled programs", events, event)


def program_threads(tracks: pl.DataFrame) -> Bools:
    """Return by row of `tracks` whether it is a host thread and not an input worker."""
    thread = TRACK_CODES["thread"]
    on_host: Bools = absent_mask(tracks["device"])
    is_program: Bools = (
        (codes(tracks, "kind") == thread) & on_host & ~are_input_threads(tracks)
    )
    return is_program


def sequence_of_events(
    what: str, events: pl.DataFrame, event: Int64s, *, on_device: bool = False
) -> SymbolSequence:
    """Return events sorted by start, except events that span most of the recording."""
    start, dur = (ints(events, name)[event] for name in ("start_ps", "dur_ps"))
    if (start[1:] < start[:-1]).any():
        order = np.argsort(start, kind="stable")
        event, start, dur = event[order], start[order], dur[order]
    range_ps = int((start + dur).max()) - int(start[0])
    short = dur <= _MAX_EVENT_SHARE * range_ps
    if not short.all():
        event, start, dur = event[short], start[short], dur[short]
    pauses, weight = _pauses_and_union(start, dur)
    symbols = number_values(handles(events, "type")[event])
    return SymbolSequence(
        what=what,
        symbol=symbols.code,
        label=handles(events, "type")[event[symbols.first]],
        at_ps=start,
        weight=weight,
        work=dur if on_device else np.ones(len(event), np.int64),
        gap_ps=pauses,
        end_ps=int((start + dur).max()) if len(start) else 0,
        on_device=on_device,
    )


def _kernel_symbols(device_activity: pl.DataFrame, row: Int64s) -> Codes:
    columns = [
        handles(device_activity, column)[row]
        for column in ("type", "geometry", "op", "hlo_op")
        if device_activity[column].null_count() < len(device_activity)
    ]
    return number_rows(columns)


def _pauses_and_union(start: Int64s, dur: Int64s) -> tuple[Int64s, Int64s]:
    """Return the idle time before each entry, and the busy time that the entry adds."""
    end = start + dur
    reach = np.concatenate([start[:1], np.maximum.accumulate(end)[:-1]])
    return np.maximum(start - reach, 0), np.maximum(end - np.maximum(start, reach), 0)


def _running_sums(values: Int64s) -> Int64s:
    total = np.zeros(len(values) + 1, np.int64)
    np.cumsum(values, out=total[1:])
    return total
