"""Client calls to one profiler server."""

from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING, Any, Final

import msgspec

from stepscope.remote import listening_programs
from stepscope.remote.addresses import file_name_of
from stepscope.remote.destinations import NotStored
from stepscope.remote.messages import (
    MonitorRequest,
    MonitorResponse,
    ProfileResponse,
    decode_message,
    encode_message,
)
from stepscope.remote.outcome import HostOutcome
from stepscope.remote.transport import (
    CHUNK_SERVICE,
    MAX_ANSWER_BYTES,
    METADATA_KEY,
    SERVICE,
    bearer_value,
    receive_limits,
)
from stepscope.rundir import TRACE_SUFFIX
from stepscope.xspace.vocabulary import CLOCK_PLANE, ClockStat
from stepscope.xspace.wire import MalformedMessage, read_fields
from stepscope.xspace.writing.write import XSpaceBuilder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepscope.remote.destinations import Destination
    from stepscope.remote.messages import Message, ProfileRequest

_NS_PER_S: Final = 1_000_000_000
#: Disables the proxy of the environment, which could read the token.
_NO_PROXY: Final = ("grpc.enable_http_proxy", 0)
#: Maximum seconds for all clock comparisons with a host, and maximum seconds that a
#: recording may take beyond its own duration.
_GREETING_S: Final = 5.0
_BEYOND_S: Final = 60.0
#: Number of clock comparisons; the comparison with the fastest answer is used.
_GREETINGS: Final = 20
#: Latest plausible time of a host's clock: the year 2200.
_LAST_CLOCK_NS: Final = 7_258_118_400 * _NS_PER_S
_CLOCK_DIGITS: Final = len(str(_LAST_CLOCK_NS))
#: Maximum number of planes and warnings in a profile.
_MAX_PROFILE_FIELDS: Final = 1_000_000
#: Seconds between two attempts to record, doubled each time up to a maximum.
_BACK_OFF_S: Final = 0.5
_MAX_BACK_OFF_S: Final = 8.0
_EMPTY: Final = "the host recorded nothing in this time; record for longer."
#: Part of the error of TensorFlow's and JAX's servers if another recording runs.
_BUSY: Final = "another profiling session"
#: Parts of gRPC's error for an answer above its limit, which is 2 GB here.
_TOO_LARGE: Final = "message larger than max"
_RECEIVED: Final = "received message"
#: Parts of gRPC's errors for a connection whose encryption fails.
_OF_ENCRYPTION: Final = ("handshake", "certificate", "verification")
#: Part of gRPC's error if the server does not use TLS.
_NO_TLS: Final = "wrong_version_number"
#: Part of gRPC's error if no connection was ever made.
_NEVER_CONNECTED: Final = "failed to connect"
#: Part of gRPC's error if no process listens at the port.
_REFUSED: Final = "connection refused"


class _UnusableAnswer(Exception):
    """A host's answer cannot be used as a recording; the text gives the reason."""


