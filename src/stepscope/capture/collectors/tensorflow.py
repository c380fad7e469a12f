"""What TensorFlow's own profiler records: host ops, input pipelines, devices.

TensorFlow is driven through its profiler session inside the process, which exports into
a folder in memory. Its version 2.21 drops the tracer levels given there, so other
levels than its usual ones are asked of TensorFlow's own server over the loopback
interface. That server listens on all interfaces and cannot be stopped: it is started
only where the program asks for other levels, never for a client, and never where the
environment says ``STEPSCOPE_TF_SERVER=0``. One asynchronous `Profile` call with a long
duration records there; `Terminate` ends it and the pending call returns what was
recorded, in memory.

Definition: docs/capture.md#how-the-recorders-are-driven.
"""

from __future__ import annotations

import os
import shutil
import socket
import sys
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

from stepscope.capture.collectors.contract import Collected
from stepscope.capture.collectors.giving_way import (
    Entrance,
    FrameworkRecording,
    GivesWay,
)
from stepscope.capture.collectors.left_over import OpenRecordings
from stepscope.capture.collectors.levels import (
    TracerLevels,
    level_warnings,
    levels_in_force,
)
from stepscope.capture.ground import annotate
from stepscope.capture.grpc_import import ForkedSince, import_grpc
from stepscope.capture.temporary import make_folder
from stepscope.unavailable import Unavailable
from stepscope.xspace.wire import MalformedMessage, fields_of
from stepscope.xspace.writing.encode import number_field, sized_field

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from stepscope.capture.ground.clock import ClockPair
    from stepscope.capture.ground.options import ProfilerOptions

_SERVICE: Final = "/tensorflow.ProfilerService/"
#: How long a recording lasts that nobody ends.
_LONGEST_MS: Final = 3_600_000
#: A call that cannot record fails within this time.
_SETTLE_S: Final = 0.05
_CONNECT_S: Final = 5.0
#: Collecting takes long after a long recording; it is not given up early.
_COLLECT_S: Final = 300.0
_UNLIMITED: Final = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    # A proxy of the environment must not be asked for an address of this machine.
    ("grpc.enable_http_proxy", 0),
)


class _Request:
    """Tags of ProfileRequest."""

    DURATION_MS: Final = 1 << 3
    OPTIONS: Final = 4 << 3 | 2
    SESSION_ID: Final = 6 << 3 | 2
    HOST_NAME: Final = 7 << 3 | 2
    EMIT_XSPACE: Final = 9 << 3


_TERMINATE_SESSION_ID: Final = 1 << 3 | 2
_RESPONSE_XSPACE: Final = 8


class ServiceFailed(Exception):
    """The service did not record; the message is one line for people."""


class ServiceRecording:
    """One recording that the service makes, from its beginning to its bytes."""

    def __init__(self, port: int, levels: TracerLevels, *, host_name: str) -> None:
        """Begin to record.

        Args:
            port: Where the server listens, on the loopback interface.
            levels: Tracer levels to record with.
            host_name: What the recording calls this host.

        Raises:
            ServiceFailed: Nothing answers there, or it refuses to record.
        """
        grpc = import_grpc()
        self._channel = grpc.insecure_channel(f"127.0.0.1:{port}", options=_UNLIMITED)
        try:
            # A server that could not bind its port says nothing: it is called.
            grpc.channel_ready_future(self._channel).result(timeout=_CONNECT_S)
            self._session = uuid.uuid4().hex
            self._call = self._method("Profile").future(
                _profile_request(levels, self._session, host_name)
            )
            time.sleep(_SETTLE_S)
            if self._call.done():
                _refused(self._call.result())
        except grpc.FutureTimeoutError as timeout:
            self._channel.close()
            raise ServiceFailed(f"nothing answers on port {port}") from timeout
        except grpc.RpcError as refusal:
            self._channel.close()
            raise ServiceFailed(_words(refusal)) from refusal
        except ServiceFailed:
            self._channel.close()
            raise

    def stop(self) -> bytes:
        """End the recording and return it, a serialized XSpace.

        Raises:
            ServiceFailed: The recording was lost.
        """
        grpc = import_grpc()
        try:
            request = sized_field(_TERMINATE_SESSION_ID, self._session.encode())
            self._method("Terminate")(request, timeout=_CONNECT_S)
            return _xspace_of(self._call.result(timeout=_COLLECT_S))
        except grpc.RpcError as refusal:
            raise ServiceFailed(_words(refusal)) from refusal
        except grpc.FutureTimeoutError as timeout:
            raise ServiceFailed(
                f"the profiler service did not answer within {_COLLECT_S:.0f} s"
            ) from timeout
        finally:
            self.leave()

    def leave(self) -> None:
        """Cancel the recording if it is pending, which frees the service."""
        self._call.cancel()
        self._channel.close()

    def _method(self, name: str) -> Any:
        unchanged: Callable[[bytes], bytes] = bytes
        return self._channel.unary_unary(
            _SERVICE + name,
            request_serializer=unchanged,
            response_deserializer=unchanged,
        )


