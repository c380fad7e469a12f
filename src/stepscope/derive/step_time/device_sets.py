"""`device_sets`: what each device was doing, as sets of instants."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np

from stepscope.derive.columns.arrays import codes, handles, ints
from stepscope.derive.intervals.spans import Spans
from stepscope.frozen import Frozen
from stepscope.remedies import ALLOW_DEVICE_TRACER
from stepscope.trace.device_activity import ACTIVITY_KINDS
from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_US

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray

    from stepscope.derive.device.correlation import Correlation
    from stepscope.derive.device.precision import Precision

__all__ = [
    "DEVICE_ORDERS",
    "LATENCY_CAP_PS",
    "NO_DEVICE_EVENTS",
    "DeviceSets",
    "OneDevice",
    "device_sets",
]

#: A device that is listed without any activity says nothing about the program.
NO_DEVICE_EVENTS: Final = Unavailable(
    code="NO_DEVICE_EVENTS",
    reason="A device is listed, but none of its activity was recorded.",
    remedy=ALLOW_DEVICE_TRACER,
)

#: Kinds of device work in the order in which time is charged to them. Definition:
#: docs/tools/overview_page.md#where-the-time-goes.
DEVICE_ORDERS: Final = (
    "device_compute_16",
    "device_compute_32",
    "memset",
    "collective",
    "p2p_copy",
    "local_copy",
    "d2h",
    "h2d",
)
#: A launch into an empty queue explains at most this much of the wait for its kernel; a
#: longer wait has another cause. Definition:
#: docs/definitions/idle-time.md#time-charged-to-launching.
LATENCY_CAP_PS: Final = 100 * PS_PER_US

_KIND: Final = {kind: code for code, kind in enumerate(ACTIVITY_KINDS.categories)}


class OneDevice(Frozen, frozen=True):
    """One device that has activity.

    Attributes:
        device: Its ordinal.
        orders: `DEVICE_ORDERS` → where any such activity ran; they may overlap.
        unknown: Those of `DEVICE_ORDERS` that this kind of device does not record.
        covered: Each of `DEVICE_ORDERS` → the union of its time and that of all
            before it.
        busy: The union of all activity.
        latency: From the end of a launch call to its activity, where the queue was
            empty, at most `LATENCY_CAP_PS`; None where launches are unknown.
        internal: Between activities of one launch, the device not busy; None where
            launches are unknown.
    """

    device: int
    orders: dict[str, Spans]
    unknown: dict[str, Unavailable]
    covered: dict[str, Spans]
    busy: Spans
    latency: Spans | None
    internal: Spans | None


class DeviceSets(Frozen, frozen=True):
    """Every device with activity, by ordinal, and all of them taken as one.

    Attributes:
        devices: One entry per device that has activity.
        any_device: The sets of all devices united; `device` is -1.
    """

    devices: tuple[OneDevice, ...]
    any_device: OneDevice


def device_sets(
    *,
    device_activity: pl.DataFrame,
    precision: Precision,
    correlation: Correlation | Unavailable,
    launches: pl.DataFrame | Unavailable,
    devices: pl.DataFrame | Unavailable,
) -> DeviceSets | Unavailable:
    """Unite the activity of each device by what it was.

    Args:
        device_activity: The table.
        precision: Bits of each activity, 0 where it is no compute.
        correlation: The launch of each activity.
        launches: The table.
        devices: The table, for what kind of device each is.
    """
    if not device_activity.height:
        return NO_DEVICE_EVENTS
    start_ps, dur_ps = (
        ints(device_activity, "start_ps"),
        ints(device_activity, "dur_ps"),
    )
    order = _orders(device_activity, precision)
    waits = _waits(device_activity, correlation, launches)
    hulls = _hulls(device_activity, correlation)
    found = []
    for number, rows in _rows_by_device(handles(device_activity, "device")):
        of_rows, starts, durs = order[rows], start_ps[rows], dur_ps[rows]
        orders = {}
        for place, name in enumerate(DEVICE_ORDERS):
            chosen = of_rows == place
            orders[name] = Spans.from_events(starts[chosen], durs[chosen])
        unknown = _not_recorded(number, orders, devices)
        orders = {name: found for name, found in orders.items() if name not in unknown}
        covered = _covered(orders)
        busy = covered[DEVICE_ORDERS[-1]]
        latency = None if waits is None else waits.of(number)
        internal = None if hulls is None else hulls.of(number) - busy
        found.append(
            OneDevice(number, orders, unknown, covered, busy, latency, internal)
        )
    return DeviceSets(tuple(found), _united(found))


#: Only tracers of streams see copies between host and device.
_TRANSFERS: Final = ("d2h", "h2d")
_NO_TRANSFERS: Final = Unavailable(
    code="FORMAT",
    reason="The tracer of this kind of device records no transfers to or from hosts.",
    remedy="Judge transfers by the host's own waits.",
)


def _not_recorded(
    device: int, orders: dict[str, Spans], devices: pl.DataFrame | Unavailable
) -> dict[str, Unavailable]:
    """Return the kinds of work that this kind of device does not record."""
    if isinstance(devices, Unavailable):
        return {}
    kinds = devices["type"].gather(np.flatnonzero(handles(devices, "device") == device))
    if not len(kinds) or "GPU" in kinds.to_list():
        return {}
    return {name: _NO_TRANSFERS for name in _TRANSFERS if not len(orders[name])}


def _rows_by_device(
    device: NDArray[np.int32],
) -> list[tuple[int, slice | NDArray[np.intp]]]:
    """Return each device with its rows, which are usually contiguous."""
    edges = np.flatnonzero(device[1:] != device[:-1]) + 1
    begins = np.concatenate(([0], edges))
    numbers = device[begins]
    if len(np.unique(numbers)) == len(numbers):
        ends = np.concatenate((edges, [len(device)]))
        runs = zip(numbers.tolist(), begins.tolist(), ends.tolist(), strict=True)
        return sorted(
            ((number, slice(begin, end)) for number, begin, end in runs),
            key=lambda found: found[0],
        )
    return [
        (number, np.flatnonzero(device == number))
        for number in np.unique(numbers).tolist()
    ]


def _orders(device_activity: pl.DataFrame, precision: Precision) -> NDArray[np.uint8]:
    """Return the place in `DEVICE_ORDERS` of each activity."""
    place = np.zeros(256, np.uint8)
    for name in DEVICE_ORDERS[2:]:
        place[_KIND[name]] = DEVICE_ORDERS.index(name)
    kind = codes(device_activity, "kind")
    order = place[kind]
    order[(kind == _KIND["kernel"]) & (precision.bits != 16)] = 1
    return order


class _Intervals(Frozen, frozen=True):
    """Intervals in any order, each of one device."""

    device: NDArray[np.int32]
    start_ps: NDArray[np.int64]
    end_ps: NDArray[np.int64]

    def of(self, device: int) -> Spans:
        mine = self.device == device
        starts = self.start_ps[mine]
        return Spans.from_events(starts, self.end_ps[mine] - starts)


def _waits(
    device_activity: pl.DataFrame,
    correlation: Correlation | Unavailable,
    launches: pl.DataFrame | Unavailable,
) -> _Intervals | None:
    if isinstance(correlation, Unavailable) or isinstance(launches, Unavailable):
        return None
    rows = np.flatnonzero(
        correlation.queue_empty & (correlation.launch_of_activity >= 0)
    )
    launch = correlation.launch_of_activity[rows]
    called = ints(launches, "start_ps")[launch] + ints(launches, "dur_ps")[launch]
    begins = ints(device_activity, "start_ps")[rows]
    ends = np.minimum(begins, called + LATENCY_CAP_PS)
    some = called < ends
    device = handles(device_activity, "device")[rows]
    return _Intervals(device[some], called[some], ends[some])


def _hulls(
    device_activity: pl.DataFrame, correlation: Correlation | Unavailable
) -> _Intervals | None:
    """Return the time from first to last activity of each launch that began several."""
    if isinstance(correlation, Unavailable):
        return None
    launch = correlation.launch_of_activity.astype(np.int64)
    several = correlation.activity_count_of_launch > 1
    rows = np.flatnonzero(launch >= 0)
    rows = rows[several[launch[rows]]]
    device = handles(device_activity, "device")[rows].astype(np.int64)
    key = launch[rows] * (int(device.max(initial=0)) + 1) + device
    rows = rows[np.argsort(key, kind="stable")]
    key = np.sort(key, kind="stable")
    first = np.flatnonzero(np.concatenate(([True], key[1:] != key[:-1])))
    starts = ints(device_activity, "start_ps")[rows]
    ends = starts + ints(device_activity, "dur_ps")[rows]
    if not len(rows):
        nothing = np.empty(0, np.int64)
        return _Intervals(np.empty(0, np.int32), nothing, nothing)
    return _Intervals(
        handles(device_activity, "device")[rows[first]],
        np.minimum.reduceat(starts, first),
        np.maximum.reduceat(ends, first),
    )


def _covered(orders: dict[str, Spans]) -> dict[str, Spans]:
    """Union by union in the order of charging."""
    found, taken = {}, Spans.empty()
    for name in DEVICE_ORDERS:
        taken |= orders.get(name, taken)
        found[name] = taken
    return found


def _united(devices: list[OneDevice]) -> OneDevice:
    if len(devices) == 1:
        return msgspec.structs.replace(devices[0], device=-1)
    latencies = [device.latency for device in devices if device.latency is not None]
    internals = [device.internal for device in devices if device.internal is not None]
    known = len(latencies) == len(devices)
    unknown = {name: why for device in devices for name, why in device.unknown.items()}
    orders = {
        name: Spans.union_of(device.orders[name] for device in devices)
        for name in DEVICE_ORDERS
        if name not in unknown
    }
    covered = _covered(orders)
    busy = covered[DEVICE_ORDERS[-1]]
    return OneDevice(
        device=-1,
        orders=orders,
        unknown=unknown,
        covered=covered,
        busy=busy,
        latency=Spans.union_of(latencies) if known else None,
        internal=Spans.union_of(internals) - busy if known else None,
    )
