"""Nsight Systems databases from literal rows, and their tables on one screen."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

from stepscope.formats import nsight_systems
from stepscope.rundir import run_of_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from stepscope.trace.model import TraceData

Row = dict[str, Any]

MACHINE: Final = 1 << 48
PID: Final = 4242

KERNEL: Final = "CUPTI_ACTIVITY_KIND_KERNEL"
MEMCPY: Final = "CUPTI_ACTIVITY_KIND_MEMCPY"
MEMSET: Final = "CUPTI_ACTIVITY_KIND_MEMSET"
RUNTIME: Final = "CUPTI_ACTIVITY_KIND_RUNTIME"
SYNC: Final = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"
NVTX: Final = "NVTX_EVENTS"
#: Columns whose texts lie in `StringIds`.
_IS_ID: Final = re.compile(r"(?<!metric)Name\Z|Id\Z|\A(?:symbol|module)\Z")


def global_id(process: int = PID, thread: int = 0) -> int:
    """The id that Nsight Systems gives to a thread, or to its process (thread 0)."""
    return MACHINE | process << 24 | thread


def kernel(name: str, start: int, end: int, number: int | None, **more: Any) -> Row:
    row = {
        "start": start,
        "end": end,
        "deviceId": 0,
        "streamId": 7,
        "contextId": 1,
        "correlationId": number,
        "globalPid": global_id(),
        "demangledName": name,
        "shortName": name.partition("(")[0],
        **dict.fromkeys(("gridX", "gridY", "gridZ"), 2),
        "blockX": 128,
        "blockY": 1,
        "blockZ": 1,
        "registersPerThread": 32,
        "staticSharedMemory": 256,
        "dynamicSharedMemory": 1024,
    }
    return {**row, **more}


def copy(kind: int, start: int, end: int, number: int | None, **more: Any) -> Row:
    row = {
        "start": start,
        "end": end,
        "deviceId": 0,
        "streamId": 7,
        "contextId": 1,
        "correlationId": number,
        "globalPid": global_id(),
        "copyKind": kind,
        "bytes": 4096,
        "srcKind": 7,
        "dstKind": 7,
    }
    return {**row, **more}


def call(name: str, start: int, end: int, number: int | None, **more: Any) -> Row:
    row = {
        "start": start,
        "end": end,
        "globalTid": global_id(thread=1),
        "correlationId": number,
        "nameId": name,
        "eventClass": 0,
        "returnValue": 0,
    }
    return {**row, **more}


def span(text: str, start: int, end: int | None, **more: Any) -> Row:
    row = {
        "start": start,
        "end": end,
        "eventType": 59,
        "text": text,
        "textId": None,
        "globalTid": global_id(thread=1),
        "domainId": 0,
    }
    return {**row, **more}


def write(path: Path, tables: Mapping[str, Iterable[Row]], *sql: str) -> Path:
    """Write a database; texts in columns of ids become rows of `StringIds`.

    Args:
        path: Where to.
        tables: Table → its rows, whose first one names the columns.
        sql: What to run afterwards.
    """
    texts: dict[str, int] = {}
    with closing(sqlite3.connect(path)) as base:
        for table, rows in tables.items():
            given = [
                {
                    column: texts.setdefault(value, len(texts) + 1)
                    if isinstance(value, str) and _IS_ID.search(column)
                    else value
                    for column, value in row.items()
                }
                for row in rows
            ]
            columns = ", ".join(f'"{column}"' for column in given[0])
            marks = ", ".join("?" * len(given[0]))
            base.execute(f'CREATE TABLE "{table}" ({columns})')
            fill = f'INSERT INTO "{table}" VALUES ({marks})'  # noqa: S608 - of a test
            base.executemany(fill, [tuple(row.values()) for row in given])
        base.execute("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)")
        base.executemany(
            "INSERT INTO StringIds VALUES (?, ?)",
            [(number, text) for text, number in texts.items()],
        )
        for statement in sql:
            base.execute(statement)
        base.commit()
    return path


def read_file(path: Path) -> TraceData:
    return nsight_systems.read(run_of_file(path).hosts[0])
