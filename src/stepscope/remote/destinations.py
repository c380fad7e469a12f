"""Storage of a run that was received over gRPC: a directory or an object store.

A run that cannot be stored is kept in a temporary directory of this machine. The module
also decides where a server may write files for its clients, for all methods.
"""

from __future__ import annotations

import mmap
import os
import re
import secrets
import shutil
import tempfile
import threading
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from stepscope.capture.temporary import make_folder
from stepscope.errors import BadUsage
from stepscope.formats.file_systems import file_system, is_url
from stepscope.rundir import run_directory

if TYPE_CHECKING:
    import io
    from collections.abc import Callable, Iterable, Iterator

#: Valid session ids: each is the name of one folder that is not hidden.
_SESSION: Final = re.compile(r"[A-Za-z0-9_:-][A-Za-z0-9_.:-]*")


class NotStored(Exception):
    """A file could not be stored; the text names where it is kept instead."""


class Destination:
    """The directory of one run; several threads may store files at the same time."""

    def __init__(
        self,
        place: Path | str,
        run: str,
        *,
        make_folder: Callable[[], Path],
        deliver: Callable[[Path, str], object],
        keeps: bool = True,
    ) -> None:
        """Prepare to write files without creating any.

        Args:
            place: The directory: a path on this machine, or a URL.
            make_folder: Creates and returns the folder that receives a file.
            deliver: Moves or copies a complete file to its place, under the given name.
            keeps: Whether to keep undelivered files in a temporary directory.
        """
        self.place = place
        self.run = run
        self._make_folder = make_folder
        self._deliver = deliver
        self._keeps = keeps
        self._local_folder: Path | None = None
        #: Allows one thread at a time to create and remove folders.
        self._making = threading.RLock()

    @classmethod
    def local_folder(cls, directory: Path) -> Destination:
        """Return the destination for a directory on this machine."""

        def make_directory() -> Path:
            directory.mkdir(parents=True, exist_ok=True)
            return directory

        return cls(
            directory,
            directory.name,
            make_folder=make_directory,
            deliver=lambda part, name: part.replace(directory / name),
        )

    def store_file(
        self,
        name: str,
        pieces: Iterable[bytes | memoryview],
        *,
        check: Callable[[memoryview], None] = lambda _: None,
        tail: bytes = b"",
    ) -> int:
        """Write a file of the run atomically; return its size without the tail.

        Each piece is written before the next one is requested, so only one is kept.

        Args:
            pieces: Content of the file; if the iteration raises, nothing is stored.
            check: Raises if the content must not be stored.
            tail: Bytes to write after the content, unless the content is empty.

        Raises:
            NotStored: The file cannot be written.
        """
        folders = [self._make_folder, *([self._kept_folder] if self._keeps else [])]
        part = _Part(name, folders, self._making)
        try:
            for piece in pieces:
                part.write_piece(piece)
            size = part.size
            if size:
                part.check_content(check)
                part.write_piece(tail)
                self._deliver_part(part, name)
        except OSError as error:
            nor = f"the profile cannot be kept on this machine either ({error})."
            fate = nor if self._keeps else "the profile is not kept."
            raise NotStored(self._refusal_text(part.refused or error, fate)) from error
        finally:
            part.remove_file()
        return size

    def _deliver_part(self, part: _Part, name: str) -> None:
        reason = part.refused
        if reason is None:
            try:
                self._deliver(part.path, name)
            except Exception as error:  # noqa: BLE001 - object stores raise various errors
                reason = error
        if reason is None:
            return
        if not self._keeps:
            raise NotStored(self._refusal_text(reason, "the profile is not kept."))
        part.refused = reason
        path = self._kept_folder() / name
        shutil.move(part.path, path)
        fate = f"the profile is kept in {path}: copy it from there."
        raise NotStored(self._refusal_text(reason, fate))

    def _refusal_text(self, reason: Exception, what_became: str) -> str:
        text = " ".join(str(reason).split()) or "no reason given"
        return (
            f"the profile cannot be written to {self.place} "
            f"({type(reason).__name__}: {text}); {what_became}"
        )

    def _kept_folder(self) -> Path:
        with self._making:
            if self._local_folder is None:
                self._local_folder = (
                    Path(tempfile.mkdtemp(prefix="stepscope-")) / self.run
                )
            self._local_folder.mkdir(exist_ok=True)
        return self._local_folder


