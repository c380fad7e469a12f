"""Where a process's file goes, and how it gets there: whole or not at all.

While a recording is under way a thread stores what was recorded, a few times a second.
"""

from __future__ import annotations

import os
import platform
import shutil
import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from stepscope import rundir
from stepscope.capture.ground.spool import Spool
from stepscope.units import bytes_text
from stepscope.xspace.merging.merge import whole_length

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from stepscope.capture.collectors.contract import Streaming
    from stepscope.capture.ground.spool import Fragment

#: With less free space than this a recording is likely to be refused by the disk.
_LITTLE_BYTES: Final = 64 * 2**20
#: So often another process may take the name that we are about to take.
_ATTEMPTS: Final = 100


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where the file of one process will be.

    Attributes:
        host: What the file is named after.
        warnings: What is doubtful about it.
    """

    directory: Path
    host: str
    warnings: tuple[str, ...] = ()

    @property
    def path(self) -> Path:
        """The file."""
        return self.directory / f"{self.host}{rundir.TRACE_SUFFIX}"

    @property
    def spool(self) -> Path:
        """The file while it is being recorded."""
        return self.directory / f"{self.host}{rundir.SPOOL_SUFFIX}"


def claim_place(directory: Path, *, head: bytes, max_bytes: int) -> tuple[Place, Spool]:
    """Make the directory of a run and take a name in it that no other process has.

    Where that cannot be done, the recording stays in memory, which is a warning.
    """
    host = rundir.host_file_name(platform.node(), os.environ, ())
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for _ in range(_ATTEMPTS):
            taken = {
                entry.name.removesuffix(suffix)
                for entry in directory.iterdir()
                for suffix in (rundir.SPOOL_SUFFIX, rundir.TRACE_SUFFIX)
                if entry.name.endswith(suffix)
            }
            host = rundir.host_file_name(platform.node(), os.environ, taken)
            place = Place(directory=directory, host=host)
            try:
                spool = Spool(place.spool, head=head, max_bytes=max_bytes)
            except FileExistsError:
                continue
            warnings = []
            if spool.refused is not None:
                warnings.append(_refusal_text(directory, spool.refused.strerror))
            free = shutil.disk_usage(directory).free
            if free < _LITTLE_BYTES:
                warnings.append(
                    f"only {bytes_text(free)} are free in {directory}: the recording "
                    "may not fit"
                )
            return replace(place, warnings=tuple(warnings)), spool
        reason = "other processes take every name"
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
    """Write the file: under another name first, on the disk, then in its place.

    Raises:
        OSError: It could not be written; no file is left.
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
    """Return the hosts that have a file in a run's directory."""
    try:
        return tuple(host.host for host in rundir.traces_in(directory))
    except OSError:
        return ()


#: A kill loses what was recorded since the last flush: at most this many seconds.
FLUSH_S: Final = 0.2


class Flusher:
    """Takes fragments from collectors and appends them to a spool."""

    def __init__(
        self,
        collectors: Sequence[Streaming],
        spool: Spool,
        *,
        ended: Callable[[], bool] | None = None,
        end: Callable[[], object] | None = None,
    ) -> None:
        """Begin nothing yet.

        Args:
            ended: Asked at every flush, whether recording is over for another reason.
            end: Called once, from this thread, when it is.
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
        """Start it; RuntimeError where the interpreter gives no more threads."""
        self._thread.start()

    def flush_collectors(self) -> None:
        """Store what there is now."""
        with self._lock:
            for collector in self._collectors:
                try:
                    self.store_fragment(collector.take_fragment())
                except Exception as error:  # noqa: BLE001 - a collector's edge
                    name = type(collector).__name__
                    self.failures.setdefault(name, f"{type(error).__name__}: {error}")

    def store_fragment(self, fragment: Fragment) -> None:
        """Append a fragment to the spool.

        Raises:
            ValueError: It is no message; after it nothing could be read.
        """
        if whole_length(fragment.xspace) != len(fragment.xspace):
            raise ValueError("the fragment is malformed")
        self._spool.append_fragment(fragment)

    def stop_thread(self) -> None:
        """End the thread; what was recorded since its last flush is not stored."""
        self._stop.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()

    def _flush_until_stopped(self) -> None:
        while not self._stop.wait(FLUSH_S):
            self.flush_collectors()
            if self._ended is not None and self._end is not None and self._ended():
                self._end()
                return
