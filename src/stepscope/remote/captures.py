"""Recordings of this process that clients of its server request.

A request must never harm the program. The request is checked before a recording starts,
only one recording runs at a time, and a recording ends when its client disconnects.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import sys
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from stepscope.capture.base.annotate import StepsBegun
from stepscope.capture.base.main_thread import MAIN_THREAD_S, at_safe_point
from stepscope.capture.base.options import TRACER_LEVELS, ProfilerOptions
from stepscope.capture.base.process_end import process_end
from stepscope.capture.recording.session import Session, current_session
from stepscope.capture.temporary import make_folder
from stepscope.errors import AlreadyRecording, StepscopeError
from stepscope.remote.addresses import file_name_of
from stepscope.remote.continuous import (
    MAX_GROWTH_BYTES,
    Client,
    Continuous,
    memory_bytes,
)
from stepscope.remote.destinations import Allowance, NotStored, client_destination
from stepscope.remote.messages import (
    MAX_MS,
    MonitorResponse,
    ProfileResponse,
    ProfileToolData,
)
from stepscope.remote.transport import Refusal, RefusedCapture
from stepscope.rundir import TRACE_SUFFIX

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from stepscope.capture.flight.recorder import FlightRecorder
    from stepscope.remote.messages import (
        GetSnapshotRequest,
        MonitorRequest,
        ProfileOptions,
        ProfileRequest,
        StopContinuousProfilingRequest,
        TerminateRequest,
    )

_MS_PER_S: Final = 1000
_NS_PER_S: Final = 1_000_000_000
#: Maximum delay of a recording's start, in seconds.
_MAX_DELAY_S: Final = 60.0
#: Maximum number of recordings that wait for their start; each occupies a thread.
_MAX_WAITING: Final = 4
#: Maximum bytes of a recording in one gRPC message.
_MAX_MESSAGE_BYTES: Final = 2**31 - 2**20
#: Maximum number of files, and maximum bytes of files, written for all clients.
_MAX_FILES: Final = 100
_MAX_FILE_BYTES: Final = 16 * 2**30
#: Maximum seconds that an ending program waits for its last answers to clients.
_LAST_ANSWERS_S: Final = 1.0
#: Seconds that gRPC needs to send an answer.
_SENDS_S: Final = 0.1
_PROGRAM_ENDED: Final = "the program ended while it was recorded"
_SERVER_STOPPED: Final = "the program stopped its server while it was recorded"
#: Seconds between two checks whether a recording must end.
_CHECK_PERIOD_S: Final = 0.25
#: Maximum seconds to wait for the main thread if another thread can make the call.
_PREFERRED_S: Final = 0.2
_XPLANE: Final = "xplane.pb"


class Captures:
    """The recordings of this process that clients request.

    Args:
        logdir: Directory for files that clients request; None to write no files.
    """

    def __init__(self, logdir: Path | None) -> None:
        self.logdir = logdir
        #: Event that ends a recording, in progress or waiting to start → session id.
        self._ends: dict[threading.Event, str] = {}
        self._waiting = threading.BoundedSemaphore(_MAX_WAITING)
        self._lock = threading.Lock()
        #: Reason for ending all recordings early; empty until then.
        self._why_over = ""
        self.continuous = Continuous(self._begin_recording)
        self._max_growth_bytes = MAX_GROWTH_BYTES
        self.allowance = Allowance(_MAX_FILES, _MAX_FILE_BYTES)
        self.most_bytes = _MAX_MESSAGE_BYTES

    def profile(
        self, request: ProfileRequest, gone: threading.Event
    ) -> ProfileResponse:
        """Record like `record`; return the recording in one message or write a file."""
        content = self.record(request, gone)
        if not content:
            return ProfileResponse(empty_trace=True)
        if not request.emit_xspace and self._store_file(request, content):
            return ProfileResponse()
        self._check_size(content)
        if request.emit_xspace:
            return ProfileResponse(xspace=content)
        return ProfileResponse(tool_data=(ProfileToolData(name=_XPLANE, data=content),))

    def record(self, request: ProfileRequest, gone: threading.Event) -> bytes:
        """Record for the requested time; return b"" if the client has disconnected.

        Args:
            gone: Set when the client has disconnected.

        Raises:
            RefusedCapture: The request is invalid, or another recording is running.
        """
        duration_ms, options = check_request(request)
        if not duration_ms:
            return b""
        name = request.session_id or request.opts.session_id or secrets.token_hex(4)
        over = threading.Event()
        with self._lock:
            self._ends[over] = name
        try:
            self._await_start(request.opts.start_timestamp_ns, over, gone)
            if gone.is_set() or over.is_set():
                return b""
            self._check_not_over()
            recording = self._begin_recording(options)
            steps = request.opts.steps
            with StepsBegun(steps, over) if steps else contextlib.nullcontext():
                _wait_for_end(
                    duration_ms / _MS_PER_S,
                    over,
                    gone,
                    is_full=lambda: recording.is_full(self._max_growth_bytes),
                )
            if self._why_over == _SERVER_STOPPED or gone.is_set():
                recording.drop_recording()
            self._check_not_over()
            content = b"" if gone.is_set() else recording.end_recording()
            if recording.left.is_set():
                # The program ended while this thread was reading the recorded events.
                raise RefusedCapture(Refusal.ABORTED, _PROGRAM_ENDED)
        finally:
            with self._lock:
                del self._ends[over]
        return content

    def terminate_session(self, request: TerminateRequest) -> None:
        """End a recording now; its client receives the events so far."""
        with self._lock:
            for over, name in self._ends.items():
                if name == request.session_id:
                    over.set()

    def end_everything(self) -> None:
        """End all recordings, because the server stops."""
        self._why_over = _SERVER_STOPPED
        with self._lock:
            for over in self._ends:
                over.set()
        self.continuous.end_recording()

    def report_program_end(self) -> None:
        """End all recordings, and report to their clients that the program ends."""
        self._why_over = _PROGRAM_ENDED
        with self._lock:
            overs = list(self._ends)
        for over in overs:
            over.set()
        # `wait` on an event that is never set: programs may replace `time.sleep`.
        never_set = threading.Event()
        until = time.monotonic() + _LAST_ANSWERS_S
        while self._ends and time.monotonic() < until:
            never_set.wait(_SENDS_S / 10)
        if overs:
            never_set.wait(_SENDS_S)
        # A program that handles SIGTERM itself may continue.
        self._why_over = ""

    def start_continuous(self, request: ProfileRequest, peer: str) -> None:
        """Record until `stop_continuous` or the end of the client's lease."""
        owner = Client(peer, request.opts.session_id)
        self.continuous.start_recording(_profiler_options(request.opts), owner)

    def take_snapshot(self, request: GetSnapshotRequest, peer: str) -> ProfileResponse:
        """Return the events recorded since the start or the last snapshot.

        Without a continuous recording, the events of the program's flight recorder are
        written to a file and returned, if the program has a flight recorder.

        Raises:
            RefusedCapture: No continuous recording is running, or the recording belongs
                to another client or is too large for a message.
        """
        client = Client(peer, request.snapshot_session_id)
        content = self.continuous.take_snapshot(client)
        if content is None:
            content = self._kept_by_flight_recorder()
        self._check_size(content)
        return ProfileResponse(xspace=content, empty_trace=not content)

    def stop_continuous(
        self, request: StopContinuousProfilingRequest, peer: str
    ) -> None:
        """End the recording of `start_continuous`, and discard its events."""
        self.continuous.stop_recording(Client(peer, request.session_id))

    def describe_program(self, request: MonitorRequest, peer: str) -> MonitorResponse:
        """Return the program's state as text, below the server's time if requested."""
        self.continuous.renew_lease(peer)
        lines = [str(time.time_ns())] if request.timestamp else []
        program = sys.argv[0] or sys.executable
        state = "not recording" if current_session() is None else "recording"
        lines.append(f"process {os.getpid()}, {program}: {state}")
        flight = _flight_recorder()
        from stepscope.capture.flight.nvml import Nvml  # noqa: PLC0415 - needed only on request

        lines += () if flight is None else flight.steps_heard()
        resident_bytes = memory_bytes("VmRSS")
        if resident_bytes:
            lines.append(f"resident memory {resident_bytes:,} bytes")
        lines += [
            f"{device.name}: busy for {device.busy:.0%} of the driver's last period, "
            f"{device.used_bytes:,} of {device.total_bytes:,} bytes in use"
            for device in Nvml().device_uses()
        ]
        return MonitorResponse(data="\n".join(lines))

    def _await_start(
        self, start_ns: int, over: threading.Event, gone: threading.Event
    ) -> None:
        """Wait until the start time, if any; other recordings may run meanwhile."""
        delay_s = (start_ns - time.time_ns()) / _NS_PER_S if start_ns else 0.0
        if delay_s > _MAX_DELAY_S:
            raise RefusedCapture(
                Refusal.INVALID_ARGUMENT,
                f"start_timestamp_ns is {delay_s:.0f} s ahead of this host's clock; "
                f"give at most {_MAX_DELAY_S:g} s, or compare the clocks.",
            )
        if delay_s <= 0:
            return
        if not self._waiting.acquire(blocking=False):
            raise RefusedCapture(
                Refusal.RESOURCE_EXHAUSTED,
                f"{_MAX_WAITING} recordings are already waiting for their start; try "
                "again later.",
            )
        try:
            _wait_for_end(delay_s, over, gone)
        finally:
            self._waiting.release()

    def _begin_recording(self, options: ProfilerOptions) -> _Recording:
        return _Recording.begin_recording(options, self.report_program_end)

    def _check_not_over(self) -> None:
        if self._why_over:
            raise RefusedCapture(Refusal.ABORTED, self._why_over)

    def _check_size(self, content: bytes) -> None:
        if len(content) > self.most_bytes:
            raise RefusedCapture(
                Refusal.RESOURCE_EXHAUSTED,
                f"the recording has {len(content):,} bytes, and one message holds at "
                f"most {self.most_bytes:,}; record for a shorter time.",
            )

    def _kept_by_flight_recorder(self) -> bytes:
        flight = _flight_recorder()
        if flight is not None and not self.allowance.take_file(0):
            raise RefusedCapture(
                Refusal.RESOURCE_EXHAUSTED,
                "clients have reached the limit of files that this program writes for "
                "them; receive recordings instead (stepscope capture ADDRESS …).",
            )
        path = None if flight is None else flight.dump().path
        if path is None:
            reason = self.continuous.why_ended or "nothing is being recorded"
            raise RefusedCapture(
                Refusal.NOT_FOUND,
                f"{reason}, and the program has no flight recorder; call "
                "StartContinuousProfiling first.",
            )
        content = path.read_bytes()
        self.allowance.charge_bytes(len(content))
        return content

    def _store_file(self, request: ProfileRequest, content: bytes) -> bool:
        """Write this host's file if the client may; return whether it was written."""
        session = request.session_id or request.opts.session_id
        root = request.repository_root
        place = client_destination(self.logdir, root, session, self.allowance)
        if place is None:
            return False
        host = request.opts.override_hostname or request.host_name
        try:
            name = f"{file_name_of(host) or 'localhost'}{TRACE_SUFFIX}"
            place.store_file(name, (content,))
        except NotStored:
            return False
        return True


