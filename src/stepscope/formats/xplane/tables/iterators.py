"""Calls of input pipeline iterators become the table `iterators`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.formats.lost import or_lost
from stepscope.remedies import Remedy
from stepscope.trace.iterators import is_loader_call
from stepscope.trace.reading.nullable import nullable
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.formats.xplane.decoded.recording import Recording

_BEGINNING: Final = "Iterator::"

_NONE_RECORDED: Final = Unavailable(
    code="NO_TFDATA_EVENTS",
    reason="The profile holds no Iterator event and no call of a DataLoader.",
    remedy=Remedy.RECORD_PIPELINE,
)


def iterators(recording: Recording) -> pl.DataFrame | Unavailable:
    """Return every call of every iterator, in the order of `events`."""
    rows = recording.host_rows(
        lambda name: name.startswith(_BEGINNING) or is_loader_call(name)
    )
    if not len(rows):
        return or_lost(_NONE_RECORDED, recording.damaged_at)
    stats = recording.values_at(["id", "parent_id"], rows)
    line = recording.timeline
    types = line.type[rows]
    names = recording.type_names
    distinct, inverse = np.unique(types, return_inverse=True)
    long_names = pl.Series([names[it] for it in distinct.tolist()], dtype=pl.String)
    return pl.DataFrame(
        {
            "event": rows.astype(np.int32),
            "track": line.track[rows],
            "start_ps": line.start_ps[rows],
            "dur_ps": line.dur_ps[rows],
            "long_name": long_names.gather(inverse),
            "id": nullable("id", *stats["id"].integers()),
            "parent_id": nullable("parent_id", *stats["parent_id"].integers()),
        }
    )
