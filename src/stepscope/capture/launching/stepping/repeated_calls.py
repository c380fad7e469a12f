"""Which of the calls that repeat is the training step, and how often it was called."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable

__all__ = ["RepeatedCalls"]


class RepeatedCalls:
    """Counts calls, and follows one of the things called: the leader.

    What hands its own result back to itself (parameters in, parameters out) leads over
    what does not: that is what a training step does, and what preparing an input or
    evaluating does not. Among equals the one that was called more often leads, and
    the first one where they are even: a call that initialises happens once, and
    whatever goes along with each step comes after it.
    """

    def __init__(self) -> None:
        self._calls: Counter[Hashable] = Counter()
        self._carries: set[Hashable] = set()
        self._leader: Hashable | None = None
        self._settled = False

    def ended(self, called: Hashable, *, carries: bool = False) -> int | None:
        """Count a call; its number from 1 if it is the leader's, else None."""
        calls = self._calls
        calls[called] += 1
        if carries:
            self._carries.add(called)
        if called != self._leader and not self._settled and self._leads(called):
            self._leader = called
        return calls[called] if called == self._leader else None

    def settle(self) -> None:
        """From now on the leader stays: its steps are being recorded."""
        self._settled = True

    def _leads(self, called: Hashable) -> bool:
        if self._leader is None:
            return True
        return self._weight(called) > self._weight(self._leader)

    def _weight(self, called: Hashable) -> tuple[bool, int]:
        return called in self._carries, self._calls[called]
