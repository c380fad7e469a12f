"""Counting steps that begin, to end a recording after so many."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import threading
    from collections.abc import Mapping
    from contextlib import AbstractContextManager

__all__ = ["StepsBegun"]


class StepsBegun:
    """A listener to annotations (`annotate.add_listener`), of one recording."""

    def __init__(self, steps: int, enough: threading.Event) -> None:
        """Set an event when as many whole steps have passed.

        Args:
            steps: A step is over where the next one begins; the one that is under way
                at first does not count, since its annotation is not recorded.
            enough: Is set then.
        """
        self._left = steps
        self._enough = enough

    def begins(
        self, _name: str, stats: Mapping[str, object]
    ) -> AbstractContextManager[object]:
        """Take note of an annotation that begins."""
        if "_r" in stats:
            if self._left == 0:
                self._enough.set()
            self._left = max(0, self._left - 1)
        return contextlib.nullcontext()
