"""Open a database read-only: SQLite writes nothing, and creates no file next to it.

A database may come from an untrusted author. Only plain tables are read, because a
view, a generated column or a virtual table would make SQLite run the author's code.

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
#: Errors while reading a damaged database; messages may quote text that is not UTF-8.
ERRORS: Final = (sqlite3.Error, UnicodeError)
#: Minimum size of a row in bytes: cell pointer, length, row id and header.
LEAST_ROW_BYTES: Final = 6
_MAX_REASON_CHARS: Final = 120
_GZIP: Final = b"\x1f\x8b"
_SQLITE: Final = b"SQLite format 3\0"
#: Header bytes with the file format versions; 2 means that there is a write-ahead log.
_WRITE_VERSION: Final = slice(18, 20)
_WITHOUT_LOG: Final = b"\x01\x01"
#: Endings of files next to a database that contain unfinished changes.
_UNFINISHED: Final = ("-wal", "-journal")
#: Query for tables that only Nsight Systems has; `formats.sniff` uses the same names.
_HAS_TABLES: Final = (
    "SELECT 1 FROM sqlite_master WHERE type = 'table' AND rootpage > 0 "
    "AND (name = 'StringIds' OR name GLOB 'CUPTI_ACTIVITY_KIND_*') LIMIT 1"
)
#: Maximum size of a text or row in bytes; SQLite refuses to read larger ones.
_MAX_BYTES: Final = 2**27


class Database(NamedTuple):
    """A database that is open for reading."""

    connection: sqlite3.Connection
    data: UInt8s


@contextmanager
def open_database(path: Path, limit_bytes: int) -> Iterator[Database]:
    """Open a database, plain or gzip; it is closed at the end of the block.

    Args:
        limit_bytes: Maximum size of a decompressed file, in bytes.

    Raises:
        BadInput: The file cannot be opened, or another program is still writing it.
    """
    try:
        with open_input(path) as file:
            packed = file.read(len(_GZIP)) == _GZIP
        problem = None if packed else still_written(path)
        if problem is not None:
            remedy = "Wait until the export is finished, or export the report again."
            raise BadInput.at(path, problem, remedy)
        if packed:
            database = _decompressed_database(path, limit_bytes)
        else:
            data = open_bytes(path)[0]
            database = Database(_connect_read_only(path), data)
    except (OSError, *ERRORS) as error:
        raise BadInput.at(path, f"cannot be opened ({error})", EXPORT_AGAIN) from error
    with closing(database.connection):
        _restrict_connection(database.connection, path)
        yield database


def is_export(path: Path) -> bool:
    """Return whether an uncompressed file is a database of Nsight Systems.

    Only the list of tables is read, because the database may belong to another program.
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
    """Return why a database is incomplete, and which file shows it; else None."""
    for ending in _UNFINISHED:
        unfinished = path.with_name(path.name + ending)
        if unfinished.exists() and unfinished.stat().st_size:
            return (
                f"is still being written, or its writer was stopped: {unfinished.name} "
                "holds a part of the database"
            )
    return None


def reason_text(error: Exception) -> str:
    """Return an error's message on one line; cut it, because it may quote the file."""
    if isinstance(error, UnicodeError):
        return "the description of a table is not text"
    return shorten_text(" ".join(str(error).split()), _MAX_REASON_CHARS)


def _restrict_connection(connection: sqlite3.Connection, path: Path) -> None:
    connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_BYTES)
    try:
        for setting in ("query_only = ON", "trusted_schema = OFF", "mmap_size = 0"):
            connection.execute(f"PRAGMA {setting}")
    except ERRORS as error:
        raise BadInput.at(
            path, f"cannot be opened ({reason_text(error)})", EXPORT_AGAIN
        ) from error


def _connect_read_only(path: Path) -> sqlite3.Connection:
    # With `immutable`, SQLite does not lock the file or create files next to it.
    uri = f"{path.absolute().as_uri()}?mode=ro&immutable=1"
    return sqlite3.connect(uri, uri=True, check_same_thread=False)


def _decompressed_database(path: Path, limit_bytes: int) -> Database:
    """Load a compressed database into memory; a cut file fails later, while reading."""
    data = open_bytes(path, limit_bytes=limit_bytes)[0]
    content = data.tobytes()
    if content[_WRITE_VERSION] != _WITHOUT_LOG:
        # A database in memory has no write-ahead log.
        end = _WRITE_VERSION.stop
        content = content[: _WRITE_VERSION.start] + _WITHOUT_LOG + content[end:]
    connection = sqlite3.connect(":memory:", check_same_thread=False)
    # SQLite before 3.36 may be built without `deserialize`.
    if not hasattr(connection, "deserialize"):
        connection.close()
        raise BadInput.at(
            path,
            "is compressed, and the SQLite of this Python cannot read from memory",
            "Decompress it with gunzip, and open the result.",
        )
    try:
        connection.deserialize(content)
    except ERRORS:
        connection.close()
        raise
    return Database(connection, data)
