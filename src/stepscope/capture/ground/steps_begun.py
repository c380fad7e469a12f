"""Counting steps that begin, to end a recording after so many."""

from __future__ import annotations

import contextlib
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import threading
    from collections.abc import Mapping
    from contextlib import AbstractContextManager


class StepsBegun:
    """A listener to annotations (`annotate.add_listener`), of one recording."""

    def __init__(self, steps: int, enough: threading.Event) -> None:
        """Set an event when as many whole steps have passed.

        Args:
            steps: A step is over where the next one of its name begins; the one that
                is under way at first does not count, since its annotation is not
                recorded. Steps of several names (training and validation, or one
                loop that is annotated twice) are counted apart.
            enough: Is set when those of one name are enough.
        """
        self._steps = steps
        self._begun: Counter[str] = Counter()
        self._enough = enough

    def begins(
        self, name: str, stats: Mapping[str, object]
    ) -> AbstractContextManager[object]:
        """Take note of an annotation that begins."""
        if "_r" in stats:
            if self._begun[name] == self._steps:
                self._enough.set()
            self._begun[name] += 1
        return contextlib.nullcontext()
