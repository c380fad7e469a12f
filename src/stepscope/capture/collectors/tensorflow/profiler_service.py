"""A client of the profiler service in this very process, over the loopback interface.

Where a framework's functions ignore the tracer levels, its own server takes them. One
asynchronous `Profile` call with a long duration records; `Terminate` ends it and the
pending call returns what was recorded, in memory.
What is recorded stays opaque bytes here.

Definition: docs/capture.md#how-the-recorders-are-driven.
"""

from __future__ import annotations

import socket
import time
import uuid
from typing import TYPE_CHECKING, Any, Final, NoReturn

from stepscope.capture.grpc_import import import_grpc
from stepscope.xspace.wire import MalformedMessage, fields_of
from stepscope.xspace.writing.encode import number_field, sized_field

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepscope.capture.collectors.levels import TracerLevels

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
