"""A cache with a maximum size in bytes, and the progress of the current computation."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from contextlib import contextmanager
from typing import TYPE_CHECKING, Generic, TypeVar

import msgspec

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

Value = TypeVar("Value")


class Bounded(Generic[Value]):
    """A cache of values by key, up to a total size; it drops the least recently used.

    The cache is thread-safe. A value larger than the maximum size is not kept.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._held_profile: OrderedDict[Hashable, tuple[Value, int]] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    @property
    def held_bytes(self) -> int:
        """Return the size of all values in the cache, in bytes."""
        return self._bytes

    def get_value(self, key: Hashable) -> Value | None:
        """Return the value of a key, and mark the value as used; None if not kept."""
        with self._lock:
            if key not in self._held_profile:
                return None
            self._held_profile.move_to_end(key)
            return self._held_profile[key][0]

    def put_value(self, key: Hashable, value: Value, *, cost_bytes: int) -> None:
        """Keep a value, and drop other values until the total size is small enough."""
        with self._lock:
            self._drop_value(key)
            if cost_bytes > self._max_bytes:
                return
            while self._held_profile and self._bytes + cost_bytes > self._max_bytes:
                self._drop_value(next(iter(self._held_profile)))
            self._held_profile[key] = (value, cost_bytes)
            self._bytes += cost_bytes

    def forget_values(self) -> None:
        """Drop all values of the cache."""
        with self._lock:
            self._held_profile.clear()
            self._bytes = 0

    def _drop_value(self, key: Hashable) -> None:
        dropped = self._held_profile.pop(key, None)
        if dropped is not None:
            self._bytes -= dropped[1]


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """Progress of a computation."""

    run: str
    what: str
    done: int
    of: int
    since_s: float


class Working:
    """Progress of the current computation, readable by any thread."""

    def __init__(self) -> None:
        # `now` is replaced as a whole, so readers need no lock.
        self.now: Work | None = None

    @contextmanager
    def announce_work(self, run: str, *, stages: int) -> Iterator[None]:
        """Announce a computation for as long as the context lasts."""
        self.now = Work(run=run, what="", done=-1, of=stages, since_s=time.monotonic())
        try:
            yield
        finally:
            self.now = None

    def stage(self, title: str) -> None:
        """Announce the next stage; the previous one is finished."""
        if self.now is not None:
            self.now = msgspec.structs.replace(
                self.now, what=title, done=min(self.now.done + 1, self.now.of)
            )
