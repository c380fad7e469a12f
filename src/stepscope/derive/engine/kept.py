"""Values that are computed once, whoever asks for them first."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable


class Kept:
    """Values by key; while one thread computes a value, others that ask for it wait."""

    def __init__(self) -> None:
        self._values: dict[Hashable, object] = {}
        self._being_computed: dict[Hashable, threading.RLock] = {}
        self._lock = threading.Lock()

    def __contains__(self, key: Hashable) -> bool:
        return key in self._values

    def get(self, key: Hashable, compute: Callable[[], object]) -> object:
        """Return the value of a key; an error of `compute` is not kept."""
        with self._lock:
            if key in self._values:
                return self._values[key]
            own = self._being_computed.setdefault(key, threading.RLock())
        with own:
            if key not in self._values:
                value = compute()
                with self._lock:
                    self._values[key] = value
                    del self._being_computed[key]
            return self._values[key]
