"""Read plain tables into frames of integers and texts; other values become null.

Only declared tables and columns are read. An export omits tables without rows, and
columns differ between releases of Nsight Systems. So only required columns must exist.

Definition: docs/formats/nsight_systems.md#what-is-read.
"""

from __future__ import annotations

import sqlite3
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
import polars as pl

from stepscope.errors import BadInput
from stepscope.formats.assemble import as_declared
from stepscope.formats.nsight_systems.database.connection import (
    ERRORS,
    EXPORT_AGAIN,
    LEAST_ROW_BYTES,
    open_database,
    reason_text,
)
from stepscope.formats.nsight_systems.database.pages import regular_columns
from stepscope.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator
    from pathlib import Path

    from stepscope.formats.nsight_systems.database.connection import Database

#: Maximum number of rows that are kept as Python objects at a time.
_MAX_ROWS: Final = 2**16
#: Tables with events; a database without any of these tables has no timeline.
_TIMELINE: Final = (
    "CUPTI_ACTIVITY_KIND_KERNEL",
    "CUPTI_ACTIVITY_KIND_MEMCPY",
    "CUPTI_ACTIVITY_KIND_MEMSET",
    "CUPTI_ACTIVITY_KIND_RUNTIME",
    "NVTX_EVENTS",
    "OSRT_API",
)
#: Columns whose numbers are ids of texts.
_NAMES: Final = (
    *("demangledName", "shortName", "nameId", "textId"),
    *("symbol", "module"),
)


class Columns(NamedTuple):
    """The columns of one table that are read.

    Attributes:
        required: Columns of integers; if one is missing, the table is not read.
        optional: Columns of integers that may be absent.
        texts: Columns of texts that may be absent.
        numbers: Columns of numbers; if one is missing, the table is not read.
    """

    required: tuple[str, ...]
    optional: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()


_DEVICE_WORK: Final = ("start", "end", "deviceId", "streamId")


_OF_WORK: Final = ("contextId", "globalPid", "correlationId")


OVERHEADS: Final = ("PROFILER_OVERHEAD", "CUPTI_ACTIVITY_KIND_OVERHEAD")


STRINGS: Final = "StringIds"


#: Table → the columns that are read.
COLUMNS: Final = {
    "CUPTI_ACTIVITY_KIND_KERNEL": Columns(
        _DEVICE_WORK,
        (
            *_OF_WORK,
            *("demangledName", "shortName", "registersPerThread"),
            *("gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ"),
            *("staticSharedMemory", "dynamicSharedMemory"),
        ),
    ),
    "CUPTI_ACTIVITY_KIND_MEMCPY": Columns(
        (*_DEVICE_WORK, "copyKind"),
        (*_OF_WORK, "bytes", "srcKind", "dstKind", "srcDeviceId", "dstDeviceId"),
    ),
    "CUPTI_ACTIVITY_KIND_MEMSET": Columns(_DEVICE_WORK, (*_OF_WORK, "bytes")),
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": Columns(
        ("start", "end"), ("deviceId", "streamId", *_OF_WORK, "graphId")
    ),
    "CUPTI_ACTIVITY_KIND_RUNTIME": Columns(
        ("start", "end", "globalTid", "nameId"),
        ("correlationId", "eventClass", "returnValue"),
    ),
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": Columns(
        ("start", "end", "syncType"),
        (
            *("deviceId", "contextId", "streamId", "globalPid", "correlationId"),
            *("eventId", "eventSyncId"),
        ),
    ),
    "CUPTI_ACTIVITY_KIND_CUDA_EVENT": Columns(
        ("eventId", "streamId", "correlationId"),
        ("contextId", "globalPid", "eventSyncId"),
    ),
    "CUDA_GPU_MEMORY_USAGE_EVENTS": Columns(
        ("start", "bytes", "memoryOperationType"),
        ("address", "deviceId", "memKind", "globalPid"),
    ),
    "NVTX_EVENTS": Columns(
        ("start", "eventType"), ("end", "globalTid", "textId", "domainId"), ("text",)
    ),
    "OSRT_API": Columns(("start", "end", "nameId", "globalTid")),
    "SCHED_EVENTS": Columns(("start", "cpu", "isSchedIn", "globalTid")),
    "COMPOSITE_EVENTS": Columns(("id", "start", "globalTid")),
    "SAMPLING_CALLCHAINS": Columns(
        ("id", "symbol", "module", "stackDepth"), ("unresolved",)
    ),
    "GPU_METRICS": Columns(("timestamp", "typeId", "metricId"), numbers=("value",)),
    "TARGET_INFO_GPU_METRICS": Columns(("typeId", "metricId"), texts=("metricName",)),
    **dict.fromkeys(OVERHEADS, Columns(("start", "end"), ("nameId",))),
    "TARGET_INFO_GPU": Columns(
        (),
        (
            *("id", "deviceId", "cuDevice", "smCount", "clockRate", "totalMemory"),
            *("memoryBandwidth", "computeMajor", "computeMinor"),
        ),
        ("name",),
    ),
    "TARGET_INFO_CUDA_DEVICE": Columns(("gpuId", "cudaId", "pid")),
    "TARGET_INFO_SESSION_START_TIME": Columns(("utcEpochNs",)),
    "ANALYSIS_DETAILS": Columns(("duration",)),
    "ThreadNames": Columns(("nameId", "globalTid")),
    "DIAGNOSTIC_EVENT": Columns(("severity",), (), ("text",)),
    "META_DATA_EXPORT": Columns((), (), ("name",)),
}


