"""`device_sets`: what each device does when, as sets of time spans."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np

from stepscope.derive.columns.arrays import ACTIVITY_CODES, codes, handles, ints
from stepscope.derive.device.precision import PrecisionEvidence, why_precisions_unknown
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.reasons import WHY
from stepscope.derive.step_time.owners import BUSY_OWNERS, OWNER_OF_KIND
from stepscope.frozen import Frozen
from stepscope.trace.reading.by_row import values_by_row
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray

    from stepscope.array_types import Int32s, UInt8s
    from stepscope.derive.device.precision import Precision

NO_DEVICE_EVENTS: Final = WHY["no_device_events"]

#: Owners whose time is unknown if the precision of many kernels was not recorded.
_PRECISION_OWNERS: Final = frozenset({"compute_16", "compute_tf32", "compute_64"})


class DeviceTimes(Frozen, frozen=True):
    """Times of one device that has activity.

    Attributes:
        orders: When each of `BUSY_OWNERS` has activity; two owners may overlap.
        unknown: Those of `BUSY_OWNERS` that this kind of device does not record, and
            precisions that may be missing because many kernels record no precision.
        charged: The times charged to each of `BUSY_OWNERS`: its time in `orders` minus
            that of earlier owners; two owners never overlap. Of copies in both
            directions at once, those are charged that end last.
    """

    device: int
    orders: dict[str, Spans]
    unknown: dict[str, Unavailable]
    charged: dict[str, Spans]
    busy: Spans

    def idle_until(self, last: str, spans: Spans) -> Spans:
        """Return the part of `spans` without activity of `last` or earlier owners."""
        for name in BUSY_OWNERS[: BUSY_OWNERS.index(last) + 1]:
            spans = spans - self.charged[name]
        return spans


class DeviceSets(Frozen, frozen=True):
    """All devices with activity, by ordinal, and all devices together.

    Attributes:
        any_device: The times at which at least one device is active; `device` is -1.
    """

    devices: tuple[DeviceTimes, ...]
    any_device: DeviceTimes


def device_sets(
    *,
    device_activity: pl.DataFrame,
    precision: Precision,
    devices: pl.DataFrame | Unavailable,
) -> DeviceSets | Unavailable:
    """Return at which times each device works for each owner."""
    if not device_activity.height:
        return NO_DEVICE_EVENTS
    start_ps, dur_ps = (
        ints(device_activity, "start_ps"),
        ints(device_activity, "dur_ps"),
    )
    order = owner_indices(codes(device_activity, "kind"), precision)
    computes = precision.bits > 0
    total = int(dur_ps[computes].sum())
    default = computes & (precision.evidence == PrecisionEvidence.DEFAULT)
    why = why_precisions_unknown(int(dur_ps[default].sum()) / total if total else 0.0)
    if why is None:
        doubtful = {}
    else:
        present = set(np.unique(order[computes & (dur_ps > 0)]).tolist())
        doubtful = {
            name: why
            for index, name in enumerate(BUSY_OWNERS)
            if name in _PRECISION_OWNERS and index not in present
        }
    sets = []
    for number, rows in _rows_by_device(handles(device_activity, "device")):
        of_rows, starts, durs = order[rows], start_ps[rows], dur_ps[rows]
        orders = {}
        for index, name in enumerate(BUSY_OWNERS):
            chosen = np.flatnonzero(of_rows == index)
            orders[name] = Spans.from_events(starts[chosen], durs[chosen])
        unknown = _unrecorded_owners(number, orders, devices) | doubtful
        orders = {name: spans for name, spans in orders.items() if name not in unknown}
        sets.append(_charge_device(number, orders, unknown))
    if len(sets) == 1:
        return DeviceSets(tuple(sets), msgspec.structs.replace(sets[0], device=-1))
    unknown = {name: why for device in sets for name, why in device.unknown.items()}
    orders = {
        name: Spans.union_of(device.orders[name] for device in sets)
        for name in BUSY_OWNERS
        if name not in unknown
    }
    charged = {
        name: Spans.union_of(device.charged[name] for device in sets)
        for name in BUSY_OWNERS
    }
    together = _charge_device(-1, orders, unknown, charged)
    return DeviceSets(tuple(sets), together)


#: Owners that only a stream tracer records: copies between host and device.
_TRANSFERS: Final = ("copy_out", "copy_in")


def _unrecorded_owners(
    device: int, orders: dict[str, Spans], devices: pl.DataFrame | Unavailable
) -> dict[str, Unavailable]:
    if isinstance(devices, Unavailable):
        return {}
    kinds = devices["type"].gather(np.flatnonzero(handles(devices, "device") == device))
    if not len(kinds) or "GPU" in kinds.to_list():
        return {}
    return {
        name: WHY["no_transfers_recorded"]
        for name in _TRANSFERS
        if not len(orders[name])
    }


def _rows_by_device(device: Int32s) -> list[tuple[int, slice | NDArray[np.intp]]]:
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


def owner_indices(kind: UInt8s, precision: Precision) -> UInt8s:
    """Return the index in `BUSY_OWNERS` of each activity."""
    owner_of_kind = np.zeros(256, np.uint8)
    for name, owner in OWNER_OF_KIND.items():
        owner_of_kind[ACTIVITY_CODES[name]] = BUSY_OWNERS.index(owner)
    order: UInt8s = values_by_row(owner_of_kind, kind)
    kernel = kind == ACTIVITY_CODES["kernel"]
    order[kernel & (precision.bits == 16)] = BUSY_OWNERS.index("compute_16")
    order[kernel & precision.tf32] = BUSY_OWNERS.index("compute_tf32")
    order[kernel & precision.fp64] = BUSY_OWNERS.index("compute_64")
    unknown = kernel & (precision.evidence == PrecisionEvidence.DEFAULT)
    order[unknown] = BUSY_OWNERS.index("compute_unknown")
    return order


def _charge_device(
    device: int,
    orders: dict[str, Spans],
    unknown: dict[str, Unavailable],
    of_each: dict[str, Spans] | None = None,
) -> DeviceTimes:
    """Charge each time to one owner.

    Args:
        of_each: The times charged to each owner on any device; None for one device.
    """
    ran = orders if of_each is None else of_each
    charged = {}
    for index, name in enumerate(BUSY_OWNERS):
        left = ran.get(name, Spans.empty())
        # Subtracting the owners one by one copies only the spans that remain.
        for earlier in BUSY_OWNERS[:index]:
            left = left - ran.get(earlier, Spans.empty())
        charged[name] = left
    if of_each is None:
        _charge_awaited_copies(orders, charged)
    return DeviceTimes(
        device=device,
        orders=orders,
        unknown=unknown,
        charged=charged,
        busy=Spans.union_of(orders.values()),
    )


def _charge_awaited_copies(orders: dict[str, Spans], charged: dict[str, Spans]) -> None:
    """Charge the time of copies in both directions to those that are waited for.

    In an interval in which the device only copies, the work after it waits for the
    copies that end last. Copies that go on after the interval run next to that work.
    """
    out, into = charged["copy_out"], orders.get("copy_in", Spans.empty())
    both = out & into
    if not len(both):
        return
    interval = out | (into & (out | charged["copy_in"]))
    last = []
    for name in _TRANSFERS:
        ends = orders[name].end_ps
        row = np.searchsorted(ends, interval.end_ps, side="right") - 1
        ended = np.where(row >= 0, ends[row], -1)
        last.append(np.where(ended > interval.start_ps, ended, -1))
    chosen = last[1] > last[0]
    given = both & Spans(interval.start_ps[chosen], interval.end_ps[chosen])
    charged["copy_out"] = out - given
    charged["copy_in"] = charged["copy_in"] | given
