"""`host_values`: named values of host events from which their ops are identified."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.derive.columns.arrays import (
    are_host_threads,
    handles,
    ints,
    wanted_rows,
)
from stepscope.derive.columns.dense_codes import number_values
from stepscope.derive.columns.stat_values import (
    StatRows,
    find_handle,
    rows_with_key,
    stats_in_rows,
)
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.names.event_kinds import HostClass
from stepscope.patterns import RECORDING_CALL
from stepscope.trace.reading.nullable import absent_mask
from stepscope.trace.reading.stat_keys import StatKey
from stepscope.trace.tables import DOUBLE, INT, PLACE_TEXT, REF, UINT
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import polars as pl

    from stepscope.array_types import Bools, Int32s, Int64s
    from stepscope.derive.names.event_kinds import EventKinds
    from stepscope.trace.model import TraceData

#: Names of the values that are read. Definition:
#: docs/definitions/names-and-events.md#values-with-a-meaning.
HOST_VALUES: Final = (
    StatKey.EAGER_OP,
    StatKey.IS_FUNC,
    StatKey.IS_EAGER,
    StatKey.HLO_OP,
    StatKey.HLO_MODULE,
    StatKey.PROGRAM_ID,
    StatKey.TF_OP,
    StatKey.STAGE_NAME,
    StatKey.STAGE_CATEGORY,
    StatKey.FUNCTION_CALL,
    StatKey.TRACING_COUNT,
    StatKey.ASYNCHRONOUS,
    StatKey.FORWARD_BACKWARD,
)


def host_ranges(tracks: pl.DataFrame) -> list[tuple[int, int]]:
    """Return the rows of events on host threads as ascending disjoint ranges."""
    threads = np.flatnonzero(are_host_threads(tracks))
    begins, ends = ints(tracks, "event_begin"), ints(tracks, "event_end")
    ranges: list[tuple[int, int]] = []
    for begin, end in sorted(
        zip(begins[threads].tolist(), ends[threads].tolist(), strict=True)
    ):
        if begin == end:
            continue
        if ranges and ranges[-1][1] == begin:
            ranges[-1] = (ranges[-1][0], end)
        else:
            ranges.append((begin, end))
    return ranges


def host_rows(tracks: pl.DataFrame, types: Int32s, wanted: Bools) -> Int64s:
    """Return the ascending rows of events of a wanted type on host threads."""
    if not wanted.any():
        return np.empty(0, np.int64)
    rows = [wanted_rows(types, wanted, *bounds) for bounds in host_ranges(tracks)]
    return np.concatenate([*rows, np.empty(0, np.int64)])


def host_values(
    *,
    trace: TraceData,
    tracks: pl.DataFrame,
    events: pl.DataFrame,
    stats: pl.DataFrame,
    type_stats: pl.DataFrame,
) -> dict[StatKey, StatRows]:
    """Collect the `HOST_VALUES` of events on host threads in one pass.

    Returns:
        Name of a value → its rows; owners (events) ascend. A value of an event type is
        listed for each event of the type that has no value itself.
    """
    values = host_stats(trace.strings, tracks, stats, HOST_VALUES)
    add_shared_values(values, trace.strings, tracks, events, type_stats)
    return values


def add_shared_values(
    values: dict[StatKey, StatRows],
    strings: Sequence[str],
    tracks: pl.DataFrame,
    events: pl.DataFrame,
    type_stats: pl.DataFrame,
) -> None:
    """Add the values of event types to events that have no value themselves."""
    types = handles(events, "type")
    for name, own in values.items():
        shared = rows_with_key(type_stats, "type", find_handle(strings, name))
        if not len(shared.owner):
            continue
        value_row = np.full(int(max(types.max(initial=0), shared.owner.max())) + 1, -1)
        value_row[shared.owner] = np.arange(len(shared.owner))
        heirs = host_rows(tracks, types, value_row >= 0)
        heirs = heirs[~np.isin(heirs, own.owner)]
        shared_row = value_row[types[heirs]]
        owner = np.concatenate((own.owner, heirs.astype(np.int32)))
        order = np.argsort(owner, kind="stable")
        values[name] = StatRows(
            owner[order],
            np.concatenate((own.key, shared.key[shared_row]))[order],
            np.concatenate((own.kind, shared.kind[shared_row]))[order],
            np.concatenate((own.value, shared.value[shared_row]))[order],
            np.concatenate((own.length, shared.length[shared_row]))[order],
        )


def host_stats(
    strings: Sequence[str],
    tracks: pl.DataFrame,
    stats: pl.DataFrame,
    names: Iterable[StatKey],
) -> dict[StatKey, StatRows]:
    """Return, by name, the stats of events on host threads; owners (events) ascend.

    Stats of device events, which are half of millions of rows, are not read.
    """
    found = {name: find_handle(strings, name) for name in names}
    wanted = np.zeros(len(strings) + 1, np.uint8)
    wanted[[handle for handle in found.values() if handle >= 0]] = 1
    owner, key = handles(stats, "event"), handles(stats, "key")
    chosen = [np.empty(0, np.int64)]
    for bounds in host_ranges(tracks):
        # The bounds have the column's type, so that the search copies nothing.
        first, last = np.searchsorted(owner, np.array(bounds, owner.dtype))
        chosen.append(wanted_rows(key, wanted, int(first), int(last)))
    values = stats_in_rows(stats, "event", np.concatenate(chosen))
    return {name: values.only(values.key == handle) for name, handle in found.items()}


def profiler_work(
    *,
    trace: TraceData,
    tracks: pl.DataFrame,
    events: pl.DataFrame,
    event_kinds: EventKinds,
    stats: pl.DataFrame | Unavailable,
) -> Spans:
    """Return when a profiler works, by its events and by lines that call it."""
    is_profiler = event_kinds.host_class == HostClass.PROFILER
    own = wanted_rows(handles(events, "type"), is_profiler)
    on_host = absent_mask(tracks["device"])[handles(events, "track")[own]]
    spans = Spans.from_rows(events, own[on_host])
    if isinstance(stats, Unavailable):
        return spans
    handle = find_handle(trace.strings, StatKey.CALLED)
    owner, code, texts = text_codes(trace, rows_with_key(stats, "event", handle))
    chosen = np.array([text == RECORDING_CALL for text in texts], np.bool_)[code]
    return spans | Spans.from_rows(events, owner[chosen].astype(np.int64))


def int_values(rows: StatRows) -> tuple[Int32s, Int64s]:
    """Return owners and their integers; of several values of an owner, the last."""
    real = rows.kind == DOUBLE
    numbers = rows.only((rows.kind == INT) | (rows.kind == UINT) | real)
    values = numbers.value
    if real.any():
        real = numbers.kind == DOUBLE
        values = values.copy()
        values[real] = np.trunc(values[real].view(np.float64)).astype(np.int64)
    return numbers.owner, values


def text_codes(trace: TraceData, rows: StatRows) -> tuple[Int32s, Int32s, list[str]]:
    """Return owners, codes and the texts of the codes; values without text are skipped.

    Equal texts may have several codes.
    """
    stored = rows.only(rows.kind == REF)
    distinct = number_values(stored.value)
    texts = [trace.strings[handle] for handle in stored.value[distinct.first].tolist()]
    owners, numbers = [stored.owner], [distinct.code]
    placed = np.flatnonzero(rows.kind == PLACE_TEXT)
    # Texts of equal length are compared together, as blocks of bytes.
    for length in np.unique(rows.length[placed]).tolist():
        rows_of_length = placed[rows.length[placed] == length]
        offsets = rows.value[rows_of_length]
        if length:
            blocks = trace.data[offsets[:, None] + np.arange(length)]
            keys = np.ascontiguousarray(blocks).view(np.dtype((np.void, length)))
            _, first, code = np.unique(
                keys.ravel(), return_index=True, return_inverse=True
            )
        else:
            first, code = np.zeros(1, np.int64), np.zeros(len(rows_of_length), np.int64)
        owners.append(rows.owner[rows_of_length])
        numbers.append((code + len(texts)).astype(np.int32))
        texts += [trace.text(offset, length) for offset in offsets[first].tolist()]
    if not len(placed):
        # Values that come from only one table are already ordered.
        return owners[0], numbers[0], texts
    owner, number = np.concatenate(owners), np.concatenate(numbers)
    order = np.argsort(owner, kind="stable")
    return owner[order], number[order], texts


def traced_calls(
    trace: TraceData, values: Mapping[str, StatRows]
) -> tuple[Int32s, Bools]:
    """Return the calls of graph functions, and whether each traced the function."""
    calls, code, texts = text_codes(trace, values[StatKey.FUNCTION_CALL])
    traced = np.array([text.startswith("traced") for text in texts], np.bool_)
    return calls, traced[code]