#: Tables with one row per device activity, call or range; they have most of the rows.
WORK: Final = (
    "CUPTI_ACTIVITY_KIND_KERNEL",
    "CUPTI_ACTIVITY_KIND_MEMCPY",
    "CUPTI_ACTIVITY_KIND_MEMSET",
    "CUPTI_ACTIVITY_KIND_RUNTIME",
    "NVTX_EVENTS",
    "OSRT_API",
)


#: Tables with one row per CPU sample, scheduling event or value of a counter.
SAMPLE_TABLES: Final = (
    "GPU_METRICS",
    "SCHED_EVENTS",
    "COMPOSITE_EVENTS",
    "SAMPLING_CALLCHAINS",
)


#: Tables that are never read → their private contents.
PRIVATE: Final = {
    "TARGET_INFO_SYSTEM_ENV": "the machine and its configuration",
    "META_DATA_CAPTURE": "the command line and the environment of the program",
    "ProcessStreams": "the output of the program",
    "PROCESSES": "the names of the machine's other processes",
}


class Export(Frozen, frozen=True, kw_only=True, eq=True):
    """The tables that were read from a database.

    Attributes:
        frames: Table → its rows with all declared columns; absent tables have no entry.
        strings: Id → text, for the ids that occur in the frames.
        damaged: Table → the reason why some or all of its rows could not be read.
        machines: Number of machines whose processes and threads have records.
    """

    path: Path
    frames: dict[str, pl.DataFrame]
    strings: dict[int, str]
    tables: frozenset[str]
    damaged: dict[str, str]
    machines: int

    def without(self, tables: Iterable[str]) -> Export:
        """Return a copy without the rows of some tables."""
        frames = {name: self.frames[name] for name in self.frames.keys() - set(tables)}
        return msgspec.structs.replace(self, frames=frames)

    def frame(self, table: str) -> pl.DataFrame:
        """Return the rows of a table; an absent table has no rows."""
        rows = self.frames.get(table)
        return pl.DataFrame(schema=_schema(COLUMNS[table])) if rows is None else rows


def read_export(path: Path, limit_bytes: int) -> Export:
    """Read every declared table of a database.

    Args:
        limit_bytes: Maximum size of a decompressed file, in bytes.

    Raises:
        BadInput: The file is not a database, or holds no timeline.
    """
    damaged: dict[str, str] = {}
    with open_database(path, limit_bytes) as database:
        connection = database.connection
        tables = _table_names(connection, path)
        rows = _read_frames(database, COLUMNS.keys() & tables, damaged)
        intact = rows.keys() - damaged.keys()
        if not any(
            key in intact or rows[key].height for key in _TIMELINE if key in rows
        ):
            for reason in damaged.values():
                raise BadInput.at(path, f"is damaged ({reason})", EXPORT_AGAIN)
            raise BadInput.at(
                path,
                "is an Nsight Systems database without a timeline: it has no table of "
                "kernels, calls or ranges",
                "Record with `nsys profile --trace=cuda,nvtx` and export again.",
            )
        # Names of threads without events are not looked up.
        texts = _read_strings(connection, rows, damaged) if STRINGS in tables else {}
    return Export(
        path=path,
        frames=rows,
        strings=texts,
        tables=tables,
        damaged=damaged,
        # The highest bits of a global id are the number of the machine.
        machines=len(
            {
                number // 2**48
                for frame in rows.values()
                for column in {"globalTid", "globalPid"} & set(frame.columns)
                for number in frame[column].unique().drop_nulls()
            }
        ),
    )


def read_tables(path: Path, names: Iterable[str]) -> dict[str, pl.DataFrame]:
    """Read some declared tables of an uncompressed database, if it has them.

    Raises:
        BadInput: The file is not a database.
    """
    with open_database(path, 0) as database:
        tables = _table_names(database.connection, path)
        return _read_frames(database, tables.intersection(names), {})


