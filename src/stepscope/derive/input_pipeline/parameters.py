"""What stages of an input pipeline said about themselves: parallelism, buffers."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.derive.columns.stat_values import find_handle, rows_of_owners
from stepscope.trace.reading.stat_keys import StatKey
from stepscope.trace.stats import DOUBLE, INT, PLACE_TEXT, REF, UINT

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray

    from stepscope.derive.columns.stat_values import StatRows
    from stepscope.trace.model import TraceData

#: A recorded value; texts that mean true or false are converted to bool.
Parameter = bool | int | float | str

#: How many elements a buffer held; it differs from one execution to the next.
FILL: Final = StatKey.BUFFERED_ELEMENTS
#: Values that identify an event or a stage, and parameterise nothing.
_IDENTITY: Final = frozenset(
    {"id", "parent_id", "group_id", "element_id", "flow", "step_name", "process_id"}
)
_TRUTH: Final = {"true": True, "false": False}
#: What a writer records for a value that it does not know yet.
_UNKNOWN: Final = frozenset({"unavailable", "<unknown>", ""})


def recorded_parameters(
    trace: TraceData, stats: pl.DataFrame, events: NDArray[np.int64]
) -> dict[int, dict[str, Parameter]]:
    """Read what events say of their stages: row of events → name → value.

    Args:
        trace: The trace itself, for texts.
        stats: The table.
        events: Rows of events, in any order; a few, as each value is read by itself.
    """
    rows = rows_of_owners(stats, "event", np.unique(events).astype(np.int32))
    found: dict[int, dict[str, Parameter]] = defaultdict(dict)
    for owner, key, kind, value, length in zip(
        *(column.tolist() for column in rows), strict=True
    ):
        name = trace.strings[key]
        read = _value(trace, kind, value, length)
        if name in _IDENTITY or name.startswith("_") or read is None:
            continue
        found[owner][name] = read
    return dict(found)


def mean_fill(
    trace: TraceData, stats: pl.DataFrame, events: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return which of the events say how full a buffer was, and how full."""
    rows = rows_of_owners(stats, "event", np.unique(events).astype(np.int32))
    fill = _numbers(rows.only(rows.key == find_handle(trace.strings, FILL)))
    return fill.owner.astype(np.int64), fill.value.astype(np.float64)


def _numbers(rows: StatRows) -> StatRows:
    return rows.only((rows.kind == INT) | (rows.kind == UINT))


def _value(trace: TraceData, kind: int, value: int, length: int) -> Parameter | None:
    """Convert a value to a Python object; None for one that says nothing."""
    if kind in {REF, PLACE_TEXT}:
        text = trace.strings[value] if kind == REF else trace.text(value, length)
        return None if text in _UNKNOWN else _TRUTH.get(text, text)
    if kind == DOUBLE:
        real = float(np.int64(value).view(np.float64))
        return real if np.isfinite(real) else None
    if kind == UINT:
        return value % 2**64
    return value if kind == INT else None
