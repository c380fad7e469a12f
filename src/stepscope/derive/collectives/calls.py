"""`collective_calls`: every collective of a host, one by one, with its group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.derive.collectives.totals import exchange_kind
from stepscope.derive.columns.arrays import handles, ints
from stepscope.derive.columns.stat_values import find_handle, rows_of_owners, texts_of
from stepscope.trace.device_activity import ACTIVITY_KINDS
from stepscope.trace.reading.stat_keys import StatKey
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.derive.device.activity_classes import ActivityClasses
    from stepscope.derive.device.attribution import ActivityOps
    from stepscope.trace.model import TraceData

__all__ = ["COLLECTIVE_CALLS", "collective_calls"]

COLLECTIVE_CALLS: Final[dict[str, pl.DataType]] = {
    "device": pl.Int32(),
    "step_row": pl.Int32(),  # row of steps; -1 for none
    "kind": pl.String(),  # of exchange, one of the kinds of `collectives`
    "group": pl.String(),  # names the members of the group; "" where not recorded
    "start_ps": pl.Int64(),
    "dur_ps": pl.Int64(),
}
#: Values of an event that together name the group of processes taking part.
_GROUP_VALUES: Final = (StatKey.PROCESS_GROUP_NAME, StatKey.PROCESS_GROUP_RANKS)

_NONE: Final = Unavailable(
    code="NO_SAMPLES",
    reason="No device of this host took part in a collective.",
    remedy="Nothing to do where devices do not exchange anything; otherwise record "
    "with the device tracer on.",
)


def collective_calls(
    *,
    trace: TraceData,
    activity_classes: ActivityClasses,
    activity_ops: ActivityOps,
    event_types: pl.DataFrame,
    device_activity: pl.DataFrame,
    activity_steps: NDArray[np.int32] | Unavailable,
    stats: pl.DataFrame | Unavailable,
) -> pl.DataFrame | Unavailable:
    """List the collectives of all devices of a host.

    Returns:
        Columns `COLLECTIVE_CALLS`, by device and start.
    """
    classes = activity_classes.rows
    collective = ACTIVITY_KINDS.categories.to_list().index("collective")
    wanted = (classes["kind"] == collective).to_numpy()
    rows = np.flatnonzero(wanted[activity_classes.code])
    if not len(rows):
        return _NONE
    code = activity_classes.code[rows]
    steps = np.full(len(rows), -1, np.int32)
    if not isinstance(activity_steps, Unavailable):
        steps = activity_steps[rows]
    return pl.DataFrame(
        {
            "device": handles(device_activity, "device")[rows],
            "step_row": steps,
            "kind": _kinds(classes, activity_ops, event_types, wanted).gather(code),
            "group": _groups(trace, handles(device_activity, "event")[rows], stats),
            "start_ps": ints(device_activity, "start_ps")[rows],
            "dur_ps": ints(device_activity, "dur_ps")[rows],
        },
        schema=COLLECTIVE_CALLS,
    ).sort("device", "start_ps", maintain_order=True)


def _kinds(
    classes: pl.DataFrame,
    activity_ops: ActivityOps,
    event_types: pl.DataFrame,
    wanted: NDArray[np.bool_],
) -> pl.Series:
    """Return the kind of exchange of each class; empty for other activities."""
    ops = activity_ops.ops
    said = (
        event_types["name"].gather(classes["type"])
        + " "
        + ops["type"].fill_null("").gather(classes["op"])
        + " "
        + ops["opcode"].fill_null("").gather(classes["op"])
    )
    # One round per class, of which there are as many as distinct kernels.
    return pl.Series(
        [
            exchange_kind(text) if is_collective else ""
            for text, is_collective in zip(said, wanted.tolist(), strict=True)
        ],
        dtype=pl.String,
    )


def _groups(
    trace: TraceData,
    events: NDArray[np.int32],
    stats: pl.DataFrame | Unavailable,
) -> list[str]:
    """Return the recorded group of each collective; "" where none was recorded."""
    if isinstance(stats, Unavailable) or (events < 0).any():
        return [""] * len(events)
    owners = np.unique(events)
    values = rows_of_owners(stats, "event", owners)
    found = [
        texts_of(trace, values, owners, find_handle(trace.strings, name))
        for name in _GROUP_VALUES
    ]
    named = [
        " ".join(text for text in texts if text) for texts in zip(*found, strict=True)
    ]
    return [named[at] for at in np.searchsorted(owners, events).tolist()]
