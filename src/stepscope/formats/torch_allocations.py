"""What PyTorch reports of each allocation becomes rows of the table `allocations`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from stepscope.formats.assemble import as_declared
from stepscope.trace.tables import ALLOCATIONS

if TYPE_CHECKING:
    from collections.abc import Mapping

#: `Device Type` → what PyTorch calls such devices (c10/core/DeviceType.h).
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
    given: pl.DataFrame, *, device_bytes: Mapping[int, int]
) -> pl.DataFrame:
    """Return rows of the declared table, in the order given.

    Args:
        given: One row per report, in order of time: `event`, `start_ps`, `address`,
            `bytes` (below 0: given back), `device_type`, `device`, `allocated` and
            `reserved` (totals after it) and `asked_by`, the operator around it.
        device_bytes: Device → size of its memory, where it is known.
    """
    size = pl.col("bytes")
    number = pl.col("device_type")
    kind = number.replace_strict(_DEVICE_TYPES, default=None, return_dtype=pl.String)
    kind = pl.coalesce(
        kind, pl.concat_str(pl.lit("device type "), number), pl.lit("unknown")
    )
    numbered = (number != _CPU) & (pl.col("device") >= 0)
    # The size of the device's memory; unknown on the CPU.
    of_device = pl.col("device").replace_strict(
        dict(device_bytes), default=None, return_dtype=pl.Int64
    )
    frame = _add_allocator_state(
        given.with_columns(
            allocator=pl.when(numbered)
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
        # A device's allocator counts all of its blocks, the one of the CPU those that
        # it saw while it was recorded.
        older_counted=pl.when(pl.col("heap").is_not_null()).then(
            pl.col("device_type") != _CPU
        ),
        # The one who frees a block is not the one who asked for it.
        op=pl.when(size > 0).then("asked_by"),
    )
    return as_declared(frame, ALLOCATIONS.dtypes())


def _add_allocator_state(given: pl.DataFrame) -> pl.DataFrame:
    """Add `heap`, in use after each event, and `free`, held without being in use.

    A device's allocator reports both: what is in use, and what it has reserved. On
    the CPU the total is that of what was allocated since recording began; memory
    that is shared between processes has no part in it and reports 0, as do older
    producers. A 0 is believed where what was in use before is what is given back.
    """
    total, size = pl.col("allocated"), pl.col("bytes")
    on_cpu = pl.col("device_type") == _CPU
    given = given.with_columns(
        before=pl.when(total > 0).then(total).forward_fill().shift().over("allocator")
    )
    emptied = (total == 0) & (pl.col("before") + size == 0)
    plausible = (total > 0) & ((size < 0) | (total >= size))
    heap = pl.when(
        pl.when(on_cpu).then(plausible | emptied).otherwise(total >= 0)
    ).then(total)
    reserved = pl.col("reserved")
    return given.with_columns(heap=heap).with_columns(
        free=pl.when(~on_cpu & (reserved >= pl.col("heap"))).then(
            reserved - pl.col("heap")
        )
    )
