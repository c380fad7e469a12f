"""What several tables need is computed when the first of them asks."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

_Value = TypeVar("_Value")


def once(compute: Callable[[], _Value]) -> Callable[[], _Value]:
    """Defer a computation to the first call; all calls, from any thread, share it."""
    lock = threading.Lock()
    kept: list[_Value] = []

    def value() -> _Value:
        with lock:
            if not kept:
                kept.append(compute())
            return kept[0]

    return value
