"""What a person names as input: a directory or a regular file, never a pipe."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Final

from stepscope.errors import BadInput
from stepscope.rundir import PROFILE_WANTED

if TYPE_CHECKING:
    from typing import BinaryIO

#: What a path may lead to and is not read.
_NO_FILES: Final = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
)
_READING: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK


def existing_path(
    given: str | os.PathLike[str], *, way_out: str = PROFILE_WANTED
) -> Path:
    """Return a path that a person gave, where it leads to a directory or a file.

    Raises:
        BadInput: It leads to nothing, or to what is not read; the message has the way
            out.
    """
    path = Path(given)
    if not os.fspath(given):
        raise BadInput.at("''", "an empty path names nothing", way_out)
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError, ValueError):
        linked = path.is_symlink()
        what = "is a link that leads nowhere" if linked else "does not exist"
        raise BadInput.at(given, what, way_out) from None
    except OSError as error:
        what = f"cannot be read ({error.strerror})"
        raise BadInput.at(given, what, way_out) from error
    if not stat.S_ISDIR(mode):
        _refuse_special(path, mode, way_out)
    return path


def open_input(path: Path, *, way_out: str = PROFILE_WANTED) -> BinaryIO:
    """Open a regular file for reading; all else could block, or have no end.

    Raises:
        BadInput: The path is that of a directory, a pipe, a socket or a device.
        OSError: It cannot be opened.
    """
    _refuse_special(path, path.stat().st_mode, way_out)
    # Had a pipe taken its place meanwhile, opening it would wait for a writer.
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
        way_out = "Write what it gives into a file, and give that file."
    raise BadInput.at(path, f"is {kind}, not a file", way_out)