class Caller:
    """The gRPC channel to one server."""

    def __init__(
        self,
        grpc: Any,
        address: str,
        *,
        token: str | None,
        root_certificate: bytes | None,
        max_bytes: int,
        dialled: str | None = None,
    ) -> None:
        """Prepare a channel without sending anything.

        Args:
            root_certificate: Certificate to trust; if given, calls are encrypted.
            dialled: Address of this user's server on this machine; no proxy is used.
        """
        self.address = address
        target = dialled or address
        self._grpc = grpc
        self._metadata = () if token is None else ((METADATA_KEY, bearer_value(token)),)
        self._encrypts = root_certificate is not None
        self._max_bytes = max_bytes
        options = receive_limits(max_bytes)
        if dialled is not None:
            options = (*options, _NO_PROXY)
        if root_certificate is None:
            self._channel = grpc.insecure_channel(target, options=options)
        else:
            credentials = grpc.ssl_channel_credentials(root_certificate)
            self._channel = grpc.secure_channel(target, credentials, options=options)
        self._was_reached = False
        self._offset_ns: int | None = None
        self._doubt_ns: int | None = None

    def hang_up(self) -> None:
        """Close the channel."""
        self._channel.close()

    def compare_clocks(self) -> int:
        """Estimate the host's clock offset; return the longest round trip, in ns.

        Servers of TensorFlow and JAX do not return their time, so only the round trip
        is known. The offset stays unknown if no answer has a plausible time.
        """
        slowest = 0
        until = time.monotonic() + _GREETING_S
        for _ in range(_GREETINGS):
            sent = time.time_ns()
            try:
                left_s = max(until - time.monotonic(), 0.0)
                answer = self._call_method(
                    "Monitor", MonitorRequest(timestamp=True), left_s
                )
                data = decode_message(MonitorResponse, answer).data
            except Exception as error:  # noqa: BLE001 - recording reports the error later
                codes = self._grpc.StatusCode
                self._was_reached = not (
                    isinstance(error, self._grpc.RpcError)
                    and error.code() in {codes.UNAVAILABLE, codes.DEADLINE_EXCEEDED}
                )
                return max(slowest, time.time_ns() - sent)
            self._was_reached = True
            received = time.time_ns()
            slowest = max(slowest, received - sent)
            doubt = (received - sent) // 2
            clock_ns = _server_time_ns(data)
            if clock_ns is None:
                break
            if self._doubt_ns is None or doubt < self._doubt_ns:
                self._doubt_ns, self._offset_ns = doubt, clock_ns - sent - doubt
        return slowest

    def record_host(
        self,
        request: ProfileRequest,
        destination: Destination,
        *,
        attempts: int,
        start_ns: int,
    ) -> HostOutcome:
        """Record the host, and write its file.

        Args:
            start_ns: Start time by this machine's clock, in ns; 0 for at once.
        """
        began = time.monotonic()
        for attempt in itertools.count(1):
            if attempt > 1:
                time.sleep(min(_BACK_OFF_S * 2 ** (attempt - 2), _MAX_BACK_OFF_S))
            try:
                outcome, may_retry = self._record_once(
                    request, destination, start_ns if attempt == 1 else 0
                )
            except Exception as error:  # noqa: BLE001 - the other hosts must still be recorded
                text = f"recording it failed ({type(error).__name__}: {error})."
                outcome, may_retry = self._make_outcome("error", text), False
            if not may_retry or attempt >= attempts:
                break
        return outcome._replace(attempts=attempt, seconds=time.monotonic() - began)

    def _record_once(
        self, request: ProfileRequest, destination: Destination, start_ns: int
    ) -> tuple[HostOutcome, bool]:
        """Try once to record; return the outcome, and whether to try again."""
        host_request = msgspec.structs.replace(
            request,
            host_name=self.address,
            opts=msgspec.structs.replace(
                request.opts,
                override_hostname=self.address,
                start_timestamp_ns=start_ns and start_ns + (self._offset_ns or 0),
            ),
        )
        delay_s = max(start_ns - time.time_ns(), 0) / _NS_PER_S if start_ns else 0.0
        limit_s = request.duration_ms / 1000 * 2 + delay_s + _BEYOND_S
        clock_plane = b""
        if self._offset_ns is not None and self._doubt_ns is not None:
            space = XSpaceBuilder("", start_ns=None)
            plane = space.plane(CLOCK_PLANE)
            plane.set_stat(ClockStat.OFFSET_NS, self._offset_ns)
            plane.set_stat(ClockStat.DOUBT_NS, self._doubt_ns)
            clock_plane = space.to_bytes()
        try:
            stored_bytes = destination.store_file(
                f"{file_name_of(self.address)}{TRACE_SUFFIX}",
                self._received_pieces(host_request, limit_s),
                check=_check_profile,
                tail=clock_plane,
            )
        except self._grpc.RpcError as error:
            text, may_retry = self._explain_error(error)
            return self._make_outcome("error", text), may_retry
        except MalformedMessage:
            text = "the profile of the host cannot be read."
            return self._make_outcome("error", text), False
        except (NotStored, _UnusableAnswer) as error:
            return self._make_outcome("error", str(error)), False
        if not stored_bytes:
            return self._make_outcome("empty", _EMPTY), True
        return self._make_outcome("ok", "")._replace(bytes=stored_bytes), False

    def _received_pieces(
        self, request: ProfileRequest, limit_s: float
    ) -> Iterator[bytes | memoryview]:
        """Record the host, and yield its recording as it arrives.

        Stepscope's servers send pieces. Servers of TensorFlow and JAX send one message,
        of which gRPC holds three copies in memory.
        """
        method = self._channel.unary_stream(f"/{CHUNK_SERVICE}/Profile")
        call = method(encode_message(request), timeout=limit_s, metadata=self._metadata)
        received_bytes = 0
        try:
            for piece in call:
                received_bytes += len(piece)
                if received_bytes > self._max_bytes:
                    raise _UnusableAnswer(self._too_large())
                yield piece
        except self._grpc.RpcError as error:
            if error.code() != self._grpc.StatusCode.UNIMPLEMENTED:
                raise
        else:
            return
        finally:
            call.cancel()
        answer = self._call_method("Profile", request, limit_s)
        try:
            response = decode_message(ProfileResponse, answer, copies=False)
        except MalformedMessage as error:
            text = "the server answered with bytes that are not a ProfileResponse."
            raise _UnusableAnswer(text) from error
        files = response.tool_data
        yield response.xspace or next(
            (file.data for file in files if file.name.endswith("xplane.pb")), b""
        )

    def _too_large(self) -> str:
        return (
            f"the recording has more than {self._max_bytes:,} bytes; raise the limit "
            "(--max-bytes), or record for a shorter time (--ms, --steps)."
        )

    def _make_outcome(self, state: Any, text: str) -> HostOutcome:
        return HostOutcome(
            address=self.address,
            state=state,
            text=text,
            bytes=0,
            attempts=1,
            seconds=0.0,
            clock_offset_ns=self._offset_ns,
            clock_doubt_ns=self._doubt_ns,
        )

    def _explain_error(self, error: Any) -> tuple[str, bool]:
        """Return an error's text with its remedy, and whether to try again."""
        codes = self._grpc.StatusCode
        code, details = error.code(), " ".join((error.details() or "").split())
        is_lost = self._was_reached and _NEVER_CONNECTED not in details.lower()
        if code == codes.CANCELLED or (code == codes.UNAVAILABLE and is_lost):
            text = (
                "the program ended while it was recorded, or the connection was lost "
                f"({details})."
            )
            return text, False
        if code == codes.UNAVAILABLE:
            return self._explain_unreached(details)
        if code == codes.DEADLINE_EXCEEDED:
            return "the program did not answer in time; it may hang.", True
        if code == codes.ALREADY_EXISTS or _BUSY in details.lower():
            return f"another recording is in progress: {details}", True
        text = details or code.name
        if code == codes.UNAUTHENTICATED:
            text = f"{details}."
            if self._metadata:
                text = f"the server refuses the given token: {text}"
            else:
                text += listening_programs.refused_folders()
        elif code == codes.UNIMPLEMENTED:
            text = "the program at this address is not a profiler server."
        elif code == codes.RESOURCE_EXHAUSTED and _TOO_LARGE in details.lower():
            text = (
                f"the recording does not fit into one message ({details}); record for "
                "a shorter time (--ms, --steps) or less (--host-tracer-level 1)."
            )
            if _RECEIVED in details.lower() and self._max_bytes < MAX_ANSWER_BYTES:
                text = self._too_large()
        return text, False

    def _explain_unreached(self, details: str) -> tuple[str, bool]:
        """Return the reason for a missing connection, and whether to try again."""
        lowered = details.lower()
        if self._encrypts and any(word in lowered for word in _OF_ENCRYPTION):
            if _NO_TLS in lowered:
                return "the server does not encrypt; leave out --certificate.", False
            text = (
                f"the certificate is not trusted ({details}). Give the server's "
                "certificate, or that of the authority that signed it (--certificate), "
                "and the host name that is in the certificate."
            )
            return text, False
        if _REFUSED in lowered:
            details = _REFUSED
        text = (
            f"no profiler server answers there ({details}). Start one in the "
            "program (ss.server.start, tf.profiler.experimental.server.start or "
            "jax.profiler.start_server), and check the port."
        )
        if not self._encrypts and _REFUSED not in lowered:
            text += " If the server encrypts, give its certificate (--certificate)."
        return text, True

    def _call_method(self, method: str, request: Message, limit_s: float) -> bytes:
        call = self._channel.unary_unary(f"/{SERVICE}/{method}")
        answer: bytes = call(
            encode_message(request), timeout=limit_s, metadata=self._metadata
        )
        return answer


def _server_time_ns(data: str) -> int | None:
    """Return the time in the first line of a server's answer, in ns, or None."""
    clock = data.partition("\n")[0]
    if not (clock.isascii() and clock.isdecimal()) or len(clock) > _CLOCK_DIGITS:
        return None
    return int(clock) if int(clock) <= _LAST_CLOCK_NS else None


def _check_profile(content: bytes | memoryview) -> None:
    for count, _ in enumerate(read_fields(content)):
        if count == _MAX_PROFILE_FIELDS:
            raise MalformedMessage
