"""`event_nesting`: which event contains which, asynchronous work left out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepscope.derive.host.values import int_values
from stepscope.derive.intervals.nesting import Nesting, nesting
from stepscope.trace.reading.stat_keys import StatKey
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

    import polars as pl

    from stepscope.derive.columns.stat_values import StatRows


def event_nesting(
    *,
    tracks: pl.DataFrame,
    events: pl.DataFrame,
    host_values: Mapping[str, StatRows] | Unavailable,
) -> Nesting:
    """Nest all events but those whose value `_a` marks them as asynchronous.

    Asynchronous events are shown on a thread's track without having run there.

    Definition: docs/definitions/names-and-events.md#nesting-and-self-time.
    """
    if isinstance(host_values, Unavailable):
        return nesting(tracks, events)
    owner, flag = int_values(host_values[StatKey.ASYNCHRONOUS])
    apart = np.unique(owner[flag != 0]).astype(np.int64)
    return nesting(tracks, events, flat_rows=apart if len(apart) else None)
