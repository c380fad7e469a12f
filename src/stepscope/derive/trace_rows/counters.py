"""`counter_curves`: quantities over time that are constant between two recorded values.

Definition: docs/tools/trace_viewer.md#counters.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Literal

import numpy as np
import polars as pl

from stepscope.derive.columns.arrays import handles, ints
from stepscope.derive.columns.stat_values import find_handle, rows_with_key
from stepscope.frozen import Frozen
from stepscope.patterns import Pattern
from stepscope.trace.reading.stat_keys import StatKey
from stepscope.trace.tables import DOUBLE, INT, UINT
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.array_types import Int64s
    from stepscope.derive.columns.stat_values import StatRows
    from stepscope.derive.memory.replay import MemoryReplay
    from stepscope.trace.model import TraceData

#: Pattern of a counter's name that ends in a unit: `process CPU (percent)`.
_WITH_UNIT: Final = Pattern(r"(?P<name>.+?) \((?P<unit>[^()]+)\)\Z", re.DOTALL)


class CounterCurve(Frozen, frozen=True):
    """A quantity over time. Each value holds until the time of the next value.

    Attributes:
        unit: Unit of the values; None if not recorded.
        source: "memory" for an allocator's memory in use, "queue" for the number of
            elements in a buffer, "recorded" for a recorded counter.
        time_ps: int64, ascending; start of each value.
    """

    name: str
    unit: str | None
    source: Literal["memory", "queue", "recorded"]
    time_ps: Int64s
    value: NDArray[np.float64]


def counter_curves(
    *,
    trace: TraceData,
    tracks: pl.DataFrame,
    events: pl.DataFrame,
    event_types: pl.DataFrame,
    stats: pl.DataFrame | Unavailable,
    allocations: pl.DataFrame | Unavailable,
    memory_replay: MemoryReplay | Unavailable,
) -> tuple[CounterCurve, ...]:
    """Collect memory in use, queue lengths and recorded counters over time."""
    curves: list[CounterCurve] = []
    if not isinstance(memory_replay, Unavailable) and not isinstance(
        allocations, Unavailable
    ):
        times = ints(allocations, "start_ps")
        for memory in memory_replay.memories:
            rows, known = memory.rows, memory.known
            curves.append(
                CounterCurve(
                    f"Memory in use: {memory.name}",
                    "bytes",
                    "memory",
                    times[rows[known]],
                    memory.in_use_bytes[known].astype(np.float64),
                )
            )
    if not isinstance(stats, Unavailable):
        by_type = _Samples(events, event_types)
        filled = _event_numbers(trace, stats, StatKey.BUFFERED_ELEMENTS)
        for name, time_ps, value in by_type.type_curves(filled):
            curves.append(
                CounterCurve(f"Queue: {name}", "elements", "queue", time_ps, value)
            )
        counted = _event_numbers(trace, stats, StatKey.COUNTER_VALUE)
        # Keep only events on tracks of counters.
        on_counter = np.zeros(len(counted.owner), np.bool_)
        counters = tracks.filter(pl.col("kind") == "counters")
        for begin, end in counters.select("event_begin", "event_end").rows():
            on_counter |= (counted.owner >= begin) & (counted.owner < end)
        for name, time_ps, value in by_type.type_curves(counted.only(on_counter)):
            match = _WITH_UNIT.match(name)
            shown, unit = (match["name"], match["unit"]) if match else (name, None)
            curves.append(CounterCurve(shown, unit, "recorded", time_ps, value))
    return tuple(curve for curve in curves if len(curve.time_ps))


class _Samples:
    """Times and names of events that have values."""

    def __init__(self, events: pl.DataFrame, event_types: pl.DataFrame) -> None:
        self._start_ps = ints(events, "start_ps")
        self._type = handles(events, "type")
        self._names = event_types.select(
            pl.coalesce("display_name", "name", pl.lit("counter"))
        ).to_series()

    def type_curves(
        self, rows: StatRows
    ) -> list[tuple[str, Int64s, NDArray[np.float64]]]:
        """Return name, times and values for each type of event."""
        type_ = self._type[rows.owner]
        value = np.where(
            rows.kind == DOUBLE, rows.value.view(np.float64), rows.value
        ).astype(np.float64)
        curves = []
        for kind in np.unique(type_).tolist():
            of_type = np.flatnonzero((type_ == kind) & np.isfinite(value))
            time_ps = self._start_ps[rows.owner[of_type]]
            order = np.argsort(time_ps, kind="stable")
            curves.append((self._names[kind], time_ps[order], value[of_type[order]]))
        return curves


def _event_numbers(trace: TraceData, stats: pl.DataFrame, key: StatKey) -> StatRows:
    rows = rows_with_key(stats, "event", find_handle(trace.strings, key))
    return rows.only(np.isin(rows.kind, (INT, UINT, DOUBLE)))
