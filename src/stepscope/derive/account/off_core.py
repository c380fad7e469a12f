"""When threads had no core, where the turns of threads on cores were recorded.

Definition: docs/where-a-steps-time-goes.md#threads-without-a-core.
"""

from __future__ import annotations

from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

import numpy as np

from stepscope.derive.columns.arrays import handles
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.step_time.host_codes import SHORT_OP_PS
from stepscope.trace.reading.off_core import OFF_CORE

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl
    from numpy.typing import NDArray

    from stepscope.derive.intervals.spans import TrackRows


def off_core(
    tracks: pl.DataFrame,
    events: pl.DataFrame,
    event_types: pl.DataFrame,
    *,
    rows_of: TrackRows,
) -> dict[int, Spans]:
    """Return when threads had no core, by row of tracks of the thread."""
    return {
        thread: rows_of.spans(rows_of.rows(line))
        for thread, line in lines_without_core(tracks, events, event_types).items()
    }


def together(sets: Sequence[Spans]) -> Spans:
    """Return what all sets have in common; nothing where there are none."""
    return reduce(and_, sets) if sets else Spans.empty()


def lasting(spans: Spans) -> Spans:
    """Return the stretches of a set that are not short beside what threads do."""
    chosen = spans.end_ps - spans.start_ps >= SHORT_OP_PS
    return Spans(spans.start_ps[chosen], spans.end_ps[chosen])


def lines_without_core(
    tracks: pl.DataFrame, events: pl.DataFrame, event_types: pl.DataFrame
) -> dict[int, int]:
    """Return the line of stretches without a core by thread, both rows of tracks."""
    named: NDArray[np.bool_]
    named = event_types["name"].str.starts_with(OFF_CORE).to_numpy()
    if not named.any():
        return {}
    lines = np.unique(handles(events, "track")[named[handles(events, "type")]])
    places = tracks.select("plane", "process", "id").rows()
    kinds = tracks["kind"].to_list()
    threads = {place: row for row, place in enumerate(places) if kinds[row] == "thread"}
    return {
        threads[places[line]]: line
        for line in lines.tolist()
        if places[line] in threads and kinds[line] == "asynchronous"
    }
