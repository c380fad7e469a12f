"""gRPC settings of clients and servers: service names, limits, threads and tokens."""

from __future__ import annotations

import enum
import json
import re
import threading
from concurrent import futures
from typing import TYPE_CHECKING, Any, Final

from stepscope.capture.grpc_import import ForkedSince, import_grpc
from stepscope.errors import BadUsage, StepscopeError

if TYPE_CHECKING:
    from collections.abc import Callable

SERVICE: Final = "tensorflow.ProfilerService"
ANALYSIS: Final = "tensorflow.ProfileAnalysis"
#: Stepscope's own service, which sends a recording in pieces of plain bytes.
CHUNK_SERVICE: Final = "stepscope.Recordings"
CHUNK_BYTES: Final = 2**20
#: Default maximum bytes of a recording; one gRPC message holds at most 2 GB.
MAX_ANSWER_BYTES: Final = 4 * 2**30
_MAX_OF_GRPC_BYTES: Final = 2**31 - 1
#: Maximum bytes of an answer to `Monitor`, which has a few lines.
_MAX_GREETING_BYTES: Final = 2**20
#: Name of the call metadata that contains the token.
METADATA_KEY: Final = "authorization"
#: Valid tokens; gRPC refuses calls with more than 8 to 16 KB of metadata.
_TOKEN: Final = re.compile(r"[!-~]{1,4096}")
_THREAD_NAME: Final = "stepscope-grpc"
_GRPC: Final = "grpc"


class Refusal(enum.Enum):
    """Reason to refuse a request, by the name of gRPC's status code."""

    ABORTED = "ABORTED"
    ALREADY_EXISTS = "ALREADY_EXISTS"
    FAILED_PRECONDITION = "FAILED_PRECONDITION"
    INVALID_ARGUMENT = "INVALID_ARGUMENT"
    NOT_FOUND = "NOT_FOUND"
    PERMISSION_DENIED = "PERMISSION_DENIED"
    RESOURCE_EXHAUSTED = "RESOURCE_EXHAUSTED"
    UNAVAILABLE = "UNAVAILABLE"


class RefusedCapture(StepscopeError):
    """A refused request, with its reason."""

    def __init__(self, refusal: Refusal, text: str) -> None:
        super().__init__(text)
        self.why = refusal


def checked_token(token: str, given_by: str) -> str:
    """Return a token if a call can send it.

    Args:
        given_by: Source of the token, for the error text.

    Raises:
        BadUsage: gRPC cannot send the token unchanged; the error text omits the token.
    """
    if not isinstance(token, str) or not _TOKEN.fullmatch(token):
        raise BadUsage(
            f"the token ({given_by}) cannot be sent; give 1 to 4,096 ASCII letters, "
            "digits and punctuation marks, without white space."
        )
    return token


def bearer_value(token: str) -> str:
    """Return the value of a call's `authorization` metadata."""
    return f"Bearer {token}"


def receive_limits(max_bytes: int) -> tuple[tuple[str, int | str], ...]:
    """Return channel options that limit the size of answers.

    gRPC refuses messages above 4 MB by default, but a profile is one message.
    """
    greeting = {
        "name": [{"service": SERVICE, "method": "Monitor"}],
        "maxResponseMessageBytes": _MAX_GREETING_BYTES,
    }
    return (
        ("grpc.max_send_message_length", -1),
        ("grpc.max_receive_message_length", min(max_bytes, _MAX_OF_GRPC_BYTES)),
        ("grpc.service_config", json.dumps({"methodConfig": [greeting]})),
    )


def grpc_module() -> Any:
    """Import gRPC; raise BadUsage if that fails."""
    try:
        return import_grpc()
    except ForkedSince as error:
        raise BadUsage(f"recording from outside cannot begin here: {error}.") from error
    except ImportError as error:
        raise BadUsage(
            f"recording from outside needs gRPC, which cannot be imported ({error}); "
            "pip install grpcio"
        ) from error


class DaemonThreads(futures.Executor):
    """Runs each call in a separate daemon thread.

    The interpreter joins the threads of `ThreadPoolExecutor` at its end, so a client
    that records for an hour would delay the end of the program. The server limits the
    number of concurrent calls.
    """

    def submit(
        self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> futures.Future[Any]:
        """Start a call, and return its future."""
        future: futures.Future[Any] = futures.Future()

        def work() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(fn(*args, **kwargs))
            except BaseException as error:  # noqa: BLE001 - passed to the waiting thread
                future.set_exception(error)

        threading.Thread(target=work, name="stepscope-server", daemon=True).start()
        return future


def start_named_threads(begin: Callable[[], object]) -> None:
    """Call a function that starts gRPC threads, and rename these threads.

    A recording recognises stepscope's threads by their names, so that a thread that
    waits for calls is not shown as a thread that a step waits for.
    """
    before = set(threading.enumerate())
    begin()
    for thread in set(threading.enumerate()) - before:
        runs = getattr(thread, "_target", None)
        if getattr(runs, "__module__", "").partition(".")[0] == _GRPC:
            thread.name = _THREAD_NAME
