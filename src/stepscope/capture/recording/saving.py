"""The file of a process: its name, and how it is written atomically.

During a recording a thread stores new events a few times per second.
"""

from __future__ import annotations

import os
import platform
import shutil
import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from stepscope import rundir
from stepscope.capture.base.spool import Spool
from stepscope.units import bytes_text
from stepscope.xspace.merging.merge import complete_length

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from stepscope.capture.base.spool import Fragment
    from stepscope.capture.collectors.contract import Streaming

#: Free disk space, in bytes, below which a recording probably does not fit.
_MIN_FREE_BYTES: Final = 64 * 2**20
#: Maximum number of names to try, because other processes may take a name first.
_MAX_ATTEMPTS: Final = 100


@dataclass(frozen=True, kw_only=True)
class Place:
    """Directory and name of the file of one process.

    Attributes:
        host: Name of the file without its suffix.
        warnings: Problems with the directory, as sentences.
    """

    directory: Path
    host: str
    warnings: tuple[str, ...] = ()

    @property
    def path(self) -> Path:
        """Path of the finished file."""
        return self.directory / f"{self.host}{rundir.TRACE_SUFFIX}"

    @property
    def spool(self) -> Path:
        """Path of the file during the recording."""
        return self.directory / f"{self.host}{rundir.SPOOL_SUFFIX}"


def claim_place(directory: Path, *, head: bytes, max_bytes: int) -> tuple[Place, Spool]:
    """Create a run's directory and reserve a file name that no other process uses.

    If that fails, the recording is kept in memory and the result has a warning.
    """
    host = rundir.host_file_name(platform.node(), os.environ, ())
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for _ in range(_MAX_ATTEMPTS):
            used_names = {
                entry.name.removesuffix(suffix)
                for entry in directory.iterdir()
                for suffix in (rundir.SPOOL_SUFFIX, rundir.TRACE_SUFFIX)
                if entry.name.endswith(suffix)
            }
            host = rundir.host_file_name(platform.node(), os.environ, used_names)
            place = Place(directory=directory, host=host)
            try:
                spool = Spool(place.spool, head=head, max_bytes=max_bytes)
            except FileExistsError:
                continue
            warnings = []
            if spool.refused is not None:
                warnings.append(_refusal_text(directory, spool.refused.strerror))
            free = shutil.disk_usage(directory).free
            if free < _MIN_FREE_BYTES:
                warnings.append(
                    f"only {bytes_text(free)} are free in {directory}: the recording "
                    "may not fit"
                )
            return replace(place, warnings=tuple(warnings)), spool
        reason = "other processes took every name"
    except OSError as error:
        reason = error.strerror or str(error)
    place = Place(
        directory=directory, host=host, warnings=(_refusal_text(directory, reason),)
    )
    return place, Spool(None, head=head, max_bytes=max_bytes)


def _refusal_text(directory: Path, reason: str | None) -> str:
    return (
        f"nothing can be written to {directory} ({reason}): the recording is kept in "
        "memory, and is lost if the program is killed"
    )


def save_file(place: Place, content: bytes) -> Path:
    """Write a file atomically: write and sync a temporary file, then rename it.

    Raises:
        OSError: The file could not be written; no file is left behind.
    """
    place.directory.mkdir(parents=True, exist_ok=True)
    unfinished = place.directory / f".{place.path.name}.{os.getpid()}.unfinished"
    try:
        with unfinished.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(place.path)
    finally:
        unfinished.unlink(missing_ok=True)
    return place.path


def hosts_in_run(directory: Path) -> tuple[str, ...]:
    """Return the hosts that have a file in the directory of a run."""
    try:
        return tuple(host.host for host in rundir.traces_in(directory))
    except OSError:
        return ()


#: Seconds between two flushes; a killed program loses at most its events since then.
FLUSH_S: Final = 0.2


class Flusher:
    """Thread that appends fragments from collectors to a spool."""

    def __init__(
        self,
        collectors: Sequence[Streaming],
        spool: Spool,
        *,
        ended: Callable[[], bool] | None = None,
        end: Callable[[], object] | None = None,
    ) -> None:
        """Prepare the thread without starting it.

        Args:
            ended: Called at every flush; returns whether the recording is over.
            end: Called once, in this thread, when `ended` returns true.
        """
        self.failures: dict[str, str] = {}
        self._collectors = tuple(collectors)
        self._spool = spool
        self._ended = ended
        self._end = end
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(
            target=self._flush_until_stopped, name="stepscope-flush", daemon=True
        )

    def start_thread(self) -> None:
        """Start the thread; raise RuntimeError if no thread can be started."""
        self._thread.start()

    def flush_collectors(self) -> None:
        """Store the events of all collectors now."""
        with self._lock:
            for collector in self._collectors:
                try:
                    self.store_fragment(collector.take_fragment())
                except Exception as error:  # noqa: BLE001 - any collector may fail
                    name = type(collector).__name__
                    self.failures.setdefault(name, f"{type(error).__name__}: {error}")

    def store_fragment(self, fragment: Fragment) -> None:
        """Append a fragment to the spool.

        Raises:
            ValueError: The fragment is malformed, so later ones would be unreadable.
        """
        if complete_length(fragment.xspace) != len(fragment.xspace):
            raise ValueError("the fragment is malformed")
        self._spool.append_fragment(fragment)

    def stop_thread(self) -> None:
        """Stop the thread without storing the events since its last flush."""
        self._stop.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()

    def _flush_until_stopped(self) -> None:
        while not self._stop.wait(FLUSH_S):
            self.flush_collectors()
            if self._ended is not None and self._end is not None and self._ended():
                self._end()
                return
