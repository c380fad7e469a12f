"""Which of the calls that repeat is the training step, and how often it was called."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Hashable

#: A step has so many parts at least, where each is a call.
_PARTS: Final = 2


class RepeatedCalls:
    """Counts calls, and follows one of the things called: the leader.

    What hands its own result back to itself (parameters in, parameters out) leads over
    what does not: that is what a training step does, and what preparing an input or
    evaluating does not. Among equals the one that was called more often leads, and
    the first one where they are even: a call that initialises happens once, and
    whatever goes along with each step comes after it.

    A leader that begins anew, with other arguments than it returned, whenever something
    else has advanced a state of its own is a part of that other's step: a cell that a
    loop in Python calls for each element, or gradients that are accumulated.
    """

    def __init__(self) -> None:
        self._calls: Counter[Hashable] = Counter()
        self._carries: set[Hashable] = set()
        self._leader: Hashable | None = None
        self._settled = False
        #: What led until it turned out to be a part.
        self._parts: set[Hashable] = set()
        #: What was called since the leader's last call, and what before it began anew.
        self._since: set[Hashable] = set()
        self._before_anew: set[Hashable] = set()

    def ended(self, called: Hashable, *, carries: bool = False) -> int | None:
        """Count a call; its number from 1 if it is the leader's, else None."""
        calls = self._calls
        calls[called] += 1
        if called == self._leader:
            if called in self._carries and not carries:
                self._before_anew |= self._since
            self._since.clear()
        else:
            self._since.add(called)
        if carries:
            self._carries.add(called)
        if called != self._leader:
            if self._encloses_leader(called):
                self._parts.add(self._leader)
                self._follow(called)
            elif not self._settled and self._leads(called):
                self._follow(called)
        return calls[called] if called == self._leader else None

    @property
    def leads(self) -> Hashable | None:
        """What is followed; None before the first call."""
        return self._leader

    def settle(self) -> None:
        """From now on the leader stays: its steps are being recorded."""
        self._settled = True

    def _follow(self, called: Hashable) -> None:
        self._leader = called
        self._since.clear()
        self._before_anew.clear()

    def _encloses_leader(self, called: Hashable) -> bool:
        calls = self._calls
        return (
            called in self._carries
            and called in self._before_anew
            and calls[self._leader] >= _PARTS * calls[called]
        )

    def _leads(self, called: Hashable) -> bool:
        if self._leader is None:
            return True
        if called in self._parts:
            return False
        return self._weight(called) > self._weight(self._leader)

    def _weight(self, called: Hashable) -> tuple[bool, int]:
        return called in self._carries, self._calls[called]