def _read_frames(
    database: Database, names: Collection[str], damaged: dict[str, str]
) -> dict[str, pl.DataFrame]:
    frames = {
        table: _read_frame(database, table, wanted, damaged)
        for table, wanted in COLUMNS.items()
        if table in names
    }
    return {table: frame for table, frame in frames.items() if frame is not None}


def _table_names(connection: sqlite3.Connection, path: Path) -> frozenset[str]:
    try:
        rows = connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage > 0"
        ).fetchall()
    except ERRORS as error:
        raise BadInput.at(
            path,
            f"is not an SQLite database, or is damaged ({reason_text(error)})",
            EXPORT_AGAIN,
        ) from error
    return frozenset(name for (name,) in rows if isinstance(name, str))


def _schema(wanted: Columns) -> dict[str, pl.DataType]:
    return {
        **dict.fromkeys((*wanted.required, *wanted.optional), pl.Int64()),
        **dict.fromkeys(wanted.numbers, pl.Float64()),
        **dict.fromkeys(wanted.texts, pl.String()),
    }


def _read_frame(
    database: Database, table: str, wanted: Columns, damaged: dict[str, str]
) -> pl.DataFrame | None:
    """Return the rows of a table; None if the table lacks a required column."""
    schema = _schema(wanted)
    parts = [pl.DataFrame(schema=schema)]
    connection = database.connection
    try:
        # The name is from `COLUMNS`, not the file. `table_info` omits computed columns.
        stored = connection.execute(f'PRAGMA table_info("{table}")').fetchall()
        present = {row[1] for row in stored}
        if not present.issuperset((*wanted.required, *wanted.numbers)):
            return None
        chosen = {name: dtype for name, dtype in schema.items() if name in present}
        regular = regular_columns(database, table, chosen)
        if regular is not None:
            return as_declared(regular, schema)
        for rows in _read_batches(connection, table, chosen):
            columns = dict(zip(chosen, zip(*rows, strict=True), strict=True))
            parts.append(as_declared(pl.DataFrame(columns, schema=chosen), schema))
    except ERRORS as error:
        damaged[table] = reason_text(error)
    return pl.concat(parts)


def _read_batches(
    connection: sqlite3.Connection, table: str, columns: dict[str, pl.DataType]
) -> Iterator[list[tuple[int | str | None, ...]]]:
    if not columns:
        return
    listed = ", ".join(
        f'CASE WHEN typeof("{name}") IN ({_sql_types(dtype)}) THEN "{name}" END'
        for name, dtype in columns.items()
    )
    # An index may be damaged, or may run expressions of the file's author.
    cursor = connection.execute(f'SELECT {listed} FROM "{table}" NOT INDEXED')  # noqa: S608 - only declared names, none from the file
    # Read at most as many rows as fit the file: a damaged file may repeat pages.
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    (size,) = connection.execute("PRAGMA page_size").fetchone()
    rows_left = int(pages * size // LEAST_ROW_BYTES)
    while True:
        rows: list[tuple[int | str | None, ...]] = []
        try:
            rows.extend(islice(cursor, _MAX_ROWS))
        finally:
            # Rows before the damage are used.
            if rows:
                yield rows
        if not rows:
            return
        rows_left -= len(rows)
        if rows_left < 0:
            raise sqlite3.DataError("it has more rows than fit into the file")


def _sql_types(dtype: pl.DataType) -> str:
    if dtype == pl.String():
        return "'text'"
    return "'integer', 'real'" if dtype == pl.Float64() else "'integer'"


def _read_strings(
    connection: sqlite3.Connection,
    frames: dict[str, pl.DataFrame],
    damaged: dict[str, str],
) -> dict[int, str]:
    """Return only the texts whose ids are in the frames; the table has many more."""
    wanted: set[int] = set()
    threads = {
        number
        for table, frame in frames.items()
        if table != "ThreadNames" and "globalTid" in frame.columns
        for number in frame["globalTid"].unique().to_list()
    }
    for table, frame in frames.items():
        used = frame
        if table == "ThreadNames":
            used = frame.filter(pl.col("globalTid").is_in(list(threads)))
        elif "unresolved" in frame.columns:
            # Leave out the many unresolved symbols, whose texts are only addresses.
            named = (pl.col("unresolved") == 0).fill_null(value=True)
            used = frame.with_columns(pl.when(named).then("symbol").alias("symbol"))
        for column in _NAMES:
            if column in used.columns:
                wanted.update(used[column].drop_nulls().unique().to_list())
    columns = {"id": pl.Int64(), "value": pl.String()}
    strings: dict[int, str] = {}
    try:
        for rows in _read_batches(connection, STRINGS, columns):
            strings.update(
                (number, text)
                for number, text in rows
                if isinstance(number, int)
                and isinstance(text, str)
                and number in wanted
            )
    except ERRORS as error:
        damaged[STRINGS] = reason_text(error)
    return strings
