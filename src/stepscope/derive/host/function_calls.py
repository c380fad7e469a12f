"""`function_calls`: calls of TensorFlow's graph functions, with modes and times."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from stepscope.derive.columns.arrays import handles, ints
from stepscope.derive.columns.stat_values import values_of_owners
from stepscope.derive.host.values import int_values, text_codes
from stepscope.derive.intervals.nesting import nest_subset
from stepscope.remedies import Remedy
from stepscope.trace.reading.stat_keys import StatKey
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stepscope.derive.columns.stat_values import StatRows
    from stepscope.trace.model import TraceData

FUNCTION_ROWS: Final[dict[str, pl.DataType]] = {
    "name": pl.String(),
    "mode": pl.String(),  # as recorded: eager, concrete, traced-xla, notTraced-xla, …
    "calls": pl.Int64(),
    "self_ps": pl.Int64(),  # without nested function calls
    "tracing_count": pl.Int64(),  # largest recorded count; null if none was recorded
}

#: Modes of a call that traces, compiles or runs eagerly instead of a cached program.
EXPENSIVE_MODES: Final = ("traced-xla", "traced-nonXla", "eager")


def function_calls(
    *,
    trace: TraceData,
    events: pl.DataFrame,
    event_types: pl.DataFrame,
    host_values: Mapping[str, StatRows],
) -> pl.DataFrame | Unavailable:
    """Sum the calls and their times by function and mode.

    Definition: docs/tools/overview_page.md#other-fields.

    Returns:
        Columns `FUNCTION_ROWS`, by self time descending, then name and mode;
        unavailable if no function call was recorded.
    """
    owner, code, texts = text_codes(trace, host_values[StatKey.FUNCTION_CALL])
    if not len(owner):
        return Unavailable(
            code="NOT_RECORDED",
            reason="no call of a graph function was recorded.",
            remedy=Remedy.RECORD_FUNCTIONS,
        )
    nested = nest_subset(
        ints(events, "start_ps")[owner],
        ints(events, "dur_ps")[owner],
        track=handles(events, "track")[owner],
    )
    counted_owner, counts = int_values(host_values[StatKey.TRACING_COUNT])
    tracing, _ = values_of_owners(owner, counted_owner, counts, default=-1)
    calls = pl.DataFrame(
        {
            "name": event_types["name"][handles(events, "type")[owner]],
            "mode": pl.Series(texts, dtype=pl.String)[code],
            "self_ps": nested.self_ps,
            "tracing_count": tracing,
        }
    )
    return (
        calls.group_by("name", "mode")
        .agg(
            pl.len().cast(pl.Int64).alias("calls"),
            pl.col("self_ps").sum(),
            pl.col("tracing_count").max().replace(-1, None),
        )
        .select(*FUNCTION_ROWS)
        .sort("self_ps", "name", "mode", descending=[True, False, False])
    )