@dataclass
class _Recording:
    """A recording of this process into memory.

    Attributes:
        left: Set when the program ended and the recording was discarded.
    """

    _session: Session
    options: ProfilerOptions
    left: threading.Event
    _began_bytes: int

    @classmethod
    def begin_recording(
        cls, options: ProfilerOptions, tell_end: Callable[[], None]
    ) -> _Recording:
        begun: list[Session] = []
        refused: list[StepscopeError] = []
        began_bytes = memory_bytes("RssAnon")
        # A framework may need a folder for its files; the client receives bytes.
        logdir = make_folder("capture")

        left = threading.Event()

        def leave() -> None:
            # A client's recording must not delay the end of the program.
            left.set()
            session = current_session()
            tell_end()
            if session is not None and process_end.may_go_on:
                session.drop()
            elif session is not None:
                session.drop_at_exit()
            _remove_folder(logdir)

        def start_session() -> None:
            try:
                begun.append(Session.start(logdir, options, end=leave))
            except StepscopeError as error:
                refused.append(error)

        if not _on_the_main_thread(start_session):
            _remove_folder(logdir)
            raise RefusedCapture(
                Refusal.UNAVAILABLE,
                "the main thread did not return to Python in time, and PyTorch's "
                "profiler must be started there; try again.",
            )
        if refused:
            _remove_folder(logdir)
            busy = isinstance(refused[0], AlreadyRecording)
            refusal = Refusal.ALREADY_EXISTS if busy else Refusal.INVALID_ARGUMENT
            raise RefusedCapture(refusal, str(refused[0]))
        if not begun:
            # A signal handler of the program raised an exception, which is passed on.
            _remove_folder(logdir)
            raise RefusedCapture(
                Refusal.ABORTED,
                "a signal interrupted the start of the recording; try again.",
            )
        return cls(begun[0], options, left, began_bytes)

    def is_full(self, max_growth_bytes: int) -> bool:
        """Return whether the process's memory grew too much, and warn if so."""
        grown_bytes = memory_bytes("RssAnon") - self._began_bytes
        if grown_bytes <= max_growth_bytes:
            return False
        self._session.tell(
            f"the recording ended early: the process had grown by {grown_bytes:,} "
            f"bytes, and the limit for a client's recording is {max_growth_bytes:,} "
            "bytes; record for a shorter time, or record less"
        )
        return True

    def drop_recording(self) -> None:
        self._halt_session()
        self._session.drop()
        _remove_folder(self._session.logdir)

    def end_recording(self) -> bytes:
        """Stop the recording and return its bytes.

        Only PyTorch's profiler must be stopped by the main thread. The calling thread
        does all other work, so that the program continues.
        """
        self._halt_session()
        content = self._session.stop(save=False).xspace()
        _remove_folder(self._session.logdir)
        return content

    def _halt_session(self) -> None:
        if "torch" in sys.modules:
            at_safe_point(self._session.halt, within_s=MAIN_THREAD_S)


