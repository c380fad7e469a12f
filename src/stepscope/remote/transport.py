"""gRPC as both ends use it: names of services, limits, threads, and who may call."""

from __future__ import annotations

import json
import re
import threading
from concurrent import futures
from typing import TYPE_CHECKING, Any, Final

from stepscope.capture.grpc_import import ForkedSince, import_grpc
from stepscope.errors import BadUsage

if TYPE_CHECKING:
    from collections.abc import Callable

SERVICE: Final = "tensorflow.ProfilerService"
ANALYSIS: Final = "tensorflow.ProfileAnalysis"
#: stepscope's own service: a recording comes in pieces, each a message of plain bytes.
PIECES: Final = "stepscope.Recordings"
#: Bytes of one piece.
PIECE_BYTES: Final = 2**20
#: The largest recording that a client takes; one message of gRPC holds 2 GB.
MAX_ANSWER_BYTES: Final = 4 * 2**30
_MAX_OF_GRPC_BYTES: Final = 2**31 - 1
#: A greeting is answered in a few lines.
_MAX_GREETING_BYTES: Final = 2**20
#: Where a call carries the token.
METADATA_KEY: Final = "authorization"
#: gRPC refuses calls whose metadata is longer than 8 to 16 KB.
_TOKEN: Final = re.compile(r"[!-~]{1,4096}")
_OURS: Final = "stepscope-grpc"
_GRPC: Final = "grpc"


def checked_token(token: str, given_by: str) -> str:
    """Return a token that a call can carry.

    Args:
        given_by: How it was given, for people.

    Raises:
        BadUsage: gRPC cannot send it, or would send another one. It is not shown.
    """
    if not isinstance(token, str) or not _TOKEN.fullmatch(token):
        raise BadUsage(
            f"the token ({given_by}) cannot be sent; give 1 to 4,096 letters, digits "
            "and signs of ASCII, without white space."
        )
    return token


def bearer_value(token: str) -> str:
    """Return the value of a call's `authorization`."""
    return f"Bearer {token}"


def receive_limits(max_bytes: int) -> tuple[tuple[str, int | str], ...]:
    """Return options of a channel: how large answers may be, and those to greetings.

    gRPC refuses messages beyond 4 MB by default, and a profile is one message.
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
    """Import gRPC."""
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
    """Runs each call in a daemon thread of its own.

    The interpreter joins the threads of `ThreadPoolExecutor` when it ends: a client
    that records for an hour would keep the program alive for as long. How many calls
    run at once is the server's limit.
    """

    def submit(
        self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> futures.Future[Any]:
        """Begin a call, and return its future."""
        future: futures.Future[Any] = futures.Future()

        def work() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(fn(*args, **kwargs))
            except BaseException as error:  # noqa: BLE001 - whoever waits gets it
                future.set_exception(error)

        threading.Thread(target=work, name="stepscope-server", daemon=True).start()
        return future


def begin_as_ours(begin: Callable[[], object]) -> None:
    """Begin what starts threads of gRPC, and give these a name of ours.

    A recording tells its own threads from the program's by their names: one that waits
    for calls is nobody whom a step waits for.
    """
    before = set(threading.enumerate())
    begin()
    for thread in set(threading.enumerate()) - before:
        # The program may have started one of its own at the same moment.
        runs = getattr(thread, "_target", None)
        if getattr(runs, "__module__", "").partition(".")[0] == _GRPC:
            thread.name = _OURS
