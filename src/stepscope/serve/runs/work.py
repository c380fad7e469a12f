"""What the server is computing, for whoever waits for it."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Work", "Working"]


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """One computation.

    Attributes:
        run: Id of the run.
        what: The stage that it is in.
        done: Stages behind it.
        of: All its stages.
        since_s: When it began, on the monotonic clock.
    """

    run: str
    what: str
    done: int
    of: int
    since_s: float


class Working:
    """Tells of the one computation that runs; written by it, read by anyone."""

    def __init__(self) -> None:
        # A whole value is put in its place at once, so readers need no lock.
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
        """Say what is done next; the stage before is finished."""
        if self.now is not None:
            self.now = msgspec.structs.replace(
                self.now, what=what, done=min(self.now.done + 1, self.now.of)
            )
