"""Threads of the program that annotate: what they do is worth a look."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

#: The system's ids. One process has one recording, so it has one such set.
_threads: set[int] = set()


def note_annotating(threads: Iterable[int]) -> None:
    """Remember the system's ids of threads that annotated."""
    _threads.update(threads)


def annotating() -> frozenset[int]:
    """Return the threads that annotated since the recording began."""
    return frozenset(_threads)


def forget_annotating() -> None:
    """Forget all: another recording begins."""
    _threads.clear()