def free_port() -> int:
    """Return a port of the loopback interface that nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _profile_request(levels: TracerLevels, session: str, host_name: str) -> bytes:
    # Servers look at the duration in either place.
    options = levels.message(duration_ms=_LONGEST_MS)
    return b"".join(
        (
            number_field(_Request.DURATION_MS, _LONGEST_MS),
            sized_field(_Request.OPTIONS, options),
            sized_field(_Request.SESSION_ID, session.encode()),
            sized_field(_Request.HOST_NAME, host_name.encode()),
            number_field(_Request.EMIT_XSPACE, 1),
        )
    )


def _refused(response: bytes) -> NoReturn:
    """A recording that ended at once is none.

    Raises:
        ServiceFailed: Always.
    """
    raise ServiceFailed(
        f"the profiler service ended at once, with {len(response)} bytes"
    )


def _xspace_of(response: bytes) -> bytes:
    """Return the recording inside a ProfileResponse.

    Raises:
        ServiceFailed: There is none.
    """
    try:
        for field, value in fields_of(response):
            if field == _RESPONSE_XSPACE and not isinstance(value, int):
                return bytes(value)
    except MalformedMessage as damage:
        raise ServiceFailed("the profiler service sent a malformed answer") from damage
    raise ServiceFailed("the profiler service recorded nothing")


def _words(refusal: Any) -> str:
    """Return one line of what a call said."""
    details = str(refusal.details()).splitlines() or [""]
    return f"the profiler service refused: {details[0] or refusal.code().name}"


#: What TensorFlow records when nobody asks for anything.
_USUAL: Final = TracerLevels(host=2, device=1, python=0)
#: Levels that no version uses by itself: a recording that shows them was asked.
_PROBED: Final = TracerLevels(host=1, device=0, python=0)
_OWN: Final = "the program's own TensorFlow profiler"
_SERVER: Final = "the program's own TensorFlow profiler server"
_REFUSAL: Final = "STEPSCOPE_TF_SERVER"
_MEMORY: Final = Path("/dev/shm")  # noqa: S108 - a folder of our own is made in it

_OPEN: Final = OpenRecordings()
#: Process → port of TensorFlow's server in it. The server lives as long as its process
#: does, whatever becomes of the recordings, and a forked child has none.
_SERVERS: Final[dict[int, int]] = {}


class TensorFlowCollector(GivesWay):
    """Records with TensorFlow's profiler while the program uses TensorFlow."""

    name = "tensorflow"
    framework = "TensorFlow"
    left_over = _OPEN

    def __init__(self) -> None:
        super().__init__()
        self._recording: FrameworkRecording | None = None
        self._was_given = False
        self._xspace: bytes | None = None
        self._asked = _USUAL
        self._warnings: list[str] = []

    def available(self) -> Unavailable | None:
        """Return why TensorFlow cannot be recorded; None where it can."""
        if "tensorflow" not in sys.modules:
            return Unavailable(
                code="NOT_RECORDED",
                reason="The program has not imported TensorFlow.",
                remedy="Import tensorflow before the recording starts.",
            )
        try:
            _native().ProfilerSession  # noqa: B018 - only whether it is there
        except (ImportError, AttributeError):
            return Unavailable(
                code="NOT_RECORDED",
                reason="This version of TensorFlow has no profiler session.",
                remedy="Install TensorFlow 2.16 or newer.",
            )
        return None

    def _begin(self, options: ProfilerOptions, clock: ClockPair) -> None:
        del clock
        self._warnings = []
        self._asked = TracerLevels.asked(options)
        self._recording = self._begun(options)
        _OPEN.add(self._recording.stop)
        annotate.add_forward(_annotation)

    def _halt(self) -> None:
        self._was_given |= annotate.remove_forward(_annotation)
        recording, self._recording = self._recording, None
        if recording is not None:
            self._xspace = recording.stop()
            _OPEN.ended(recording.stop)

    def _exit(self) -> None:
        annotate.remove_forward(_annotation)
        recording, self._recording = self._recording, None
        if recording is not None:
            _OPEN.ended(recording.stop)
            recording.leave()

    def _end(self) -> Collected:
        self._halt()
        xspace = self._xspace
        if xspace is None:
            return Collected(b"", tuple(self._warnings))
        levels = levels_in_force(xspace)
        differ = level_warnings("TensorFlow", self._asked, levels)
        # Annotations are critical: any host level but 0 records them.
        holds = self._was_given and levels is not None and levels.host > 0
        return Collected(xspace, (*self._warnings, *differ), holds)

    def _entrances(self) -> Iterable[Entrance]:
        yield Entrance(_native(), "ProfilerSession", _OWN)
        yield Entrance(_native(), "start_server", _SERVER)

    def _programs_own(self) -> str | None:
        public = sys.modules.get("tensorflow.python.profiler.profiler_v2")
        return None if getattr(public, "_profiler", None) is None else _OWN

    def _begun(self, options: ProfilerOptions) -> FrameworkRecording:
        if self._asked == _USUAL or _takes_levels():
            self.traces_python = bool(self._asked.python)
            return _InProcess(self._asked, options.max_bytes)
        why_not = _why_no_server(options)
        if why_not is None:
            try:
                recording = ServiceRecording(
                    _server_port(), self._asked, host_name=socket.gethostname()
                )
            except ServiceFailed as failure:
                why_not = str(failure)
            else:
                self.traces_python = bool(self._asked.python)
                self._warnings.append(
                    f"TensorFlow takes tracer levels ({self._asked}) only through its "
                    f"own server, which was started on port {_server_port()}; it "
                    "listens on all interfaces until this process ends "
                    f"({_REFUSAL}=0 forbids it)"
                )
                return recording
        self._warnings.append(
            f"TensorFlow records at its usual tracer levels ({_USUAL}): {why_not}"
        )
        return _InProcess(self._asked, options.max_bytes)


