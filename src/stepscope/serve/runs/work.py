"""What the server is computing, for clients that wait for it."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """One computation.

    Attributes:
        run: Id of the run.
        what: Name of the current stage.
        done: Number of finished stages.
        of: Number of all stages.
        since_s: When the computation began, in seconds on the monotonic clock.
    """

    run: str
    what: str
    done: int
    of: int
    since_s: float


class Working:
    """The progress of the one computation that runs; any thread may read it."""

    def __init__(self) -> None:
        # The value is replaced as a whole, so readers need no lock.
        self.now: Work | None = None

    @contextmanager
    def on(self, run: str, *, stages: int) -> Iterator[None]:
        """Announce a computation while it lasts."""
        self.now = Work(run=run, what="", done=-1, of=stages, since_s=time.monotonic())
        try:
            yield
        finally:
            self.now = None

    def stage(self, what: str) -> None:
        """Announce the next stage; the previous one is finished."""
        if self.now is not None:
            self.now = msgspec.structs.replace(
                self.now, what=what, done=min(self.now.done + 1, self.now.of)
            )
