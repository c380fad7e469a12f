"""`unseen_device`: host calls that show what a device without records delays.

Reading one value waits for the device, a blocking copy waits for its data, and a launch
call stops while the device's queue is full.

Definition: docs/definitions/host-time.md#unseen-devices.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.derive.columns.arrays import are_host_threads, handles
from stepscope.derive.names.event_kinds import EventFlag, HostClass
from stepscope.frozen import Frozen
from stepscope.trace.reading.by_row import values_by_row
from stepscope.trace.reading.nullable import is_true
from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_MS, PS_PER_US

if TYPE_CHECKING:
    import polars as pl

    from stepscope.array_types import Bools, Int32s, Int64s
    from stepscope.derive.intervals.nesting import Nesting
    from stepscope.derive.names.event_kinds import EventKinds

#: Pattern of runtime calls that give work to a device, and of ops that copy.
_GIVES_WORK: Final = r"(?i)launch|memcpy|memset|prefetch|enqueue"
_COPYING_OP: Final = r"^aten::(?:copy_|_to_copy)$"
#: Self time, in ps, from which a read of one value, a copy or a launch call waits.
_MIN_WAIT_PS: Final = 100 * PS_PER_US
#: Self time, in ps, and its ratio to the median of at least that many calls of the op,
#: from which a single call of an op waits for the device's queue.
_MIN_STOP_PS: Final = PS_PER_MS
_MIN_STOP_RATIO: Final = 20
_MIN_CALLS: Final = 10


class UnseenDevice(Frozen, frozen=True):
    """Host events next to a used device without recorded work; rows of `events`.

    Attributes:
        calls: Calls of the device's runtime; empty if none were recorded.
        waits: Calls and ops whose self time is a wait for the device.
    """

    calls: Int32s
    waits: Int32s


def unseen_device(
    *,
    tracks: pl.DataFrame,
    events: pl.DataFrame,
    event_types: pl.DataFrame,
    event_kinds: EventKinds,
    event_nesting: Nesting,
    device_activity: pl.DataFrame | Unavailable,
) -> UnseenDevice | None:
    """Find the calls and waits; None unless a used device has no recorded work."""
    if isinstance(device_activity, Unavailable):
        if device_activity.code != "NO_DEVICE_EVENTS":
            return None
    elif device_activity.height:
        return None
    types, own_ps = handles(events, "type"), event_nesting.self_ps
    on_host = values_by_row(are_host_threads(tracks), handles(events, "track"))

    def rows_of(wanted: Bools, min_self_ps: int = 0) -> Int64s:
        chosen = values_by_row(wanted, types) & on_host & (own_ps >= min_self_ps)
        return np.flatnonzero(chosen)

    names = event_types["name"]
    api = event_kinds.host_class == HostClass.API
    gives_work = api & is_true(names.str.contains(_GIVES_WORK))
    waits = [
        rows_of(gives_work, _MIN_WAIT_PS),
        rows_of(event_kinds.has(EventFlag.READ_BACK), _MIN_WAIT_PS),
    ]
    calls = rows_of(api)
    if not len(calls):
        waits.append(rows_of(is_true(names.str.contains(_COPYING_OP)), _MIN_WAIT_PS))
        ops = rows_of(event_kinds.host_class == HostClass.OP)
        waits.append(_stopped_rows(ops, types, own_ps) if len(waits[1]) else ops[:0])
    return UnseenDevice(
        calls.astype(np.int32), np.unique(np.concatenate(waits)).astype(np.int32)
    )


def _stopped_rows(ops: Int64s, types: Int32s, own_ps: Int64s) -> Int64s:
    """Return the calls of ops that last far longer than other calls of the same op."""
    long_rows = ops[own_ps[ops] >= _MIN_STOP_PS]
    stopped = []
    for kind in np.unique(types[long_rows]).tolist():
        calls = ops[types[ops] == kind]
        limit = _MIN_STOP_RATIO * float(np.median(own_ps[calls]))
        if len(calls) >= _MIN_CALLS:
            stopped.append(calls[own_ps[calls] >= max(limit, _MIN_STOP_PS)])
    return np.concatenate([ops[:0], *stopped])
