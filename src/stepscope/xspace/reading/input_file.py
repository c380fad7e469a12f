"""Opening of an input path that a user gives: a directory or a regular file."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Final

from stepscope.errors import BadInput
from stepscope.rundir import PROFILE_WANTED

if TYPE_CHECKING:
    from typing import BinaryIO

#: Kinds of paths that are refused, with their names in error messages.
_NO_FILES: Final = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
)
#: Windows has no `O_NONBLOCK`, and changes line ends unless `O_BINARY` is set.
_READING: Final = (
    os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
)


def existing_path(
    given: str | os.PathLike[str], *, way_out: str = PROFILE_WANTED
) -> Path:
    """Return a path given by a user if it is a directory or a regular file.

    Raises:
        BadInput: The path does not exist or cannot be read.
    """
    path = Path(given)
    if not os.fspath(given):
        raise BadInput.at("''", "the path is empty", way_out)
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError, ValueError):
        problem = "is a broken link" if path.is_symlink() else "does not exist"
        raise BadInput.at(given, problem, way_out) from None
    except OSError as error:
        problem = f"cannot be read ({error.strerror})"
        raise BadInput.at(given, problem, way_out) from error
    if not stat.S_ISDIR(mode):
        _refuse_special(path, mode, way_out)
    return path


def open_input(path: Path, *, way_out: str = PROFILE_WANTED) -> BinaryIO:
    """Open a regular file for reading; other kinds could block or have no end.

    Raises:
        BadInput: The path is a directory, a pipe, a socket or a device.
        OSError: The file cannot be opened.
    """
    _refuse_special(path, path.stat().st_mode, way_out)
    # If a pipe has replaced the file, a blocking open would wait for a writer.
    file = os.fdopen(os.open(path, _READING), "rb")
    try:
        _refuse_special(path, os.fstat(file.fileno()).st_mode, way_out)
    except BadInput:
        file.close()
        raise
    return file


def _refuse_special(path: Path, mode: int, way_out: str) -> None:
    if stat.S_ISREG(mode):
        return
    kind = next((kind for is_one, kind in _NO_FILES if is_one(mode)), "a device")
    if kind == "a pipe":
        way_out = "Write its output to a file, and give that file."
    raise BadInput.at(path, f"is {kind}, not a file", way_out)
