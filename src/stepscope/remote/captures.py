"""What a server does when it is asked: record this process for a while, and hand it on.

Nothing that a client asks for may harm the program: a request is checked before
anything begins, one recording is made at a time, and one whose client is gone ends.
"""

from __future__ import annotations

import contextlib
import enum
import os
import re
import secrets
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from stepscope.capture.ground.annotate import add_listener, remove_listener
from stepscope.capture.ground.main_thread import MAIN_THREAD_S, at_safe_point
from stepscope.capture.ground.options import ProfilerOptions
from stepscope.capture.ground.steps_begun import StepsBegun
from stepscope.capture.recording.session import Session
from stepscope.capture.temporary import make_folder
from stepscope.errors import AlreadyRecording, StepscopeError
from stepscope.remote.addresses import file_name_of
from stepscope.remote.messages import (
    MOST_MS,
    MonitorResponse,
    ProfileResponse,
    ProfileToolData,
)
from stepscope.rundir import TRACE_SUFFIX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from stepscope.remote.messages import (
        MonitorRequest,
        ProfileOptions,
        ProfileRequest,
    )

__all__ = ["Captures", "Refusal", "RefusedCapture"]

_MS_PER_S: Final = 1000
_NS_PER_S: Final = 1_000_000_000
#: How far in the future a recording may begin.
_FURTHEST_S: Final = 60.0
#: A message over gRPC cannot hold more.
_MOST_BYTES: Final = 2**31 - 2**20
#: Between two looks whether the program has ended.
_LOOK_S: Final = 0.25
#: How long to wait for the main thread where another one will do as well.
_PREFERRED_S: Final = 0.2
_LEVELS: Final = {
    "host_tracer_level": 3,
    "device_tracer_level": 1,
    "python_tracer_level": 1,
}
_XPLANE: Final = "xplane.pb"


class Refusal(enum.Enum):
    """Why a request gets no answer; the names are those of gRPC's status codes."""

    ALREADY_EXISTS = "ALREADY_EXISTS"
    FAILED_PRECONDITION = "FAILED_PRECONDITION"
    INVALID_ARGUMENT = "INVALID_ARGUMENT"
    NOT_FOUND = "NOT_FOUND"
    RESOURCE_EXHAUSTED = "RESOURCE_EXHAUSTED"
    UNAVAILABLE = "UNAVAILABLE"


class RefusedCapture(StepscopeError):
    """A request that gets no answer, and why."""

    def __init__(self, why: Refusal, text: str) -> None:
        """Refuse, with a line that says why and what to do."""
        super().__init__(text)
        self.why = why


