"""Sources of runs: a local directory or the directory of a URL."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, Protocol

import msgspec

from stepscope.errors import BadInput
from stepscope.formats.file_systems import is_url
from stepscope.formats.opening import find_runs, loose_runs
from stepscope.formats.remote import RemoteDirectory
from stepscope.rundir import LIMIT_BYTES, Run, shown_name
from stepscope.xspace.reading.input_file import existing_path

#: Seconds between listings of a local log directory.
_LOCAL_S: Final = 1.0
_RESULTS: Final = "contains results of another program, but no trace"
#: Seconds between listings of a remote log directory; such listings need requests.
_REMOTE_S: Final = 30.0


class Stamp(msgspec.Struct, frozen=True, kw_only=True):
    """Identifies a version of a run's files.

    Attributes:
        files: Path, size in bytes and a tag of the content, of each file.
        changed_unix_s: Last change of the newest file, in seconds since 1970.
    """

    files: tuple[tuple[str, int, str], ...]
    changed_unix_s: float

    @property
    def size_bytes(self) -> int:
        """Return the size of all files together, in bytes."""
        return sum(size for _, size, _ in self.files)


class ListedRuns(msgspec.Struct, frozen=True, kw_only=True):
    """The runs of a log directory, newest first; refused runs, with the reasons."""

    runs: tuple[Run, ...]
    refused: tuple[tuple[str, str], ...]


class Source(Protocol):
    """A place with runs: a directory or a URL.

    Attributes:
        name: Name of the place, as it is shown.
        interval_s: Seconds for which a listing of the place stays valid.
        written_in_place: Whether a file is visible before it is complete.
    """

    name: str
    interval_s: float
    written_in_place: bool

    def list_runs(self) -> ListedRuns:
        """List the runs; raises `BadInput` if listing fails."""

    def stamp_run(self, run: Run) -> Stamp:
        """Return the version of a run's files; raises `OSError` if one is missing."""

    def local_run(self, run: Run) -> Run:
        """Return the run as local files that may be read."""


def open_source(logdir: str) -> Source:
    """Return the source for a path or URL.

    Raises:
        BadInput: The path does not exist, or no file system supports the URL.
    """
    if is_url(logdir) and not Path(logdir).exists():
        return RemoteSource(logdir)
    wanted = "Give a log directory; it may be empty."
    return LocalSource(existing_path(logdir, way_out=wanted))


class LocalSource:
    """A log directory, a run directory or a file of this machine.

    Links to files outside of the directory are not followed, to keep such files
    private.
    """

    interval_s = _LOCAL_S
    written_in_place = True

    def __init__(self, path: Path) -> None:
        self.name = shown_name(path)
        self._path = path
        real = path.resolve()
        self._root = real if real.is_dir() else real.parent

    def list_runs(self) -> ListedRuns:
        """List the runs; raises `BadInput` if listing fails."""
        runs: list[Run] = []
        scan = find_runs(self._path)
        refused = [(shown_name(path.name), reason) for path, reason in scan.refused]
        refused += [(shown_name(path.name), _RESULTS) for path in scan.results_only]
        for run in scan.runs:
            reason = self._why_not(run)
            if reason is None:
                runs.append(run)
            else:
                refused.append((run.name, reason))
        return ListedRuns(runs=tuple(runs), refused=tuple(refused))

    def stamp_run(self, run: Run) -> Stamp:
        """Return size, time of the last change and inode number of each file."""
        return _local_stamp(run)

    def local_run(self, run: Run) -> Run:
        """Return the run, marked to be copied into memory because its files may change.

        A compressed file may decompress to at most half of this machine's memory.
        """
        reason = self._why_not(run)
        if reason is not None:
            raise BadInput.at(run.name, reason, "Copy the run into the log directory.")
        limit = min(LIMIT_BYTES, _memory_bytes() // 2)
        hosts = tuple(
            msgspec.structs.replace(host, mapped=False, limit_bytes=limit)
            for host in run.hosts
        )
        return msgspec.structs.replace(run, hosts=hosts)

    def _why_not(self, run: Run) -> str | None:
        for host in run.hosts:
            for path in host.paths:
                real = path.resolve()
                if not real.is_relative_to(self._root):
                    return "a link leads out of the log directory"
                # Only files are read: reading a pipe could block forever.
                if real.exists() and not real.is_file():
                    return f"{shown_name(path.name)} is not a regular file"
        return None


class RemoteSource:
    """The log directory at a URL; its files are fetched on demand."""

    interval_s = _REMOTE_S
    written_in_place = False

    def __init__(self, url: str) -> None:
        self.name = url
        self._remote = RemoteDirectory(url)
        self._is_loose = False

    def list_runs(self) -> ListedRuns:
        """List the runs; raises `BadInput` if listing fails."""
        runs = self._remote.runs()
        loose = () if runs else loose_runs(self._remote)
        self._is_loose = bool(loose)
        return ListedRuns(runs=runs or loose, refused=())

    def stamp_run(self, run: Run) -> Stamp:
        """Return size and tag of each file, as its file system last reported them."""
        if self._is_loose:
            return _local_stamp(run)
        files = self._remote.files(run)
        return Stamp(
            files=tuple((file.path, file.size, file.tag) for file in files),
            changed_unix_s=max(file.unix_s for file in files),
        )

    def local_run(self, run: Run) -> Run:
        """Return the run in this machine's cache, after fetching the missing files."""
        return run if self._is_loose else self._remote.fetched(run)


def _local_stamp(run: Run) -> Stamp:
    files = []
    newest = 0.0
    for host in run.hosts:
        for path in host.paths:
            status = path.stat()
            newest = max(newest, status.st_mtime)
            tag = f"{status.st_mtime_ns} {status.st_ino}"
            files.append((str(path), status.st_size, tag))
    return Stamp(files=tuple(files), changed_unix_s=newest)


def _memory_bytes() -> int:
    if not hasattr(os, "sysconf"):
        return 2 * LIMIT_BYTES
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
