"""Where a run that came over the wire is stored: a directory, or an object store.

What cannot be stored there is kept in a temporary directory of this machine. Where a
client of a server may have files written is decided here for every method.
"""

from __future__ import annotations

import os
import re
import secrets
import tempfile
import threading
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from stepscope.errors import BadUsage
from stepscope.formats.file_systems import file_system, is_url
from stepscope.rundir import run_directory

if TYPE_CHECKING:
    from collections.abc import Callable

    Pieces = tuple[bytes | memoryview, ...]

#: What a client may call a run: one part of a path, not hidden.
_SESSION: Final = re.compile(r"[A-Za-z0-9_:-][A-Za-z0-9_.:-]*")


class NotStored(Exception):
    """A file was not written where it belongs; the text says where it is instead."""


class Destination:
    """The directory of one run; threads may store files in it at the same time.

    Attributes:
        place: The directory: a path of this machine, or a URL.
        run: Name of the run.
    """

    def __init__(
        self,
        place: Path | str,
        run: str,
        write: Callable[[str, Pieces], None],
        *,
        keeps: bool = True,
    ) -> None:
        """Hold a way to write files; nothing is made or written yet.

        Args:
            place: The directory: a path of this machine, or a URL.
            run: Name of the run.
            write: Writes a file of that name.
            keeps: What cannot be written is kept in a temporary directory.
        """
        self.place = place
        self.run = run
        self._write = write
        self._keeps = keeps
        self._kept: Path | None = None
        self._keeping = threading.Lock()

    @classmethod
    def folder(cls, directory: Path) -> Destination:
        """Return a directory of this machine."""
        return cls(
            directory,
            directory.name,
            lambda name, pieces: _write_file(directory / name, pieces),
        )

    def store(self, name: str, *pieces: bytes | memoryview) -> None:
        """Write a file of the run, one piece after the other: whole or not at all.

        Raises:
            NotStored: It cannot be written.
        """
        try:
            self._write(name, pieces)
        except Exception as error:
            # Packages of object stores raise what they like.
            text = " ".join(str(error).split()) or "no reason given"
            reason = f"{type(error).__name__}: {text}"
            raise NotStored(
                f"its profile cannot be written to {self.place} ({reason}); "
                f"{self._keep(name, pieces)}"
            ) from error

    def _keep(self, name: str, pieces: Pieces) -> str:
        """Write a file into a temporary directory; return what became of it."""
        if not self._keeps:
            return "it is not kept."
        try:
            with self._keeping:
                if self._kept is None:
                    self._kept = Path(tempfile.mkdtemp(prefix="stepscope-")) / self.run
            _write_file(self._kept / name, pieces)
        except OSError as error:
            return f"nor can it be kept on this machine ({error})."
        return f"it is kept in {self._kept / name}: copy it from there."


def run_destination(logdir: str | os.PathLike[str], run: str) -> Destination:
    """Return where a run of a log directory, or of one that a URL names, is stored.

    Raises:
        BadInput: The URL's file system is unknown, or a package for it is missing.
        BadUsage: The URL is one of a file system within another.
    """
    text = os.fspath(logdir)
    if not is_url(text) or Path(text).exists():
        return Destination.folder(run_directory(Path(text).absolute(), run))
    if "::" in text:
        raise BadUsage(
            f"logdir={text} names one file system within another, which are only "
            "read; give s3://bucket/logs, gs://bucket/logs or a directory."
        )
    system, top = file_system(text)
    below = run_directory(Path(), run).as_posix()
    folder = PurePosixPath(top) / below

    def write(name: str, pieces: Pieces) -> None:
        _write_object(system, folder / name, b"".join(pieces))

    return Destination(f"{text.rstrip('/')}/{below}", run, write)


class Allowance:
    """What clients may still have written on the disk of the program."""

    def __init__(self, max_files: int, max_bytes: int) -> None:
        self._files = max_files
        self._bytes = max_bytes
        self._lock = threading.Lock()

    def take(self, size: int) -> bool:
        """Return whether one more file of this size may be written, and count it."""
        with self._lock:
            if self._files < 1 or self._bytes < size:
                return False
            self._files -= 1
            self._bytes -= size
            return True

    def charge(self, size: int) -> None:
        """Count the bytes of a file whose size was not known before."""
        with self._lock:
            self._bytes -= size


def landing(
    logdir: Path | None, root: str, session: str, allowance: Allowance
) -> Destination | None:
    """Return where the files of a client's recording are stored; None for nowhere.

    Args:
        logdir: Below it clients may have files written; None means nowhere.
        root: The `repository_root` that a client sent: an absolute path.
        session: The name of the run that a client sent.
        allowance: What clients may still have written.
    """
    path = Path(root)
    if logdir is None or not path.is_absolute() or ".." in path.parts:
        return None
    if not _SESSION.fullmatch(session):
        return None
    try:
        folder = (path / session).resolve()
        if logdir.resolve() not in folder.parents:
            return None
    except (OSError, RuntimeError, ValueError):
        # A loop of links, a name that is too long, or one with a zero byte.
        return None

    def write(name: str, pieces: Pieces) -> None:
        if not allowance.take(sum(map(len, pieces))):
            raise OSError("clients had this program write as much as they may")
        try:
            _write_within(folder, name, pieces)
        except OSError as error:
            # A client hears the reason, and no path of this machine.
            raise OSError(error.strerror or str(error)) from None

    return Destination("the program's log directory", session, write, keeps=False)


def _write_within(folder: Path, name: str, pieces: Pieces) -> None:
    """Write a file into a folder that no link leads away from."""
    folder.mkdir(parents=True, exist_ok=True)
    if folder.resolve() != folder:
        raise OSError("it leads elsewhere now")
    _write_file(folder / name, pieces)


def _write_file(path: Path, pieces: Pieces) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with part.open("wb") as file:
            file.writelines(pieces)
        part.replace(path)
    except OSError:
        part.unlink(missing_ok=True)
        raise


def _write_object(system: Any, path: PurePosixPath, content: bytes) -> None:
    """Write a file through fsspec; object stores show it when it is whole."""
    try:
        try:
            system.pipe_file(str(path), content)
        except FileNotFoundError:
            # Not an object store, which has no folders, or there is no such bucket.
            _make_folders(system, path.parent)
            system.pipe_file(str(path), content)
    except BaseException:
        # Elsewhere, the beginning of a file may stand.
        with suppress(Exception):
            system.rm_file(str(path))
        raise


def _make_folders(system: Any, folder: PurePosixPath) -> None:
    """Make a folder and those above it; never the first, which would be a bucket."""
    above = [one for one in folder.parents if one.name]
    for one in [*reversed(above[:-1]), folder]:
        if not system.exists(str(one)):
            with suppress(FileExistsError):
                system.mkdir(str(one), create_parents=False)