class Captures:
    """The recordings that clients ask this process for.

    Args:
        logdir: Where clients may have files written; None means below any log
            directory that exists, if `is_local`, and else nowhere.
        is_local: Whether only this machine can ask.
    """

    def __init__(self, logdir: Path | None, *, is_local: bool) -> None:
        self._logdir = logdir
        self._is_local = is_local
        self._ends: dict[str, threading.Event] = {}
        self._lock = threading.Lock()
        self._continuous: _Recording | None = None
        self.most_bytes = _MOST_BYTES

    def profile(
        self, request: ProfileRequest, gone: threading.Event
    ) -> ProfileResponse:
        """Record for the time that is asked for.

        Args:
            request: What is to be recorded, and where to.
            gone: Is set when the client does not wait any more.

        Raises:
            RefusedCapture: The request makes no sense, or something records already.
        """
        duration_ms = request.duration_ms or request.opts.duration_ms
        if not 0 <= duration_ms <= MOST_MS:
            raise RefusedCapture(
                Refusal.INVALID_ARGUMENT,
                f"duration_ms={duration_ms} is too long; give at most {MOST_MS}.",
            )
        if not duration_ms:
            return ProfileResponse(empty_trace=True)
        options = _options(request.opts)
        name = request.session_id or request.opts.session_id or secrets.token_hex(4)
        over = threading.Event()
        with self._lock:
            if name in self._ends:
                raise RefusedCapture(
                    Refusal.ALREADY_EXISTS, f"session {name} is being recorded already."
                )
            self._ends[name] = over
        try:
            _wait(_delay_s(request.opts.start_timestamp_ns), over, gone)
            if gone.is_set():
                return ProfileResponse(empty_trace=True)
            recording = _Recording.begin(options)
            with _ended_after(request.opts.steps, over):
                _wait(duration_ms / _MS_PER_S, over, gone)
            content = recording.end()
        finally:
            with self._lock:
                self._ends.pop(name, None)
        return self._delivered(request, content)

    def terminate(self, session: str) -> None:
        """End a recording now; its client gets what was recorded until then."""
        with self._lock:
            over = self._ends.get(session)
        if over is not None:
            over.set()

    def end_all(self) -> None:
        """End whatever is being recorded."""
        with self._lock:
            for over in self._ends.values():
                over.set()
            continuous, self._continuous = self._continuous, None
        if continuous is not None:
            continuous.end()

    def start_continuous(self, request: ProfileRequest) -> None:
        """Begin to record until `stop_continuous`.

        Raises:
            RefusedCapture: Something records already.
        """
        recording = _Recording.begin(_options(request.opts))
        with self._lock:
            self._continuous = recording

    def snapshot(self) -> ProfileResponse:
        """Hand over what was recorded since the start or the last snapshot.

        Where no recording can follow, what was recorded is handed over all the same,
        and the next snapshot is refused. Without a continuous recording the program's
        flight recorder, where it has one, writes what it keeps, and that is handed
        over.

        Raises:
            RefusedCapture: Nothing is being recorded continuously.
        """
        with self._lock:
            recording, self._continuous = self._continuous, None
        if recording is None:
            return _kept_by_flight_recorder()
        content = recording.end()
        with contextlib.suppress(RefusedCapture):
            again = _Recording.begin(recording.options)
            with self._lock:
                self._continuous = again
        return ProfileResponse(xspace=content, empty_trace=not content)

    def stop_continuous(self) -> None:
        """End the recording that `start_continuous` began, and drop it."""
        with self._lock:
            recording, self._continuous = self._continuous, None
        if recording is not None:
            recording.end()

    def monitor(self, request: MonitorRequest) -> MonitorResponse:
        """Say in words how the program is, after the server's clock if asked."""
        lines = [str(time.time_ns())] if request.timestamp else []
        program = sys.argv[0] or sys.executable
        state = "recording" if self._ends or self._continuous else "not recording"
        lines.append(f"process {os.getpid()}, {program}: {state}")
        lines += [*_steps(), *_memory(), *_devices()]
        return MonitorResponse(data="\n".join(lines))

    def _delivered(self, request: ProfileRequest, content: bytes) -> ProfileResponse:
        if not content:
            return ProfileResponse(empty_trace=True)
        if not request.emit_xspace:
            directory = self._directory(request)
            if directory is not None and _written(directory, request, content):
                return ProfileResponse()
        if len(content) > self.most_bytes:
            raise RefusedCapture(
                Refusal.RESOURCE_EXHAUSTED,
                f"the recording has {len(content):,} bytes, and one message holds at "
                f"most {self.most_bytes:,}; record for a shorter time.",
            )
        if request.emit_xspace:
            return ProfileResponse(xspace=content)
        return ProfileResponse(tool_data=(ProfileToolData(name=_XPLANE, data=content),))

    def _directory(self, request: ProfileRequest) -> Path | None:
        """Return where the client's files may be written here; None for nowhere."""
        root = Path(request.repository_root)
        session = request.session_id or request.opts.session_id
        if not request.repository_root or not root.is_absolute() or not session:
            return None
        if ".." in root.parts or session != re.sub(r"[^\w.:-]", "_", session):
            return None
        if session.startswith("."):
            return None
        if self._logdir is not None:
            below = root.resolve().is_relative_to(self._logdir.resolve())
        else:
            # `repository_root` is `<log directory>/plugins/profile`.
            below = self._is_local and any(
                it.is_dir() for it in (root, *root.parents[:2])
            )
        return root / session if below else None


class _Recording:
    """A recording of this process into memory."""

    def __init__(self, session: Session, options: ProfilerOptions) -> None:
        self._session = session
        self.options = options

    @classmethod
    def begin(cls, options: ProfilerOptions) -> _Recording:
        begun: list[Session] = []
        refused: list[StepscopeError] = []
        # A framework may store into files meanwhile; the client gets the whole.
        logdir = make_folder("capture")

        def begin() -> None:
            try:
                begun.append(Session.start(logdir, options))
            except StepscopeError as error:
                refused.append(error)

        if not _on_the_main_thread(begin):
            _remove(logdir)
            raise RefusedCapture(
                Refusal.UNAVAILABLE,
                "the main thread did not come back to Python, where PyTorch's profiler "
                "has to be started; try again.",
            )
        if refused:
            _remove(logdir)
            busy = isinstance(refused[0], AlreadyRecording)
            why = Refusal.ALREADY_EXISTS if busy else Refusal.INVALID_ARGUMENT
            raise RefusedCapture(why, str(refused[0]))
        if not begun:
            _remove(logdir)
            raise RefusedCapture(
                Refusal.UNAVAILABLE,
                "a signal interrupted the program while the recording began; try "
                "again.",
            )
        return cls(begun[0], options)

    def end(self) -> bytes:
        """Return what was recorded."""

        def end() -> None:
            self._session.stop(save=False)

        if not _on_the_main_thread(end):
            end()
        _remove(self._session.logdir)
        # The same run, also where a signal has interrupted the main thread.
        return self._session.stop(save=False).xspace()


