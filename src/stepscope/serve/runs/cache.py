"""A cache that never grows beyond a number of bytes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Hashable

Value = TypeVar("Value")


class Bounded(Generic[Value]):
    """Values by key; where the bytes run out the least recently used is dropped.

    Several threads may use it. A value larger than the bound is not kept.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._held: OrderedDict[Hashable, tuple[Value, int]] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    @property
    def held_bytes(self) -> int:
        """Return the bytes of all values together."""
        return self._bytes

    def get(self, key: Hashable) -> Value | None:
        """Return the value of a key and mark it as used; None where there is none."""
        with self._lock:
            if key not in self._held:
                return None
            self._held.move_to_end(key)
            return self._held[key][0]

    def put(self, key: Hashable, value: Value, *, cost_bytes: int) -> None:
        """Keep a value, and drop others until all fit."""
        with self._lock:
            self._drop(key)
            if cost_bytes > self._most_bytes:
                return
            while self._held and self._bytes + cost_bytes > self._most_bytes:
                self._drop(next(iter(self._held)))
            self._held[key] = (value, cost_bytes)
            self._bytes += cost_bytes

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._held.clear()
            self._bytes = 0

    def _drop(self, key: Hashable) -> None:
        found = self._held.pop(key, None)
        if found is not None:
            self._bytes -= found[1]
