"""`breakdown`: every instant of every step charged to exactly one cause."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import polars as pl

from stepscope.derive.columns.arrays import ints, present
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.step_time.device_sets import DEVICE_ORDERS
from stepscope.frozen import Frozen
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from stepscope.derive.step_time.device_sets import DeviceSets, OneDevice
    from stepscope.derive.step_time.host_classes import HostClasses
    from stepscope.derive.step_windows.windows import Windows

__all__ = [
    "BUCKETS",
    "CATEGORIES",
    "DISPLAY_CATEGORIES",
    "Breakdown",
    "Bucket",
    "breakdown",
]


class Bucket(NamedTuple):
    """A cause that time is charged to, and where that time is shown.

    Attributes:
        name: The sub-bucket.
        category: The category of the results that the bucket is part of.
        display: The category under the name that TensorFlow's guides use.
    """

    name: str
    category: str
    display: str


_OTHER: Final = ("other", "All others")
_DEVICE: Final = ("device_to_device", "Device to device")

#: All buckets in the order in which time is charged to them. Definition:
#: docs/tools/overview_page.md#where-the-time-goes.
BUCKETS: Final = (
    Bucket("device_compute_16", "device_compute_16", "Device compute"),
    Bucket("device_compute_32", "device_compute_32", "Device compute"),
    Bucket("memset", *_DEVICE),
    Bucket("collective", "device_collectives", "Device to device"),
    Bucket("p2p_copy", *_DEVICE),
    Bucket("local_copy", *_DEVICE),
    Bucket("d2h", "output", "Output"),
    Bucket("h2d", "input", "Input"),
    Bucket("host_wait", "input", "Input"),
    Bucket("compile", "compilation", "Compilation"),
    Bucket("launch", "kernel_launch", "Kernel launch"),
    Bucket("host_compute", "host_compute", "Host compute"),
    Bucket("device_internal", *_OTHER),
    Bucket("sync", *_OTHER),
    Bucket("between_steps", *_OTHER),
    Bucket("python", *_OTHER),
    Bucket("unattributed", *_OTHER),
)
#: The ten categories of the results, in the order of the contract.
CATEGORIES: Final = (
    "compilation",
    "input",
    "output",
    "kernel_launch",
    "host_compute",
    "device_collectives",
    "device_to_device",
    "device_compute_16",
    "device_compute_32",
    "other",
)
#: The eight categories of TensorFlow's guides, in their order.
DISPLAY_CATEGORIES: Final = (
    "Compilation",
    "Input",
    "Output",
    "Kernel launch",
    "Host compute",
    "Device to device",
    "Device compute",
    "All others",
)
#: The buckets up to this one are work that a device should spend its time on: all but
#: transfers of input.
_LAST_WORKING: Final = "d2h"


class Breakdown(Frozen, frozen=True):
    """The charged time of every (device, window), and what overlapped.

    Attributes:
        rows: `window` (row of windows), `device` (null where no device could be looked
            at), `window_ps`, one column `<bucket>_ps` per bucket, null where it is
            unknown; the others add up to `window_ps` exactly. Also
            `device_busy_ps`, `device_working_ps` (null without a device) and
            `idle_input_ps`.
        any_device: The columns of `rows` with all devices taken as one; `device` is
            null.
        overlapped: Per (window, device) of `rows`: `<bucket>_ps` of device work that
            overlapped work of an earlier bucket; None without a device.
        missing: Bucket → why its time is unknown.
    """

    rows: pl.DataFrame
    any_device: pl.DataFrame
    overlapped: pl.DataFrame | None
    missing: dict[str, Unavailable]

    def self_check(self) -> None:
        """Raise ValueError where the buckets do not add up to their window."""
        for frame in (self.rows, self.any_device):
            columns = [f"{bucket.name}_ps" for bucket in BUCKETS]
            total = frame.select(pl.sum_horizontal(columns)).to_series()
            if not (total == frame["window_ps"]).all():
                raise ValueError("the buckets of a window do not add up to it")
            if frame.select(pl.min_horizontal(columns).min()).item() < 0:
                raise ValueError("a bucket is negative")


def breakdown(
    *,
    windows: Windows,
    device_sets: DeviceSets | Unavailable,
    host_classes: HostClasses | Unavailable,
) -> Breakdown:
    """Charge every window, device work before host work.

    Definition: docs/tools/overview_page.md#where-the-time-goes.

    Args:
        windows: The windows; the one of the whole profile where there are no steps.
        device_sets: What each device did.
        host_classes: What the step threads did; without it, all but the time of the
            device is unattributed.
    """
    starts = ints(windows.rows, "start_ps")
    ends = ints(windows.rows, "end_ps")
    between = _between_steps(windows.rows)
    if isinstance(device_sets, Unavailable):
        sets, missing = _host_sets(host_classes, between)
        missing |= dict.fromkeys((*DEVICE_ORDERS, "launch"), device_sets)
        missing["device_internal"] = device_sets
        rows = _charged(sets, starts, ends, united={}).with_columns(
            device=pl.lit(None, pl.Int32),
            device_busy_ps=pl.lit(None, pl.Int64),
            device_working_ps=pl.lit(None, pl.Int64),
        )
        found = _completed(rows, missing)
        return Breakdown(found, found, None, missing)
    frames, hidden = [], []
    missing = {}
    for device in device_sets.devices:
        sets, unknown = _sets(device, host_classes, between)
        missing |= unknown
        charged = _charged(sets, starts, ends, united=device.covered)
        frames.append(_with_device(charged, device, starts, ends))
        hidden.append(_overlapped(charged, device, starts, ends))
    together = frames[0]
    if len(frames) > 1:
        sets, _ = _sets(device_sets.any_device, host_classes, between)
        united = device_sets.any_device
        charged = _charged(sets, starts, ends, united=united.covered)
        together = _with_device(charged, united, starts, ends)
    return Breakdown(
        _completed(pl.concat(frames), missing).sort("window", "device"),
        _completed(together.with_columns(device=pl.lit(None, pl.Int32)), missing),
        pl.concat(hidden).sort("window", "device"),
        missing,
    )


def _between_steps(windows: pl.DataFrame) -> Spans:
    """Return the part of each window after its step ended."""
    known = present(windows, "gap_start_ps") & present(windows, "gap_end_ps")
    gaps = windows.filter(pl.Series(known))
    starts = ints(gaps, "gap_start_ps")
    return Spans.from_events(starts, ints(gaps, "gap_end_ps") - starts)


_ON_HOST: Final = ("host_wait", "compile", "launch", "host_compute", "sync", "python")


def _host_sets(
    host: HostClasses | Unavailable, between: Spans
) -> tuple[dict[str, Spans], dict[str, Unavailable]]:
    """Return the sets of the host's buckets, and why others are unknown."""
    if isinstance(host, Unavailable):
        return {"between_steps": between}, dict.fromkeys(_ON_HOST, host)
    named: dict[str, Spans | Unavailable] = {
        "host_wait": host.input_wait,
        "compile": host.compile,
        "launch": host.launch,
        "host_compute": host.host_compute,
        "sync": host.sync,
        "between_steps": between,
        "python": host.python,
    }
    sets = {
        name: spans
        for name, spans in named.items()
        if not isinstance(spans, Unavailable)
    }
    missing = {
        name: spans for name, spans in named.items() if isinstance(spans, Unavailable)
    }
    return sets, missing