def _on_the_main_thread(call: Callable[[], None]) -> bool:
    """Make a call on the main thread; elsewhere where PyTorch is not at work."""
    only_there = "torch" in sys.modules
    within_s = MAIN_THREAD_S if only_there else _PREFERRED_S
    made = at_safe_point(call, within_s=within_s)
    if not made and not only_there:
        call()
    return made or not only_there


def _remove(directory: Any) -> None:
    import shutil  # noqa: PLC0415 - only here, and slow to import

    shutil.rmtree(directory, ignore_errors=True)


def _options(asked: ProfileOptions) -> ProfilerOptions:
    """Return options as asked for; our defaults where no options were sent."""
    if not asked.version:
        return ProfilerOptions()
    for name, most in _LEVELS.items():
        level = getattr(asked, name)
        if level > most:
            raise RefusedCapture(
                Refusal.INVALID_ARGUMENT,
                f"{name}={level} does not exist; give 0 to {most}.",
            )
    return ProfilerOptions(**{name: getattr(asked, name) for name in _LEVELS})


def _delay_s(start_ns: int) -> float:
    """Return how long it is until a time of the clock."""
    if not start_ns:
        return 0.0
    delay = (start_ns - time.time_ns()) / _NS_PER_S
    if delay > _FURTHEST_S:
        raise RefusedCapture(
            Refusal.INVALID_ARGUMENT,
            f"start_timestamp_ns is {delay:.0f} s ahead of this host's clock; give at "
            f"most {_FURTHEST_S:g} s, or compare the clocks.",
        )
    return max(delay, 0.0)


def _wait(seconds: float, over: threading.Event, gone: threading.Event) -> None:
    """Wait until the time is over, somebody ends it, or nobody waits for it."""
    until = time.monotonic() + seconds
    while not gone.is_set():
        left = until - time.monotonic()
        if left <= 0 or over.wait(min(left, _LOOK_S)):
            return


@contextlib.contextmanager
def _ended_after(steps: int, over: threading.Event) -> Iterator[None]:
    """Set the event when so many steps have passed; 0 steps are not counted."""
    if not steps:
        yield
        return
    heard = StepsBegun(steps, over)
    add_listener(heard.begins)
    try:
        yield
    finally:
        remove_listener(heard.begins)


def _written(directory: Path, request: ProfileRequest, content: bytes) -> bool:
    """Write the file of a host; whether that could be done."""
    host = request.opts.override_hostname or request.host_name
    name = file_name_of(host) or "localhost"
    path = directory / f"{name}{TRACE_SUFFIX}"
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        directory.mkdir(parents=True, exist_ok=True)
        part.write_bytes(content)
        part.replace(path)
    except OSError:
        part.unlink(missing_ok=True)
        return False
    return True


def _kept_by_flight_recorder() -> ProfileResponse:
    flight = sys.modules.get("stepscope.capture.flight.recorder")
    path = None if flight is None else flight.dumped()
    if path is None:
        raise RefusedCapture(
            Refusal.NOT_FOUND,
            "nothing is being recorded, and the program keeps no flight recorder; call "
            "StartContinuousProfiling first.",
        )
    return ProfileResponse(xspace=Path(path).read_bytes())


def _steps() -> tuple[str, ...]:
    """Return what the flight recorder has heard of steps, where the program has one."""
    flight = sys.modules.get("stepscope.capture.flight.recorder")
    return () if flight is None else flight.steps_heard()


def _devices() -> list[str]:
    """Return how busy NVIDIA's devices are, as their driver says."""
    from stepscope.capture.flight.nvml import Nvml  # noqa: PLC0415 - only when asked

    return [
        f"{it.name}: busy for {it.busy:.0%} of the driver's last period, "
        f"{it.used_bytes:,} of {it.total_bytes:,} bytes in use"
        for it in Nvml().devices()
    ]


def _memory() -> list[str]:
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return []
    found = re.search(r"VmRSS:\s*(\d+) kB", status)
    return [f"resident memory {int(found[1]) * 1024:,} bytes"] if found else []
