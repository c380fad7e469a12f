"""Threads for calls that never keep the program from ending."""

from __future__ import annotations

import threading
from concurrent import futures
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["DaemonThreads", "begin_as_ours"]

_OURS: Final = "stepscope-grpc"
_GRPC: Final = "grpc"


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