class _Part:
    """A file that is being received, in the first folder with enough space.

    Attributes:
        refused: Error of the first folder; None if that folder is used.
    """

    path: Path

    def __init__(
        self, name: str, make_folders: list[Callable[[], Path]], lock: threading.RLock
    ) -> None:
        self.size = 0
        self.refused: Exception | None = None
        self._name = f".{name}.{secrets.token_hex(4)}"
        self._make_folders = make_folders
        self._making = lock
        self._file: io.FileIO | None = None

    def write_piece(self, piece: bytes | memoryview) -> None:
        """Write a piece; after an error, move the file to the next folder, if any."""
        if not piece:
            return
        try:
            file = self._file or self._open_file()
            left = memoryview(piece)
            while left:
                left = left[file.write(left) :]
            self.size += len(piece)
        except OSError as error:
            del self._make_folders[0]
            if not self._make_folders:
                raise
            self.refused = self.refused or error
            self._close_file()
            self.write_piece(piece)

    def check_content(self, check: Callable[[memoryview], None]) -> None:
        with self.path.open("rb") as file:
            # The memory map is not closed here: an error's traceback may refer to it.
            content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        check(memoryview(content))

    def remove_file(self) -> None:
        """Remove the file if it still exists, and its folder if that is empty."""
        self._close_file()
        if hasattr(self, "path"):
            with self._making, suppress(OSError):
                self.path.unlink(missing_ok=True)
                self.path.parent.rmdir()

    def _open_file(self) -> io.FileIO:
        before = self.path if self.size else None
        with self._making:
            path = self._make_folders[0]() / self._name
            file = path.open("wb", buffering=0)
        self._file = file
        if before is not None:
            # A full disk may have stored part of the last piece, which is cut off.
            with before.open("rb") as written:
                shutil.copyfileobj(written, file)
            file.truncate(self.size)
            file.seek(self.size)
            before.unlink(missing_ok=True)
        self.path = path
        return file

    def _close_file(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def run_destination(logdir: str | os.PathLike[str], run: str) -> Destination:
    """Return the destination of a run below a log directory or a URL.

    Raises:
        BadInput: The URL's file system is unknown, or a package for it is missing.
        BadUsage: The URL is a file system inside another (`::`).
    """
    text = os.fspath(logdir)
    if not is_url(text) or Path(text).exists():
        return Destination.local_folder(run_directory(Path(text).absolute(), run))
    if "::" in text:
        raise BadUsage(
            f"logdir={text} is a file system inside another: it can only be read; "
            "give s3://bucket/logs, gs://bucket/logs or a directory."
        )
    system, top = file_system(text)
    below = run_directory(Path(), run).as_posix()
    folder = PurePosixPath(top) / below
    return Destination(
        f"{text.rstrip('/')}/{below}",
        run,
        # The folder is private, because other users must not read the recording.
        make_folder=lambda: Path(make_folder("upload")),
        deliver=lambda part, name: _upload_file(system, part, folder / name),
    )


class Allowance:
    """Number of files and bytes that the program may still write for clients."""

    def __init__(self, max_files: int, max_bytes: int) -> None:
        self._files = max_files
        self._bytes = max_bytes
        self._lock = threading.Lock()

    def take_file(self, size: int) -> bool:
        """Count one more file and return true if its size is allowed."""
        with self._lock:
            if self._files < 1 or self._bytes < size:
                return False
            self._files -= 1
            self._bytes -= size
            return True

    def charge_bytes(self, size: int) -> None:
        """Count the bytes of a file that was written before its size was known."""
        with self._lock:
            self._bytes -= size


def client_destination(
    logdir: Path | None, root: str, session: str, allowance: Allowance
) -> Destination | None:
    """Return the destination of a client's recording; None if it is not allowed.

    Args:
        logdir: Directory for files that clients request; None to write no files.
        root: `repository_root` that the client sent: an absolute path.
        allowance: Number of files and bytes that may still be written.
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
        # The path is a loop of links, too long, or has a zero byte.
        return None

    def make_client_folder() -> Path:
        with _without_path():
            folder.mkdir(parents=True, exist_ok=True)
        # A symbolic link created since the check could lead out of the directory.
        if folder.resolve() != folder:
            raise OSError("the folder was replaced by a link")
        return folder

    def deliver(part: Path, name: str) -> None:
        if not allowance.take_file(part.stat().st_size):
            raise OSError("clients have reached their limit of files or bytes")
        with _without_path():
            part.replace(folder / name)

    return Destination(
        "the program's log directory",
        session,
        make_folder=make_client_folder,
        deliver=deliver,
        keeps=False,
    )


@contextmanager
def _without_path() -> Iterator[None]:
    """Remove paths of this machine from an error that a client receives."""
    try:
        yield
    except OSError as error:
        raise OSError(error.strerror or str(error)) from None


def _upload_file(system: Any, part: Path, path: PurePosixPath) -> None:
    """Copy a file through fsspec; object stores show only complete files."""
    try:
        try:
            system.put_file(str(part), str(path))
        except FileNotFoundError:
            # The bucket or, unlike in object stores, the folder does not exist.
            _make_folders(system, path.parent)
            system.put_file(str(part), str(path))
    except BaseException:
        # Remove the partial file, which file systems other than object stores may show.
        with suppress(Exception):
            system.rm_file(str(path))
        raise


def _make_folders(system: Any, folder: PurePosixPath) -> None:
    """Create a folder and its parents, except the top folder, which is a bucket."""
    above = [parent for parent in folder.parents if parent.name]
    for path in [*reversed(above[:-1]), folder]:
        if not system.exists(str(path)):
            with suppress(FileExistsError):
                system.mkdir(str(path), create_parents=False)