class _InProcess:
    """A session of this process, which writes what it recorded into a folder."""

    def __init__(self, levels: TracerLevels, max_bytes: int) -> None:
        self._folder = Path(make_folder("tensorflow", within=_roomy_folder(max_bytes)))
        try:
            self._session = _native().ProfilerSession()
            self._session.start(
                str(self._folder),
                {
                    "host_tracer_level": levels.host,
                    "device_tracer_level": levels.device,
                    "python_tracer_level": levels.python,
                },
            )
        except BaseException:
            self._clear()
            raise

    def stop(self) -> bytes:
        try:
            self._session.export_to_tb()
            files = sorted(self._folder.rglob("*.xplane.pb"))
            return b"".join(path.read_bytes() for path in files)
        finally:
            # Dropping the session ends it whatever happened.
            del self._session
            self._clear()

    def leave(self) -> None:
        del self._session
        self._clear()

    def _clear(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


def _native() -> Any:
    from tensorflow.python.profiler.internal import (  # noqa: PLC0415 - the user's
        _pywrap_profiler,
    )

    return _pywrap_profiler


def _annotation(name: str, stats: Mapping[str, object]) -> Any:
    from tensorflow.python.profiler.trace import Trace  # noqa: PLC0415 - the user's

    return Trace(name, **stats)


def _takes_levels() -> bool:
    """Return whether this TensorFlow heeds the levels that a session is given."""
    recorded = _InProcess(_PROBED, max_bytes=0).stop()
    return levels_in_force(recorded) == _PROBED


def _why_no_server(options: ProfilerOptions) -> str | None:
    """Return why TensorFlow's server cannot be asked; None where it can."""
    if not options.tensorflow_server and os.getpid() not in _SERVERS:
        return (
            "it takes others only through its own server, which would listen on all "
            "interfaces, and is not started for a client"
        )
    if os.environ.get(_REFUSAL) == "0":
        return f"its server is forbidden ({_REFUSAL}=0)"
    try:
        import_grpc()
    except ForkedSince as error:
        return str(error)
    except ImportError:
        return "grpcio is not installed (pip install stepscope[grpc])"
    return None


def _server_port() -> int:
    """Return the port of TensorFlow's server in this process; start one if needed."""
    process = os.getpid()
    if process not in _SERVERS:
        port = free_port()
        _native().start_server(port)
        _SERVERS[process] = port
    return _SERVERS[process]


def _roomy_folder(max_bytes: int) -> Path | None:
    """Memory where a recording fits, else None: the usual temporary folder.

    In containers the file system in memory is often small.
    """
    try:
        roomy = shutil.disk_usage(_MEMORY).free > max_bytes
    except OSError:
        return None
    return _MEMORY if roomy and os.access(_MEMORY, os.W_OK) else None