def _sets(
    device: OneDevice, host: HostClasses | Unavailable, between: Spans
) -> tuple[dict[str, Spans], dict[str, Unavailable]]:
    sets, missing = _host_sets(host, between)
    sets |= device.orders
    missing |= device.unknown
    if device.internal is not None:
        sets["device_internal"] = device.internal
    else:
        missing["device_internal"] = missing.get("launch", _NO_LAUNCHES)
    if "launch" in sets and device.latency is not None:
        sets["launch"] |= device.latency
    return sets, missing


_NO_LAUNCHES: Final = Unavailable(
    code="NOT_RECORDED",
    reason="It is not known which launch call each activity came from.",
    remedy="Record with the host tracer on in the process that launches the work.",
)


def _charged(
    sets: Mapping[str, Spans],
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    *,
    united: Mapping[str, Spans],
) -> pl.DataFrame:
    """Return one column per bucket; time that no set covers is unattributed.

    Args:
        sets: Bucket → where it is.
        starts: Begins of the windows.
        ends: Their ends.
        united: Bucket → the union of its set and all before, where it is known.
    """
    left = ends - starts
    columns: dict[str, NDArray[np.int64] | None] = {
        "window": np.arange(len(starts), dtype=np.int32),
        "window_ps": left,
    }
    taken, covered = Spans.empty(), np.zeros(len(starts), np.int64)
    for bucket in BUCKETS[:-1]:
        found = sets.get(bucket.name)
        if found is None:
            columns[f"{bucket.name}_ps"] = None
            continue
        share = np.zeros(len(starts), np.int64)
        if len(found):
            # What a set adds to all earlier ones is what it is charged.
            taken = united[bucket.name] if bucket.name in united else taken | found
            now = taken.within(starts, ends)
            share, covered = now - covered, now
        columns[f"{bucket.name}_ps"] = share
        left = left - share
    columns[f"{BUCKETS[-1].name}_ps"] = left
    return pl.DataFrame(
        {
            name: pl.Series(values)
            if values is not None
            else pl.Series([None] * len(starts), dtype=pl.Int64)
            for name, values in columns.items()
        }
    )


def _with_device(
    charged: pl.DataFrame,
    device: OneDevice,
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
) -> pl.DataFrame:
    working = device.covered[_LAST_WORKING]
    return charged.with_columns(
        device=pl.lit(device.device, pl.Int32),
        device_busy_ps=pl.Series(device.busy.within(starts, ends)),
        device_working_ps=pl.Series(working.within(starts, ends)),
    )


def _overlapped(
    charged: pl.DataFrame,
    device: OneDevice,
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
) -> pl.DataFrame:
    """Return device work in a window during which an earlier bucket was charged."""
    hidden = [
        pl.Series(f"{name}_ps", device.orders[name].within(starts, ends))
        - charged[f"{name}_ps"]
        if name in device.orders
        else pl.Series(f"{name}_ps", [None] * len(starts), dtype=pl.Int64)
        for name in DEVICE_ORDERS
    ]
    return pl.DataFrame(
        [charged["window"], *hidden],
    ).with_columns(device=pl.lit(device.device, pl.Int32))


def _completed(rows: pl.DataFrame, missing: Mapping[str, Unavailable]) -> pl.DataFrame:
    """Return the columns in their declared order, with `idle_input_ps`.

    Where there is no device to transfer to, that is the waiting for input alone; where
    transfers were lost, it is unknown.
    """
    idle_input = pl.col("host_wait_ps")
    no_transfers = missing.get("h2d")
    if no_transfers is None or no_transfers.code != "NO_DEVICE_PLANE":
        idle_input += pl.col("h2d_ps")
    return rows.with_columns(idle_input_ps=idle_input).select(
        "window",
        "device",
        "window_ps",
        *(f"{bucket.name}_ps" for bucket in BUCKETS),
        "device_busy_ps",
        "device_working_ps",
        "idle_input_ps",
    )
