"""Recordings of running programs that the page starts, and their progress.

Only programs whose addresses were given at the start of the server are recorded. One
recording runs at a time and is written into the log directory of the server.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from stepscope.errors import StepscopeError
from stepscope.serve.errors import Refused

if TYPE_CHECKING:
    from stepscope.remote.outcome import HostOutcome, Outcome
    from stepscope.reporting.plain import Plain

_LOG: Final = logging.getLogger(__name__)
#: Maximum duration of a recording, which is held in memory: an hour is too long.
_MAX_MS: Final = 600_000
#: Maximum delay of the start; programs refuse to wait more than a minute.
_LATEST_MS: Final = 60_000
_MAX_ATTEMPTS: Final = 10
_MS_PER_S: Final = 1000
#: Fields of a host's outcome that the page shows.
_SHOWN: Final = ("address", "state", "text", "bytes", "attempts", "seconds")

_Level = Annotated[int, msgspec.Meta(ge=0, le=1)]


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters of a recording; names and defaults match `stepscope capture`."""

    addresses: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    duration_ms: Annotated[int, msgspec.Meta(ge=1, le=_MAX_MS)] = 2000
    delay_ms: Annotated[int, msgspec.Meta(ge=0, le=_LATEST_MS)] = 0
    attempts: Annotated[int, msgspec.Meta(ge=1, le=_MAX_ATTEMPTS)] = 3
    host_tracer_level: Annotated[int, msgspec.Meta(ge=0, le=3)] = 2
    device_tracer_level: _Level = 1
    python_tracer_level: _Level = 0


#: Function that records, and reports each program's outcome as it arrives. An outcome
#: without a recording is not an error; the page shows its reason.
Recorder = Callable[[Settings, Callable[["HostOutcome"], None]], "Outcome"]


class _Job:
    def __init__(self, wanted: Settings) -> None:
        self.wanted = wanted
        self.begun_s = time.monotonic()
        self.hosts: list[HostOutcome] = []
        self.run: str | None = None
        self.problem: str | None = None
        self.is_over = False


class Capturing:
    """Recordings that the page requests.

    `landed` is called after a recording has been written.
    """

    def __init__(
        self, addresses: tuple[str, ...], record: Recorder, landed: Callable[[], object]
    ) -> None:
        self.addresses = addresses
        self._record = record
        self._landed = landed
        self._lock = threading.Lock()
        self._job: _Job | None = None

    def begin_recording(self, wanted: Settings) -> None:
        """Start recording in the background.

        Raises:
            Refused: An address is not allowed, or a recording is in progress.
        """
        for address in wanted.addresses:
            if address not in self.addresses:
                raise Refused(
                    403,
                    "refused",
                    f"{address!r} is not an address that this server may record. "
                    f"Start the server with --capture {address}",
                )
        with self._lock:
            if self._job is not None and not self._job.is_over:
                raise Refused(
                    409,
                    "recording",
                    "a recording is in progress. Try again after its end",
                )
            job = self._job = _Job(wanted)
        threading.Thread(
            target=self._record_job,
            args=(job,),
            name="stepscope-capturing",
            daemon=True,
        ).start()

    def _record_job(self, job: _Job) -> None:
        try:
            outcome = self._record(job.wanted, job.hosts.append)
            job.run = outcome.run if outcome.hosts else None
        except (StepscopeError, OSError) as error:
            job.problem = str(error)
        except Exception:  # noqa: BLE001 - a thread: the page must show the error
            _LOG.exception("a recording failed")
            job.problem = "this is a defect of stepscope; see the server's log"
        finally:
            self._landed()
            job.is_over = True

    def progress_record(self) -> Plain:
        """Return the addresses that may be recorded, and the recording's progress."""
        job = self._job
        return {
            "addresses": list(self.addresses),
            "job": None
            if job is None
            else {
                "state": "over" if job.is_over else "recording",
                "addresses": list(job.wanted.addresses),
                "duration_ms": job.wanted.duration_ms,
                "delay_ms": job.wanted.delay_ms,
                "elapsed_ms": int((time.monotonic() - job.begun_s) * _MS_PER_S),
                "hosts": [
                    {name: getattr(host, name) for name in _SHOWN} for host in job.hosts
                ],
                "run": job.run,
                "problem": job.problem,
            },
        }
