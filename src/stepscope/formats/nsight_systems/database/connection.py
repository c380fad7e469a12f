"""Open a database for reading alone: nothing is written, and no file is left beside it.

A database is data of others. Only plain tables are read: a view, a generated column or
a virtual table would make SQLite compute what its author wrote.

Definition: docs/formats/nsight_systems.md#how-a-database-is-opened.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

from stepscope.errors import BadInput
from stepscope.trace.reading.texts import shorten_text
from stepscope.xspace.reading.input_file import open_input
from stepscope.xspace.reading.source import open_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from stepscope.array_types import UInt8s

EXPORT_AGAIN: Final = (
    "Copy the whole file again, or write it again from the report with "
    "`nsys export --type sqlite REPORT`."
)
#: What reading a damaged database raises; SQLite quotes its text, which may be none.
ERRORS: Final = (sqlite3.Error, UnicodeError)
#: The least that a row takes: its place, its length, its number and its header.
LEAST_ROW_BYTES: Final = 6
_LONGEST_REASON: Final = 120
_GZIP: Final = b"\x1f\x8b"
_SQLITE: Final = b"SQLite format 3\0"
#: Where the header says how the database is written: 2 for a log beside the file.
_WRITE_VERSION: Final = slice(18, 20)
_WITHOUT_LOG: Final = b"\x01\x01"
#: Files beside a database that hold what is not in it yet.
_UNFINISHED: Final = ("-wal", "-journal")
#: Tables that no other program has; as `formats.sniff` recognises a file.
_HAS_TABLES: Final = (
    "SELECT 1 FROM sqlite_master WHERE type = 'table' AND rootpage > 0 "
    "AND (name = 'StringIds' OR name GLOB 'CUPTI_ACTIVITY_KIND_*') LIMIT 1"
)
#: No text or row of an export is longer; SQLite refuses to read one.
_LONGEST_BYTES: Final = 2**27


class Database(NamedTuple):
    """A database that is open for reading."""

    connection: sqlite3.Connection
    data: UInt8s


@contextmanager
def open_database(path: Path, limit_bytes: int) -> Iterator[Database]:
    """Open a database, packed or not, until the block ends.

    Args:
        path: The file.
        limit_bytes: Largest content of a packed file.

    Raises:
        BadInput: It cannot be opened, or another program has not finished writing it.
    """
    try:
        with open_input(path) as file:
            packed = file.read(len(_GZIP)) == _GZIP
        why = None if packed else still_written(path)
        if why is not None:
            wait = "Wait until the export is finished, or export the report again."
            raise BadInput.at(path, why, wait)
        database = (
            _unpacked_database(path, limit_bytes)
            if packed
            else Database(_connect_read_only(path), open_bytes(path)[0])
        )
    except (OSError, *ERRORS) as error:
        raise BadInput.at(path, f"cannot be opened ({error})", EXPORT_AGAIN) from error
    with closing(database.connection):
        _restrict_connection(database.connection, path)
        yield database


def is_export(path: Path) -> bool:
    """Return whether a file that is not packed is a database of Nsight Systems.

    Of a database of another program its list of tables is read, and nothing more.
    """
    try:
        with open_input(path) as file:
            if file.read(len(_SQLITE)) != _SQLITE:
                return False
        with closing(_connect_read_only(path)) as connection:
            _restrict_connection(connection, path)
            return connection.execute(_HAS_TABLES).fetchone() is not None
    except (OSError, BadInput, *ERRORS):
        return False


def still_written(path: Path) -> str | None:
    """Return by which file beside it a database is not whole; None where it is."""
    for ending in _UNFINISHED:
        beside = path.with_name(path.name + ending)
        if beside.exists() and beside.stat().st_size:
            return (
                f"is still being written, or its writer was stopped: {beside.name} "
                "holds a part of it"
            )
    return None


def reason_text(error: Exception) -> str:
    """Return what an error says, on one line, as it may quote the file."""
    if isinstance(error, UnicodeError):
        return "its description of a table is no text"
    return shorten_text(" ".join(str(error).split()), _LONGEST_REASON)


def _restrict_connection(connection: sqlite3.Connection, path: Path) -> None:
    connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_BYTES)
    try:
        for setting in ("query_only = ON", "trusted_schema = OFF", "mmap_size = 0"):
            connection.execute(f"PRAGMA {setting}")
    except ERRORS as error:
        raise BadInput.at(
            path, f"cannot be opened ({reason_text(error)})", EXPORT_AGAIN
        ) from error


def _connect_read_only(path: Path) -> sqlite3.Connection:
    # Immutable: SQLite neither locks the file nor makes one of its own beside it.
    uri = f"{path.absolute().as_uri()}?mode=ro&immutable=1"
    return sqlite3.connect(uri, uri=True, check_same_thread=False)


def _unpacked_database(path: Path, limit_bytes: int) -> Database:
    """Return a database in memory; what a cut packing lacks, the reading meets."""
    data = open_bytes(path, limit_bytes=limit_bytes)[0]
    content = data.tobytes()
    if content[_WRITE_VERSION] != _WITHOUT_LOG:
        # In memory there is no log to look for.
        end = _WRITE_VERSION.stop
        content = content[: _WRITE_VERSION.start] + _WITHOUT_LOG + content[end:]
    connection = sqlite3.connect(":memory:", check_same_thread=False)
    # SQLite before 3.36 can be built without it.
    if not hasattr(connection, "deserialize"):
        connection.close()
        raise BadInput.at(
            path,
            "is packed, and the SQLite of this Python cannot read from memory",
            "Unpack it with gunzip, and open the result.",
        )
    try:
        connection.deserialize(content)
    except ERRORS:
        connection.close()
        raise
    return Database(connection, data)
