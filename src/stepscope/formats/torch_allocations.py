"""Convert PyTorch's reports of allocations to rows of the table `allocations`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from stepscope.formats.assemble import as_declared
from stepscope.trace.tables import ALLOCATIONS

if TYPE_CHECKING:
    from collections.abc import Mapping

#: `Device Type` → PyTorch's name of the type of device (c10/core/DeviceType.h).
_DEVICE_TYPES: Final = {
    0: "cpu",
    1: "cuda",
    6: "hip",
    9: "xla",
    12: "xpu",
    13: "mps",
    15: "hpu",
    19: "mtia",
    20: "privateuseone",
}
_CPU: Final = 0


def allocation_rows(
    reports: pl.DataFrame, *, device_bytes: Mapping[int, int]
) -> pl.DataFrame:
    """Return rows of the table `allocations`, in the order of the reports.

    Args:
        reports: One row per report, sorted by time: `event`, `start_ps`, `address`,
            `bytes` (negative if freed), `device_type`, `device`, `allocated` and
            `reserved` (totals after the event), and `asked_by` (the operator).
        device_bytes: Device → size of its memory, in bytes, where known.
    """
    size = pl.col("bytes")
    number = pl.col("device_type")
    kind = number.replace_strict(_DEVICE_TYPES, default=None, return_dtype=pl.String)
    kind = pl.coalesce(
        kind, pl.concat_str(pl.lit("device type "), number), pl.lit("unknown")
    )
    # Size of the device's memory, in bytes; unknown on the CPU.
    of_device = pl.col("device").replace_strict(
        dict(device_bytes), default=None, return_dtype=pl.Int64
    )
    frame = _add_allocator_state(
        reports.with_columns(
            allocator=pl.when((number != _CPU) & (pl.col("device") >= 0))
            .then(pl.concat_str(kind, pl.lit(":"), pl.col("device")))
            .otherwise(kind)
        )
    ).select(
        "event",
        "start_ps",
        pl.when(size > 0)
        .then(pl.lit("allocate"))
        .otherwise(pl.lit("deallocate"))
        .alias("kind"),
        "allocator",
        "address",
        allocated_bytes=size.abs(),
        heap_bytes="heap",
        free_bytes="free",
        capacity_bytes=pl.when(pl.col("device_type") != _CPU).then(of_device),
        # The total of a device's allocator includes blocks from before the recording.
        # The total of the CPU allocator excludes such blocks.
        older_counted=pl.when(pl.col("heap").is_not_null()).then(
            pl.col("device_type") != _CPU
        ),
        # Null for a deallocation: another operator may have requested the block.
        op=pl.when(size > 0).then("asked_by"),
    )
    return as_declared(frame, ALLOCATIONS.dtypes())


def _add_allocator_state(reports: pl.DataFrame) -> pl.DataFrame:
    """Add the columns `heap` (bytes in use after each event) and `free`.

    `free` is the reserved bytes that are not in use. A device's allocator reports the
    bytes in use and the bytes reserved. On the CPU, the reported total counts
    allocations since the recording began. Allocations of memory shared between
    processes are not counted and report a total of 0; older producers always report 0.
    So a CPU total of 0 is accepted only if the event frees exactly the bytes in use.
    """
    total, size = pl.col("allocated"), pl.col("bytes")
    on_cpu = pl.col("device_type") == _CPU
    reports = reports.with_columns(
        before=pl.when(total > 0).then(total).forward_fill().shift().over("allocator")
    )
    emptied = (total == 0) & (pl.col("before") + size == 0)
    plausible = (total > 0) & ((size < 0) | (total >= size))
    heap = pl.when(
        pl.when(on_cpu).then(plausible | emptied).otherwise(total >= 0)
    ).then(total)
    reserved = pl.col("reserved")
    return reports.with_columns(heap=heap).with_columns(
        free=pl.when(~on_cpu & (reserved >= pl.col("heap"))).then(
            reserved - pl.col("heap")
        )
    )