def _on_the_main_thread(call: Callable[[], None]) -> bool:
    """Call in the main thread; if that fails and PyTorch is absent, in this thread."""
    needs_main = "torch" in sys.modules
    within_s = MAIN_THREAD_S if needs_main else _PREFERRED_S
    was_called = at_safe_point(call, within_s=within_s)
    if not was_called and not needs_main:
        call()
    return was_called or not needs_main


def _flight_recorder() -> FlightRecorder | None:
    module: Any = sys.modules.get("stepscope.capture.flight.recorder")
    return None if module is None else module.current_recorder()


def _remove_folder(directory: Any) -> None:
    import shutil  # noqa: PLC0415 - needed only here, and slow to import

    shutil.rmtree(directory, ignore_errors=True)


def check_request(request: ProfileRequest) -> tuple[int, ProfilerOptions]:
    """Return the duration of a requested recording, in ms, and its options."""
    duration_ms = request.duration_ms or request.opts.duration_ms
    if not 0 <= duration_ms <= MAX_MS:
        raise RefusedCapture(
            Refusal.INVALID_ARGUMENT,
            f"duration_ms={duration_ms} is too long; give at most {MAX_MS}.",
        )
    return duration_ms, _profiler_options(request.opts)


def _profiler_options(options: ProfileOptions) -> ProfilerOptions:
    if not options.version:
        return ProfilerOptions(tensorflow_server=False)
    levels = {name: getattr(options, name) for name in TRACER_LEVELS}
    for name, level in levels.items():
        if level > TRACER_LEVELS[name]:
            raise RefusedCapture(
                Refusal.INVALID_ARGUMENT,
                f"{name}={level} does not exist; give 0 to {TRACER_LEVELS[name]}.",
            )
    # TensorFlow's own server has no access control: any client could use it.
    return ProfilerOptions(**levels, tensorflow_server=False)


def _wait_for_end(
    seconds: float,
    over: threading.Event,
    gone: threading.Event,
    *,
    is_full: Callable[[], bool] = lambda: False,
) -> None:
    """Wait until time is up, `over` or `gone` is set, or the recording is full."""
    until = time.monotonic() + seconds
    while not gone.is_set() and not is_full():
        left = until - time.monotonic()
        if left <= 0 or over.wait(min(left, _CHECK_PERIOD_S)):
            return
