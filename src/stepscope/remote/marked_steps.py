"""Annotating the steps of a program that listens, for whoever records it.

A program that was started by `stepscope run --serve` annotates nothing itself as a
rule. Its steps are found as `stepscope run` finds them, and annotated all the time, at
next to no cost while nobody records.
"""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Final

from stepscope._core import recorder
from stepscope.capture.ground import annotate
from stepscope.capture.launching.step_mark import StepMark
from stepscope.capture.launching.window import Phase

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager

_NUMBER: Final = "step_num"


class MarkedSteps:
    """Annotates steps that are counted, until the program annotates its own."""

    def __init__(self, over: Callable[[], None]) -> None:
        self.counted: str | None = None
        self._over = over
        self._mark = StepMark()
        self._lock = threading.RLock()
        self._is_over = False
        # One bound method, so that it can be removed.
        self._listener = self._begun

    @property
    def phase(self) -> Phase:
        """Always the same: recordings begin and end without asking the steps."""
        return Phase.OVER if self._is_over else Phase.IDLE

    def abandon(self, reason: str) -> None:
        """Annotate no more steps; `reason` has been said."""
        del reason
        with self._lock:
            if self._is_over:
                return
            self._is_over = True
        annotate.remove_listener(self._listener)
        self._over()

    def forget_steps(self) -> None:
        """Let go of the step under way: another source counts from here on."""
        with self._lock:
            self._mark.leave()

    def step_begins(
        self,
        first: int,
        *,
        batches: int = 1,
        marked: bool = True,
        settle: Callable[[], object] | None = None,
        forwarded: bool = True,
    ) -> None:
        """Annotate a step, and end the one before it."""
        # Nothing is waited for: a recording does not begin with a step here.
        del marked, settle
        with self._lock:
            self._mark.leave()
            if self._is_over:
                return
            if recorder.is_recording():
                # The end of the last recording ended all listening.
                annotate.add_listener(self._listener)
            self._mark.enter(first, batches, forwarded=forwarded)

    def step_ends(self, *, marked: bool = True, may_close: bool = True) -> None:
        """End the step that is annotated."""
        del marked, may_close
        with self._lock:
            self._mark.leave()

    def step_was_none(self, batches: int) -> None:
        """Take the step back: it did not run."""
        del batches
        with self._lock:
            self._mark.hold()

    def forked(self) -> None:
        """Begin again in a child: another thread may have held the lock."""
        self._lock = threading.RLock()
        self._mark.forget()

    def _begun(
        self, _name: str, stats: Mapping[str, object]
    ) -> AbstractContextManager[object]:
        if _NUMBER in stats and not self._mark.marking:
            # What is under way is a step of the program's, which is annotated now.
            self._mark.hold()
            self.abandon("the program annotates its steps")
        return contextlib.nullcontext()
