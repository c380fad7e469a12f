"""Device activity as one frame: kernels, graphs, copies and memsets.

A kernel has the number of its launch shape instead of nine columns.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.formats.assemble import MAX_DEVICES, as_declared
from stepscope.formats.nsight_systems.decoded.events import (
    EVENT_COLUMNS,
    Sense,
    process_expr,
    select_rows,
    timed_rows,
)
from stepscope.frozen import Frozen
from stepscope.trace.reading.activity_names import (
    NOT_ACTIVITY,
    SOME_COPY,
    copy_kind,
    kind_of_name,
)

if TYPE_CHECKING:
    from stepscope.array_types import Int32s, Int64s
    from stepscope.formats.nsight_systems.database.rows import Export
    from stepscope.formats.nsight_systems.decoded.events import Names

#: Column of a launch shape → column of the file.
SHAPE: Final = {
    "registers": "registersPerThread",
    "static": "staticSharedMemory",
    "dynamic": "dynamicSharedMemory",
    **{
        f"{it}_{axis}": f"{it}{axis.upper()}"
        for it in ("block", "grid")
        for axis in "xyz"
    },
}
#: Upper bound of two values whose product must fit 64 bits.
_MAX_RANGE: Final = 2**31
#: Recorded direction of a copy → its name and kind; array memory is device memory.
_DIRECTIONS: Final = {
    1: ("HtoD", "h2d"),
    2: ("DtoH", "d2h"),
    3: ("HtoD", "h2d"),
    4: ("DtoH", "d2h"),
    5: ("DtoD", "local_copy"),
    6: ("DtoD", "local_copy"),
    7: ("DtoD", "local_copy"),
    8: ("DtoD", "local_copy"),
    9: ("HtoH", NOT_ACTIVITY),
    10: ("PtoP", "p2p_copy"),
    # Migrations of unified-memory pages.
    11: ("HtoD", "h2d"),
    12: ("DtoH", "d2h"),
    13: ("DtoD", "p2p_copy"),
}
_UNIFIED: Final = range(11, 14)
#: Kinds of activity with a meaningful launch shape.
_COMPUTES: Final = ("kernel", "collective")
#: Recorded kind of memory → its shown name, and the word that `copy_kind` expects.
_MEMORY: Final = {
    0: ("Pageable", "pageable"),
    1: ("Pinned", "pinned"),
    2: ("Device", "device"),
    3: ("Array", "array"),
    4: ("Managed", "managed"),
    5: ("Device Static", "device_static"),
    6: ("Managed Static", "managed_static"),
}
#: Columns of the frame: those of all events, and those of device activity.
_COLUMNS: Final = {
    **EVENT_COLUMNS,
    "kind": pl.String(),
    "correlation": pl.Int64(),
    "context": pl.Int64(),
    "bytes": pl.Int64(),
    "launched": pl.Int32(),
}


def distinct_rows(frame: pl.DataFrame) -> tuple[pl.DataFrame, Int32s]:
    """Return the distinct rows, and for each row the index of its distinct row.

    Most columns have a small range, so products combine several columns into one key.
    """
    key, width = np.zeros(frame.height, np.int64), 1
    for column in frame.get_columns():
        values, own = _rank_values(column)
        if own == 1:
            continue
        if width > 1 and width * own > _MAX_RANGE**2:
            key, width = _number_distinct_values(pl.Series(key))
        key, width = key * own + values, width * own
    key, count = _number_distinct_values(pl.Series(key))
    row = np.empty(count, np.int64)
    row[key] = np.arange(frame.height)
    return frame[row], key.astype(np.int32)


def _rank_values(column: pl.Series) -> tuple[Int64s, int]:
    """Map equal values to equal numbers from 0 up; also return an upper bound."""
    lowest, highest = column.min(), column.max()
    if not isinstance(lowest, int) or not isinstance(highest, int):
        return np.zeros(len(column), np.int64), 1
    if column.null_count() or highest - lowest >= _MAX_RANGE:
        return _number_distinct_values(column)
    return column.to_numpy() - lowest, highest - lowest + 1


def _number_distinct_values(values: pl.Series) -> tuple[Int64s, int]:
    distinct = values.drop_nulls().unique().sort().to_numpy()
    number = np.searchsorted(distinct, values.fill_null(0).to_numpy())
    if not values.null_count():
        return number, len(distinct)
    number[values.is_null().to_numpy()] = len(distinct)
    return number, len(distinct) + 1


class DeviceWork(Frozen, frozen=True, kw_only=True, eq=True):
    """All device activity of a file.

    Attributes:
        frame: One row per activity in file order: kernels, then graphs recorded as a
            whole, copies and memsets. `launched` is the row in `shapes` of a kernel.
        shapes: Distinct launch shapes as recorded.
        undirected: Number of copies without a recorded direction.
    """

    frame: pl.DataFrame
    shapes: pl.DataFrame
    graphs: int
    undirected: int
    refused: Counter[str]


def device_work(export: Export, names: Names) -> DeviceWork:
    """Return the device activity of a file; `device` is the ordinal in the process."""
    refused: Counter[str] = Counter()
    copies, undirected = _read_copies(export, names, refused)
    memset = pl.lit(names.number("Memset"), pl.Int32)
    memsets = timed_rows(export.frame("CUPTI_ACTIVITY_KIND_MEMSET"), _BACKWARD, refused)
    rows = export.frame("CUPTI_ACTIVITY_KIND_GRAPH_TRACE")
    # CUPTI writes 0 for both times if it could not measure them.
    timeless = (pl.col("start") == 0) & (pl.col("end") == 0)
    timed = rows.filter(~timeless.fill_null(value=False))
    if lost := rows.height - timed.height:
        refused[_BACKWARD] += lost
    # Graphs recorded without their kernels, one row per launch.
    graphs = timed_rows(timed, _BACKWARD, refused)
    texts = graphs.select(
        pl.format("CUDA graph {}", "graphId").fill_null("CUDA graph")
    ).to_series()
    graphs = graphs.with_columns(name=names.number_texts(texts), kind=pl.lit("kernel"))
    kernels, shapes = _read_kernels(export, names, refused)
    parts = [
        kernels,
        graphs,
        copies,
        memsets.with_columns(name=memset, kind=pl.lit("memset")),
    ]
    frame = pl.concat([_work_columns(part, export.machines) for part in parts])
    frame = frame.with_columns(pl.when(pl.col("bytes") >= 0).then("bytes"))
    placed = select_rows(frame, pl.col("device").is_not_null())
    if lost := frame.height - placed.height:
        refused["without a device"] += lost
    return DeviceWork(
        frame=placed,
        shapes=shapes,
        graphs=graphs.height,
        undirected=undirected,
        refused=refused,
    )


_BACKWARD: Final = "without a time, or that end before they begin"


def _work_columns(part: pl.DataFrame, machines: int) -> pl.DataFrame:
    device = pl.col("deviceId")
    correlation = pl.col("correlationId")
    columns = part.with_columns(
        process=process_expr("globalPid", machines=machines),
        # In a damaged file, a device number may be impossible.
        device=pl.when(device.is_between(0, MAX_DEVICES - 1)).then(device),
        id=pl.col("streamId").fill_null(-1),
        said=pl.lit(Sense.NEITHER.value),
        # 0 means no correlation id: the call that caused a page migration is not known.
        correlation=pl.when(correlation != 0).then(correlation),
        context="contextId",
    )
    return as_declared(columns, _COLUMNS)


def _read_kernels(
    export: Export, names: Names, refused: Counter[str]
) -> tuple[pl.DataFrame, pl.DataFrame]:
    frame = timed_rows(export.frame("CUPTI_ACTIVITY_KIND_KERNEL"), _BACKWARD, refused)
    name = names.number_ids(
        frame.select(pl.coalesce("demangledName", "shortName"))[:, 0]
    )
    texts = names.texts()
    meant = {SOME_COPY: "local_copy", NOT_ACTIVITY: "kernel"}
    kind_of = {}
    for row in name.unique().to_list():
        kind = kind_of_name(texts[row], launched=True)
        kind_of[row] = meant.get(kind, kind)
    of_name = pl.DataFrame(
        {
            "kind": [kind_of.get(row) for row in range(len(texts))],
            # A kernel whose name shows that it only copies counts as a copy.
            "computes": [kind_of.get(row) in _COMPUTES for row in range(len(texts))],
        },
        schema={"kind": pl.String, "computes": pl.Boolean},
    )
    shapes, shape = distinct_rows(frame.select(**SHAPE))
    kernels = frame.with_columns(
        name=name, launched=pl.Series(shape), **of_name[name].to_dict()
    )
    return kernels.with_columns(pl.when("computes").then("launched")), shapes


def _read_copies(
    export: Export, names: Names, refused: Counter[str]
) -> tuple[pl.DataFrame, int]:
    frame = timed_rows(export.frame("CUPTI_ACTIVITY_KIND_MEMCPY"), _BACKWARD, refused)
    between = pl.col("srcDeviceId") != pl.col("dstDeviceId")
    frame = frame.with_columns(peer=between.fill_null(value=False))
    keys = ["copyKind", "srcKind", "dstKind", "peer"]
    distinct = frame.select(keys).unique(maintain_order=True)
    named = [_name_and_kind(*row, peer=peer) for *row, peer in distinct.iter_rows()]
    table = distinct.with_columns(
        name=pl.Series([names.number(name) for name, _ in named], dtype=pl.Int32),
        directed=pl.Series([kind is not None for _, kind in named], dtype=pl.Boolean),
        kind=pl.Series([kind or "local_copy" for _, kind in named], dtype=pl.String),
    )
    copies = frame.join(
        table, on=keys, how="left", nulls_equal=True, maintain_order="left"
    )
    return copies, int((~copies["directed"]).sum())


def _name_and_kind(
    number: int | None, source: int | None, destination: int | None, *, peer: bool
) -> tuple[str, str | None]:
    """Return the name of a copy, as Kineto names it, and its kind; None if unknown."""
    from_, to = (
        _MEMORY.get(-1 if memory_kind is None else memory_kind)
        for memory_kind in (source, destination)
    )
    sides = f" ({from_[0]} -> {to[0]})" if from_ and to else ""
    direction = _DIRECTIONS.get(-1 if number is None else number)
    if direction is None:
        kind = copy_kind(from_ and from_[1], to and to[1])
        directions = {"h2d": "HtoD", "d2h": "DtoH", "local_copy": "DtoD"}
        word = directions.get(kind or "", "Unknown")
        return f"Memcpy {word}{sides}", kind
    word, kind = direction
    if number in _UNIFIED:
        return f"Memcpy {word} (unified memory)", kind
    if peer and kind == "local_copy":
        return f"Memcpy PtoP{sides}", "p2p_copy"
    return f"Memcpy {word}{sides}", kind
