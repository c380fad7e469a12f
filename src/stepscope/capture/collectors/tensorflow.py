"""Recording with TensorFlow's own profiler: host ops, input pipelines, devices.

The collector uses TensorFlow's profiler session in this process, which exports into a
folder in memory. TensorFlow 2.21 ignores tracer levels given to the session. Levels
other than the default are therefore requested from TensorFlow's own server, over the
loopback interface. The server listens on all interfaces and cannot be stopped. The
server is started only if the program asks for other levels, never for a client, and
never with ``STEPSCOPE_TF_SERVER=0``. An asynchronous `Profile` call with a long
duration records on the server. `Terminate` ends the call, which returns the recording.

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
from typing import TYPE_CHECKING, Any, Final

from stepscope.capture.collectors.frameworks import (
    Entrance,
    FrameworkRecording,
    OpenRecordings,
    XSpaceCollector,
)
from stepscope.capture.collectors.levels import TracerLevels, levels_in_force
from stepscope.capture.grpc_import import ForkedSince, import_grpc
from stepscope.capture.temporary import make_folder
from stepscope.xspace.wire import MalformedMessage, read_fields
from stepscope.xspace.writing.encode import number_field, sized_field

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from stepscope.capture.base.options import ProfilerOptions

_SERVICE: Final = "/tensorflow.ProfilerService/"
#: Duration in ms of a server recording that is not terminated.
_MAX_MS: Final = 3_600_000
#: If a call cannot record, it fails within this number of seconds.
_SETTLE_S: Final = 0.05
_CONNECT_S: Final = 5.0
#: Seconds to wait for the server's answer, which is slow after a long recording.
_COLLECT_S: Final = 300.0
_UNLIMITED: Final = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    # Do not use a proxy of the environment for an address of this machine.
    ("grpc.enable_http_proxy", 0),
)


class _Request:
    """Field tags of the ProfileRequest message."""

    DURATION_MS: Final = 1 << 3
    OPTIONS: Final = 4 << 3 | 2
    SESSION_ID: Final = 6 << 3 | 2
    HOST_NAME: Final = 7 << 3 | 2
    EMIT_XSPACE: Final = 9 << 3


_TERMINATE_SESSION_ID: Final = 1 << 3 | 2
_RESPONSE_XSPACE: Final = 8


class ServiceFailed(Exception):
    """The profiler service did not record; the message is one line for users."""


class ServiceRecording:
    """One recording by the profiler service."""

    def __init__(self, port: int, levels: TracerLevels, *, host_name: str) -> None:
        """Begin to record.

        Raises:
            ServiceFailed: The server does not answer, or refuses to record.
        """
        grpc = import_grpc()
        self._channel = grpc.insecure_channel(f"127.0.0.1:{port}", options=_UNLIMITED)
        try:
            # A server that could not bind its port reports no error, so connect to it.
            grpc.channel_ready_future(self._channel).result(timeout=_CONNECT_S)
            self._session = uuid.uuid4().hex
            # Servers read the duration from the options or from the request.
            request = (
                number_field(_Request.DURATION_MS, _MAX_MS),
                sized_field(_Request.OPTIONS, levels.message(duration_ms=_MAX_MS)),
                sized_field(_Request.SESSION_ID, self._session.encode()),
                sized_field(_Request.HOST_NAME, host_name.encode()),
                number_field(_Request.EMIT_XSPACE, 1),
            )
            self._call = self._service_method("Profile").future(b"".join(request))
            time.sleep(_SETTLE_S)
            answer = self._call.result() if self._call.done() else None
        except grpc.FutureTimeoutError as timeout:
            self._channel.close()
            raise ServiceFailed(f"nothing answers on port {port}") from timeout
        except grpc.RpcError as refusal:
            self._channel.close()
            raise ServiceFailed(_refusal_text(refusal)) from refusal
        if answer is not None:
            self._channel.close()
            raise ServiceFailed(
                f"the profiler service ended at once, with {len(answer)} bytes"
            )

    def stop_session(self) -> bytes:
        """End the recording and return a serialized XSpace."""
        grpc = import_grpc()
        try:
            request = sized_field(_TERMINATE_SESSION_ID, self._session.encode())
            self._service_method("Terminate")(request, timeout=_CONNECT_S)
            for field, value in read_fields(self._call.result(timeout=_COLLECT_S)):
                if field == _RESPONSE_XSPACE and not isinstance(value, int):
                    return bytes(value)
        except grpc.RpcError as refusal:
            raise ServiceFailed(_refusal_text(refusal)) from refusal
        except grpc.FutureTimeoutError as timeout:
            raise ServiceFailed(
                f"the profiler service did not answer within {_COLLECT_S:.0f} s"
            ) from timeout
        except MalformedMessage as damage:
            raise ServiceFailed(
                "the profiler service sent a malformed answer"
            ) from damage
        finally:
            self.leave_session()
        raise ServiceFailed("the profiler service recorded nothing")

    def leave_session(self) -> None:
        """Cancel the recording if it is pending, which frees the service."""
        self._call.cancel()
        self._channel.close()

    def _service_method(self, name: str) -> Any:
        unchanged: Callable[[bytes], bytes] = bytes
        return self._channel.unary_unary(
            _SERVICE + name,
            request_serializer=unchanged,
            response_deserializer=unchanged,
        )


def free_port() -> int:
    """Return a port of the loopback interface that is free at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _refusal_text(refusal: Any) -> str:
    details = str(refusal.details()).splitlines() or [""]
    return f"the profiler service refused: {details[0] or refusal.code().name}"


