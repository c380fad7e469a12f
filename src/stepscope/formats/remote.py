"""Log directories on remote file systems, listed by fsspec and fetched into a cache.

A file is fetched again when its size or its tag changes; a tag is an ETag, a generation
or the time of the last change. The cache has a maximum size: the least recently used
files are removed first.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec.structs import replace

from stepscope.errors import BadInput
from stepscope.formats.file_systems import file_system
from stepscope.formats.workers import named_after_files, with_worker_runs
from stepscope.rundir import run_of_file, runs_of_listing

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stepscope.rundir import Run

#: Maximum size of the cache, in bytes; a larger file is refused.
MAX_CACHE_BYTES: Final = 16 * 2**30
#: Maximum number of files fetched to detect formats in a directory without runs.
_MAX_LOOSE_FILES: Final = 64

#: Fields of a listing whose values change with the file's content, best field first.
_TAGS: Final = (
    *("ETag", "etag", "generation", "md5Hash", "content_md5", "md5", "checksum"),
    *("LastModified", "last_modified", "mtime", "updated", "modified", "created"),
)
_TIMES: Final = ("LastModified", "last_modified", "mtime", "updated", "created")


class RemoteFile(msgspec.Struct, frozen=True, kw_only=True):
    """One file in the listing of a file system.

    Attributes:
        tag: Changes whenever the content changes, if the file system reports changes.
        unix_s: Time of the last change, in seconds since 1970; 0 if not reported.
    """

    path: str
    size: int
    tag: str
    unix_s: float


class Cache:
    """Cache of fetched files on this machine, with a maximum size in bytes."""

    def __init__(
        self, folder: Path | None = None, *, most_bytes: int = MAX_CACHE_BYTES
    ) -> None:
        home = os.environ.get("STEPSCOPE_CACHE") or Path.home() / ".cache" / "stepscope"
        self._folder = folder or Path(home) / "remote"
        self._max_bytes = most_bytes

    def place(self, url: str, file: RemoteFile) -> Path:
        """Return the cache path of this version of a file, fetched or not.

        Raises:
            BadInput: The file is larger than the whole cache.
        """
        if file.size > self._max_bytes:
            raise BadInput.at(
                f"{url}",
                f"{Path(file.path).name} has {file.size:,} bytes, more than the cache "
                f"holds ({self._max_bytes:,})",
                "Copy the run directory to this machine and open it there.",
            )
        identity = "\0".join((url, file.path, file.tag, str(file.size)))
        digest = hashlib.sha256(identity.encode("utf-8", "surrogateescape")).hexdigest()
        return self._folder / digest[:32] / Path(file.path).name

    def prune_unused(self, keep: Iterable[Path]) -> None:
        """Remove least recently used files until the cache is within its maximum size.

        A process that has a removed file open can still read it.
        """
        kept_folders = {path.parent for path in keep}
        entries = []
        for path in self._folder.glob("*/*"):
            with suppress(OSError):
                status = path.stat()
                entries.append((status.st_mtime, path.parent, status.st_size))
        total = sum(size for _, _, size in entries)
        for _, entry, size in sorted(entries):
            if total <= self._max_bytes:
                return
            if entry not in kept_folders:
                shutil.rmtree(entry, ignore_errors=True)
                total -= size


class RemoteDirectory:
    """A log directory, a run directory or a file that a URL names."""

    def __init__(self, url: str, *, cache: Cache | None = None) -> None:
        """Find the file system of a URL.

        Raises:
            BadInput: A package is missing, or the scheme is unknown.
        """
        self.url = url
        self._cache = cache or Cache()
        self._system, top = file_system(url)
        self._top = top.rstrip("/")
        self._files: dict[Path, RemoteFile] = {}

    def runs(self) -> tuple[Run, ...]:
        """List the current runs, newest first; their paths are relative to the URL.

        Raises:
            BadInput: The URL cannot be listed, or holds no file.
        """
        listed = {
            Path(file.path.removeprefix(self._top).lstrip("/")): file
            for file in self._list_files()
        }
        self._files = listed
        if list(listed) == [Path()]:
            # The URL names one file.
            (file,) = listed.values()
            run = run_of_file(Path(file.path))
            (host,) = run.hosts
            single = replace(host, paths=(Path(),))
            return (replace(run, hosts=(single,), unix_s=file.unix_s),)
        times = {path: file.unix_s for path, file in listed.items()}
        # File names become host names, because file contents are not fetched yet.
        return with_worker_runs(
            runs_of_listing(times, Path(self._top)),
            times,
            Path(),
            top_name=Path(self._top).name,
            changed=times.__getitem__,
            hosts_of=named_after_files,
        )

    def files(self, run: Run) -> tuple[RemoteFile, ...]:
        """Return the files of a run from the last listing.

        Raises:
            FileNotFoundError: A file was missing in the last listing.
        """
        return tuple(self._file_at(path) for host in run.hosts for path in host.paths)

    def fetched(self, run: Run) -> Run:
        """Return the run with its files copied to this machine.

        Raises:
            BadInput: A file cannot be fetched, or changed while it was fetched.
            FileNotFoundError: A file was missing in the last listing.
        """
        hosts = tuple(
            replace(
                host,
                paths=tuple(self._fetch(self._file_at(path)) for path in host.paths),
            )
            for host in run.hosts
        )
        self._cache.prune_unused(path for host in hosts for path in host.paths)
        return replace(run, hosts=hosts, directory=hosts[0].paths[0].parent)

    def loose_files(self) -> tuple[Path, ...]:
        """Fetch the first files directly in the directory, up to `_MAX_LOOSE_FILES`.

        Raises:
            BadInput: A file cannot be fetched.
        """
        own = [
            file for path, file in sorted(self._files.items()) if len(path.parts) == 1
        ]
        fetched = tuple(self._fetch(file) for file in own[:_MAX_LOOSE_FILES])
        self._cache.prune_unused(fetched)
        return fetched

    def _file_at(self, path: Path) -> RemoteFile:
        if path not in self._files:
            raise FileNotFoundError(2, "does not exist any more", f"{self.url}/{path}")
        return self._files[path]

    def _list_files(self) -> list[RemoteFile]:
        self._system.invalidate_cache()
        try:
            files = self._system.find(self._top, detail=True)
        except Exception as error:
            # Packages for file systems raise exceptions of any type.
            raise self._failure("cannot be listed", error) from error
        if not files:
            raise BadInput.at(
                self.url,
                "does not exist, or holds no file",
                "Give the URL of a log directory, a run directory or a trace file.",
            )
        return [
            RemoteFile(
                path=path,
                size=int(about.get("size") or 0),
                tag=next(
                    (
                        f"{attribute}={about[attribute]}"
                        for attribute in _TAGS
                        if about.get(attribute) is not None
                    ),
                    "",
                ),
                unix_s=_changed_unix_s(about),
            )
            for path, about in files.items()
            if Path(path).name not in ("", ".", "..") and "\0" not in path
        ]

    def _fetch(self, file: RemoteFile) -> Path:
        place = self._cache.place(self.url, file)
        if place.exists():
            # Mark the file as recently used, so that the cache keeps it longer.
            with suppress(OSError):
                os.utime(place)
            return place
        place.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=place.parent, prefix=".")
        os.close(handle)
        temporary = Path(name)
        try:
            self._system.get_file(file.path, name)
            self._check_complete(file, temporary.stat().st_size)
            temporary.replace(place)
        except BadInput:
            raise
        except Exception as error:
            # Packages for file systems raise exceptions of any type.
            raise self._failure(f"{place.name} cannot be fetched", error) from error
        finally:
            temporary.unlink(missing_ok=True)
        return place

    def _check_complete(self, file: RemoteFile, size: int) -> None:
        # Some file systems list no sizes.
        if file.size not in (0, size):
            raise BadInput.at(
                self.url,
                f"{Path(file.path).name} changed while it was fetched ({size:,} bytes "
                f"fetched, {file.size:,} bytes listed)",
                "Try again when the file is complete.",
            )

    def _failure(self, problem: str, error: Exception) -> BadInput:
        message = " ".join(str(error).split()) or "no reason given"
        return BadInput.at(
            self.url,
            f"{problem} ({type(error).__name__}: {message})",
            "Check the URL and that this machine has the right to read it.",
        )


def _changed_unix_s(about: dict[str, Any]) -> float:
    for name in _TIMES:
        value = about.get(name)
        if isinstance(value, datetime):
            return value.timestamp()
        if isinstance(value, int | float):
            return float(value)
        if isinstance(value, str):
            with suppress(ValueError):
                return datetime.fromisoformat(value).timestamp()
    return 0.0
