"""What PyTorch wrote into its ranges, what calls returned, and values of counters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.formats.nsight_systems.decoded.events import Origin
from stepscope.frozen import Frozen
from stepscope.trace.reading.stat_keys import StatKey
from stepscope.trace.reading.texts import Shortening
from stepscope.trace.stats import DOUBLE, INT, REF
from stepscope.trace.tables import STATS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.formats.nsight_systems.decoded.recording import Recording

#: Column → name of the value.
_OF_RANGES: Final = {"op_id": "op_id", "seq": "seq"}
_OF_CALLS: Final = {"returned": "return value"}
_OF_WAITS: Final = {
    "id": StatKey.STREAM,
    "correlationId": StatKey.CORRELATION,
    "on_stream": StatKey.WAIT_ON_STREAM,
    "recorded": StatKey.WAIT_ON_RECORD,
}


class Arguments(Frozen, frozen=True, kw_only=True, eq=True):
    """The table `stats` with its texts.

    Attributes:
        frame: Rows of `stats`.
        strings: Handle → text.
    """

    frame: pl.DataFrame
    strings: tuple[str, ...]


def collect_arguments(recording: Recording) -> Arguments:
    """Return every value of every event, by event."""
    handles: dict[str, int] = {}
    parts = []
    syncs = recording.syncs
    # Of other waits there is nothing that the replay could follow.
    told = pl.col("recorded").is_not_null()
    waits = syncs.with_columns(
        pl.when(told).then(column).alias(column) for column in _OF_WAITS
    )
    for origin, frame, columns in (
        (Origin.RANGE, recording.host.ranges, _OF_RANGES),
        (Origin.CALL, recording.host.calls, _OF_CALLS),
        (Origin.SYNC, waits, _OF_WAITS),
    ):
        places, rows = recording.rows_of(origin)
        for column, name in columns.items():
            key = handles.setdefault(name, len(handles))
            parts.append(_values(rows, frame[column].gather(places), key, INT))
    parts.append(_counted(recording, handles))
    places, rows = recording.rows_of(Origin.RANGE)
    sizes = recording.host.ranges["sizes"].gather(places)
    key = handles.setdefault("sizes", len(handles))
    texts, shortening = sizes.drop_nulls().unique(maintain_order=True), Shortening()
    numbers = [
        handles.setdefault(shortening.text(text), len(handles))
        for text in texts.to_list()
    ]
    refs = sizes.replace_strict(
        texts, pl.Series(numbers, dtype=pl.Int64), default=None, return_dtype=pl.Int64
    )
    parts.append(_values(rows, refs, key, REF))
    frame = pl.concat(parts).sort("event", maintain_order=True)
    return Arguments(frame=frame, strings=tuple(handles))


def _counted(recording: Recording, handles: dict[str, int]) -> pl.DataFrame:
    places, rows = recording.rows_of(Origin.COUNTER)
    values = recording.counters["value"].gather(places).to_numpy().view(np.int64)
    key = handles.setdefault(StatKey.COUNTER_VALUE, len(handles))
    return _values(rows, pl.Series(values), key, DOUBLE)


def _values(
    rows: NDArray[np.int32], values: pl.Series, key: int, kind: int
) -> pl.DataFrame:
    known = values.is_not_null()
    count = int(known.sum())
    return pl.DataFrame(
        {
            "event": pl.Series(rows).filter(known),
            "key": np.full(count, key, np.int32),
            "kind": np.full(count, kind, np.uint8),
            "value": values.filter(known),
            "length": np.zeros(count, np.int32),
        },
        schema=STATS.dtypes(),
    )
