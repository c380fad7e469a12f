"""`host_collectives`: the collectives that host threads carry out, one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.derive.collectives.arguments import exchange_kind, recorded_arguments
from stepscope.derive.columns.arrays import handles, ints, picked
from stepscope.derive.host.values import host_ranges
from stepscope.derive.names.event_kinds import EventFlag
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.derive.intervals.nesting import Nesting
    from stepscope.derive.names.event_kinds import EventKinds
    from stepscope.trace.model import TraceData

HOST_COLLECTIVES: Final[dict[str, pl.DataType]] = {
    "event": pl.Int32(),  # row of events
    "kind": pl.String(),  # of exchange, one of `KINDS`
    "group": pl.String(),  # names the members of the group; "" where not recorded
    "start_ps": pl.Int64(),
    "dur_ps": pl.Int64(),
}
#: Ranges of the libraries that communicate between hosts: the exchange itself. The ops
#: around or before them hand it over and go on.
_TRANSPORT: Final = r"^(?:gloo|mpi|ucc):"

_NONE: Final = Unavailable(
    code="NO_SAMPLES",
    reason="No thread of this host took part in a collective that was recorded.",
    remedy="Nothing to do where processes do not exchange anything; otherwise record "
    "with the profiler of the framework.",
)


def host_collectives(
    *,
    trace: TraceData,
    tracks: pl.DataFrame,
    events: pl.DataFrame,
    event_types: pl.DataFrame,
    event_kinds: EventKinds,
    event_nesting: Nesting,
    stats: pl.DataFrame | Unavailable,
) -> pl.DataFrame | Unavailable:
    """List the collectives of all threads of a host; of nested ones the outermost.

    Where the transport itself was recorded, it is the collective; otherwise the op or
    the function that asks for it. On a host whose devices communicate, these are the
    calls that hand the exchange to the device.

    Definition: docs/definitions/device-work.md#collectives.

    Returns:
        Columns `HOST_COLLECTIVES`, by start.
    """
    names = event_types["name"]
    flagged = event_kinds.has(EventFlag.COLLECTIVE)
    transport = flagged & names.str.contains(_TRANSPORT).to_numpy()
    types = handles(events, "type")
    ranges = host_ranges(tracks)
    rows = _rows(types, transport, ranges)
    if not len(rows):
        reduced = _rows(types, flagged, ranges)
        chosen = np.zeros(len(event_nesting.parent), np.bool_)
        chosen[reduced] = True
        above, inside = event_nesting.parent[reduced], np.zeros(len(reduced), np.bool_)
        # One round per level of nesting.
        while (above >= 0).any():
            inside |= (above >= 0) & chosen[above]
            above = np.where(above >= 0, event_nesting.parent[above], np.int32(-1))
        rows = reduced[~inside]
    if not len(rows):
        return _NONE
    group = [""] * len(rows)
    if not isinstance(stats, Unavailable):
        group = recorded_arguments(trace, stats, rows)["group"].to_list()
    kinds = {
        number: exchange_kind(names[number]) or "other"
        for number in np.unique(types[rows]).tolist()
    }
    return pl.DataFrame(
        {
            "event": rows,
            "kind": [kinds[number] for number in types[rows].tolist()],
            "group": group,
            "start_ps": ints(events, "start_ps")[rows],
            "dur_ps": ints(events, "dur_ps")[rows],
        },
        schema=HOST_COLLECTIVES,
    ).sort("start_ps", "event")


def _rows(
    types: NDArray[np.int32],
    wanted: NDArray[np.bool_],
    ranges: list[tuple[int, int]],
) -> NDArray[np.int32]:
    if not wanted.any():
        return np.empty(0, np.int32)
    found = [picked(types, wanted, *range_) for range_ in ranges]
    return np.concatenate([*found, np.empty(0, np.int64)]).astype(np.int32)
