"""What the CUDA driver gave to the program, and took back: memory, block by block."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from stepscope.formats.nsight_systems.decoded.events import Said, process_of

if TYPE_CHECKING:
    from collections import Counter

    from stepscope.formats.nsight_systems.database.rows import Export
    from stepscope.formats.nsight_systems.decoded.names import Names

#: Operation → name of its event.
_OPERATIONS: Final = {0: "Memory allocation", 1: "Memory deallocation"}
ALLOCATED: Final = 0
_LOST: Final = "of memory without a time, a size or an operation"


def driver_memory(
    export: Export, names: Names, refused: Counter[str], *, machines: int
) -> pl.DataFrame:
    """Return allocations and deallocations; `device` is the process's ordinal.

    Beside the columns of events: `operation`, `address`, `bytes` and `memory`, the
    recorded kind of memory.

    Args:
        export: The file.
        names: Numbers of names.
        refused: Why rows were left out → how many; is added to.
        machines: Number of machines in the file.
    """
    rows = export.frame("CUDA_GPU_MEMORY_USAGE_EVENTS")
    known = pl.col("memoryOperationType").is_in(list(_OPERATIONS))
    kept = rows.filter(known & pl.col("start").is_not_null() & (pl.col("bytes") > 0))
    if lost := rows.height - kept.height:
        refused[_LOST] += lost
    texts = kept["memoryOperationType"].replace_strict(
        list(_OPERATIONS), list(_OPERATIONS.values()), return_dtype=pl.String
    )
    device = pl.col("deviceId")
    return kept.select(
        "start",
        "address",
        "bytes",
        dur=pl.lit(0, pl.Int64),
        process=process_of("globalPid", machines=machines),
        device=pl.when(device.is_between(0, 2**16 - 1)).then(device).cast(pl.Int32),
        id=pl.lit(-1, pl.Int64),
        name=names.of_texts(texts),
        said=pl.lit(Said.NEITHER.value, pl.UInt8),
        operation="memoryOperationType",
        memory="memKind",
    )