#: TensorFlow's default levels.
_DEFAULTS: Final = TracerLevels(host=2, device=1, python=0)
#: Levels that no version uses by default, to test whether a session uses given levels.
_PROBED: Final = TracerLevels(host=1, device=0, python=0)
_OWN: Final = "the program's own TensorFlow profiler"
_SERVER: Final = "the program's own TensorFlow profiler server"
_REFUSAL: Final = "STEPSCOPE_TF_SERVER"
_MEMORY: Final = Path("/dev/shm")  # noqa: S108 - only a new private folder is used

#: Process id → port of TensorFlow's server in that process. The server runs until its
#: process ends, whatever happens to recordings. A forked child has no server.
_SERVERS: Final[dict[int, int]] = {}


class TensorFlowCollector(XSpaceCollector):
    """Collector that records with TensorFlow's profiler if TensorFlow is imported."""

    name = "tensorflow"
    framework = "TensorFlow"
    no_profiler = (
        "This version of TensorFlow has no profiler session.",
        "Install TensorFlow 2.16 or newer.",
    )
    left_over = OpenRecordings()

    def has_profiler(self) -> bool:
        """Return whether TensorFlow has a profiler session."""
        try:
            return hasattr(_native_profiler(), "ProfilerSession")
        except (ImportError, AttributeError):
            return False

    @staticmethod
    def make_annotation(name: str, stats: Mapping[str, object]) -> Any:
        """Return TensorFlow's own annotation object."""
        from tensorflow.python.profiler.trace import Trace  # noqa: PLC0415 - the program's framework

        return Trace(name, **stats)

    def list_entrances(self) -> Iterable[Entrance]:
        """Yield the functions that start TensorFlow's profiler."""
        yield Entrance(_native_profiler(), "ProfilerSession", _OWN)
        yield Entrance(_native_profiler(), "start_server", _SERVER)

    def program_profiler(self) -> str | None:
        """Return TensorFlow's profiler if the program has started it, or None."""
        public = sys.modules.get("tensorflow.python.profiler.profiler_v2")
        return None if getattr(public, "_profiler", None) is None else _OWN

    def open_recording(
        self, levels: TracerLevels, options: ProfilerOptions
    ) -> FrameworkRecording:
        """Begin a session in the process, or a recording on TensorFlow's server."""
        # A test session with unusual levels shows whether sessions respect levels.
        if levels == _DEFAULTS or (
            levels_in_force(_InProcess(_PROBED, max_bytes=0).stop_session()) == _PROBED
        ):
            self.traces_python = bool(levels.python)
            return _InProcess(levels, options.max_bytes)
        why_not = _why_no_server(options)
        if why_not is None:
            try:
                recording = ServiceRecording(
                    _server_port(), levels, host_name=socket.gethostname()
                )
            except ServiceFailed as failure:
                why_not = str(failure)
            else:
                self.traces_python = bool(levels.python)
                self._warnings.append(
                    f"TensorFlow supports tracer levels ({levels}) only through its "
                    f"own server, which was started on port {_server_port()}; it "
                    "listens on all interfaces until this process ends "
                    f"({_REFUSAL}=0 forbids it)"
                )
                return recording
        self._warnings.append(
            f"TensorFlow records at its default tracer levels ({_DEFAULTS}): {why_not}"
        )
        return _InProcess(levels, options.max_bytes)


class _InProcess:
    """A session of this process, which writes the recording into a folder."""

    def __init__(self, levels: TracerLevels, max_bytes: int) -> None:
        # The in-memory file system of a container is often small.
        try:
            fits = shutil.disk_usage(_MEMORY).free > max_bytes
        except OSError:
            fits = False
        within = _MEMORY if fits and os.access(_MEMORY, os.W_OK) else None
        self._folder = Path(make_folder("tensorflow", within=within))
        try:
            self._session = _native_profiler().ProfilerSession()
            self._session.start(
                str(self._folder),
                {
                    "host_tracer_level": levels.host,
                    "device_tracer_level": levels.device,
                    "python_tracer_level": levels.python,
                },
            )
        except BaseException:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise

    def stop_session(self) -> bytes:
        try:
            self._session.export_to_tb()
            files = sorted(self._folder.rglob("*.xplane.pb"))
            return b"".join(path.read_bytes() for path in files)
        finally:
            # Deleting the session ends it in any case.
            self.leave_session()

    def leave_session(self) -> None:
        del self._session
        shutil.rmtree(self._folder, ignore_errors=True)


def _native_profiler() -> Any:
    from tensorflow.python.profiler.internal import (  # noqa: PLC0415 - the program's framework
        _pywrap_profiler,
    )

    return _pywrap_profiler


def _why_no_server(options: ProfilerOptions) -> str | None:
    if not options.tensorflow_server and os.getpid() not in _SERVERS:
        return (
            "other levels need TensorFlow's own server, which would listen on all "
            "interfaces and is not started for a client"
        )
    if os.environ.get(_REFUSAL) == "0":
        return f"its server is forbidden ({_REFUSAL}=0)"
    try:
        import_grpc()
    except ForkedSince as error:
        return str(error)
    except ImportError:
        return "grpcio is not installed (pip install grpcio)"
    return None


def _server_port() -> int:
    process = os.getpid()
    if process not in _SERVERS:
        port = free_port()
        _native_profiler().start_server(port)
        _SERVERS[process] = port
    return _SERVERS[process]
