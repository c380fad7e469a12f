"""Calls of a DataLoader become the table `iterators`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.formats.lost import or_lost
from stepscope.trace.iterators import is_loader_call
from stepscope.trace.tables import ITERATORS
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.formats.kineto.decoded.recording import Recording

_NONE_RECORDED: Final = Unavailable(
    code="NO_TFDATA_EVENTS",
    reason="The trace holds no call of a DataLoader.",
    remedy="Read the input through torch.utils.data.DataLoader inside the profiled "
    "steps; its worker processes are not recorded.",
)


def iterators(recording: Recording) -> pl.DataFrame | Unavailable:
    """Return every call of a DataLoader's iterator, in the order of `events`."""
    names = recording.type_names
    rows = recording.rows_named([is_loader_call(name) for name in names])
    line = recording.timeline
    kinds = pl.Series([it.kind for it in recording.tracks], dtype=pl.String)
    on_thread = (kinds == "thread").to_numpy()
    rows = rows[on_thread[line.track[rows]]] if len(rows) else rows
    if not len(rows):
        return or_lost(_NONE_RECORDED, recording.damaged_at)
    return pl.DataFrame(
        {
            "event": rows.astype(np.int32),
            "track": line.track[rows],
            "start_ps": line.start_ps[rows],
            "dur_ps": line.dur_ps[rows],
            "long_name": pl.Series(names).gather(line.type[rows]),
            "id": pl.Series([None], dtype=pl.Int64).new_from_index(0, len(rows)),
            "parent_id": pl.Series([None], dtype=pl.Int64).new_from_index(0, len(rows)),
        },
        schema=ITERATORS.dtypes(),
    )
