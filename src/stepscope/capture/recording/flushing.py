"""The thread that stores what was recorded, a few times a second."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from stepscope.xspace.merging.merge import whole_length

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from stepscope.capture.collectors.contract import Streaming
    from stepscope.capture.ground.spool import Fragment, Spool

#: A kill loses what was recorded since the last flush: at most so many seconds.
FLUSH_S: Final = 0.2


class Flusher:
    """Takes fragments from collectors and appends them to a spool."""

    def __init__(
        self,
        collectors: Sequence[Streaming],
        spool: Spool,
        *,
        ended: Callable[[], bool] | None = None,
        end: Callable[[], object] | None = None,
    ) -> None:
        """Begin nothing yet.

        Args:
            collectors: Whose events are stored.
            spool: Where.
            ended: Asked at every flush, whether recording is over for another reason.
            end: Called once, from this thread, when it is.
        """
        self.failures: dict[str, str] = {}
        self._collectors = tuple(collectors)
        self._spool = spool
        self._ended = ended
        self._end = end
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(
            target=self._run, name="stepscope-flush", daemon=True
        )

    def start(self) -> None:
        """Start the thread.

        Raises:
            RuntimeError: The interpreter gives no more threads.
        """
        self._thread.start()

    def flush(self) -> None:
        """Store what there is now."""
        with self._lock:
            for collector in self._collectors:
                try:
                    self.store(collector.flush())
                except Exception as error:  # noqa: BLE001 - a collector's edge
                    name = type(collector).__name__
                    self.failures.setdefault(name, f"{type(error).__name__}: {error}")

    def store(self, fragment: Fragment) -> None:
        """Append a fragment to the spool.

        Raises:
            ValueError: It is no message; after it nothing could be read.
        """
        if whole_length(fragment.xspace) != len(fragment.xspace):
            raise ValueError("the fragment is malformed")
        self._spool.append(fragment)

    def stop(self) -> None:
        """End the thread; what was recorded since its last flush is not stored."""
        self._stop.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(FLUSH_S):
            self.flush()
            if self._ended is not None and self._end is not None and self._ended():
                self._end()
                return
