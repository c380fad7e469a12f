"""From sets of instants to one row per window and device."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from stepscope.derive.intervals.spans import Spans
from stepscope.derive.step_time.owners import (
    BUSY_OWNERS,
    IDLE_OWNERS,
    LAST_WORKING,
    OWNERS,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from stepscope.derive.step_time.device_sets import OneDevice
    from stepscope.unavailable import Unavailable


def charged_rows(
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    *,
    device: OneDevice | None,
    ordinal: int | None,
    idle: Mapping[str, Spans],
    missing: Mapping[str, Unavailable],
) -> pl.DataFrame:
    """Return the time of each owner in each window.

    Args:
        device: What the device did; None where there is none to look at.
        ordinal: Number of the device to write.
        idle: Owner of idle time → its instants.
        missing: Owners whose time is unknown: their columns are null, and what they
            would own is unexplained.
    """
    left = ends - starts
    times: dict[str, NDArray[np.int64]] = {}
    if device is not None:
        times = {n: device.charged[n].within(starts, ends) for n in BUSY_OWNERS}
    for name in IDLE_OWNERS[:-1]:
        times[name] = idle.get(name, Spans.empty()).within(starts, ends)
    for name, time in times.items():
        if name not in missing:
            left = left - time
    times[IDLE_OWNERS[-1]] = left
    columns = [
        pl.Series(f"{owner.name}_ps", times[owner.name])
        if owner.name in times and owner.name not in missing
        else pl.Series(f"{owner.name}_ps", [None] * len(starts), dtype=pl.Int64)
        for owner in OWNERS
    ]
    waits = missing.get("copy_in")
    return pl.DataFrame(
        [
            pl.Series("window", np.arange(len(starts), dtype=np.int32)),
            pl.Series("device", [ordinal] * len(starts), dtype=pl.Int32),
            pl.Series("window_ps", ends - starts),
            *columns,
            *_busy(times if device is not None else {}, starts),
        ]
    ).with_columns(
        # Without a device to transfer to, input is waiting alone; where transfers were
        # lost, it is unknown.
        idle_input_ps=pl.col("input_ps")
        if waits is not None and waits.code == "NO_DEVICE_PLANE"
        else pl.col("input_ps") + pl.col("copy_in_ps")
    )


def _busy(
    times: Mapping[str, NDArray[np.int64]], starts: NDArray[np.int64]
) -> tuple[pl.Series, pl.Series]:
    """Return the time of all busy owners, and of those that are work."""
    names = ("device_busy_ps", "device_working_ps")
    if not times:
        none = pl.Series([None] * len(starts), dtype=pl.Int64)
        return none.alias(names[0]), none.alias(names[1])
    working = BUSY_OWNERS[: BUSY_OWNERS.index(LAST_WORKING) + 1]
    busy, worked = (
        np.sum([times[owner] for owner in owners], axis=0)
        for owners in (BUSY_OWNERS, working)
    )
    return pl.Series(names[0], busy), pl.Series(names[1], worked)


def between_rows(
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    *,
    ordinal: int | None,
    idle: Mapping[str, Spans],
    between: Spans,
    missing: Mapping[str, Unavailable],
) -> pl.DataFrame:
    """Return the idle time of each owner between the steps, in each window."""
    columns = {
        f"{name}_ps": None
        if name in missing
        else (idle.get(name, Spans.empty()) & between).within(starts, ends)
        for name in IDLE_OWNERS
    }
    return pl.DataFrame(
        {
            "window": np.arange(len(starts), dtype=np.int32),
            "device": pl.Series([ordinal] * len(starts), dtype=pl.Int32),
            "window_ps": ends - starts,
            **{
                name: pl.Series([None] * len(starts), dtype=pl.Int64)
                if values is None
                else pl.Series(values)
                for name, values in columns.items()
            },
        }
    )


def overlapped_rows(
    charged: pl.DataFrame,
    device: OneDevice,
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
) -> pl.DataFrame:
    """Return device work in a window during which an earlier owner was charged."""
    hidden = [
        pl.Series(f"{name}_ps", device.orders[name].within(starts, ends))
        - charged[f"{name}_ps"]
        if name in device.orders
        else pl.Series(f"{name}_ps", [None] * len(starts), dtype=pl.Int64)
        for name in BUSY_OWNERS
    ]
    return pl.DataFrame(
        [charged["window"], pl.Series("device", charged["device"]), *hidden]
    )
