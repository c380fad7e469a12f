"""Where answers go: a file that is not overwritten unasked, or standard output."""

from __future__ import annotations

import os
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from stepscope.errors import BadUsage

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["check_free", "deliver", "opened_output"]


def check_free(output: str | None, *, force: bool) -> None:
    """Refuse, before any work is done, an output that could not be written later.

    Raises:
        BadUsage: The file exists and may not be overwritten, or its folder does not
            exist.
    """
    if output is None:
        return
    path = Path(output)
    if _is_special(path):
        return
    if path.is_dir():
        message = f"{path}: is a directory. Name a file in it"
        raise BadUsage(message)
    if path.exists() and not force:
        message = f"{path}: exists already. Add --force to overwrite it"
        raise BadUsage(message)
    if not path.parent.is_dir():
        message = f"{path.parent}: there is no such directory. Make it first"
        raise BadUsage(message)


def deliver(answer: str | bytes, output: str | None) -> None:
    """Write an answer whole: into a new file that is then renamed, or to stdout."""
    with opened_output(output) as file:
        file.write(answer.encode() if isinstance(answer, str) else answer)


@contextmanager
def opened_output(output: str | None) -> Iterator[BinaryIO]:
    """Open a file for an answer in pieces; the file appears when it is complete."""
    if output is None:
        sys.stdout.flush()
        yield sys.stdout.buffer
        return
    path = Path(output)
    if _is_special(path):
        with path.open("wb") as file:
            yield file
        return
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        Path(temporary).chmod(0o666 & ~_umask())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _is_special(path: Path) -> bool:
    """Return whether the path is a terminal, a pipe or the like, not to be replaced."""
    return path.exists() and not path.is_dir() and not path.is_file()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
