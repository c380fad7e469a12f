"""Step annotations in a program that runs a server, for the clients that record it.

A program started by `stepscope run --serve` usually annotates no steps. The program's
steps are detected as in `stepscope run` and annotated all the time, which costs almost
nothing while no recording is in progress.
"""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Final

from stepscope._core import recorder
from stepscope.capture.base import annotate
from stepscope.capture.launching.step_mark import StepMark
from stepscope.capture.launching.window import Phase

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager

_NUMBER: Final = "step_num"


class MarkedSteps:
    """Annotates counted steps until the program annotates its own steps."""

    def __init__(self, over: Callable[[], None]) -> None:
        self.counted: str | None = None
        self._over = over
        self._mark = StepMark()
        self._lock = threading.RLock()
        self._is_over = False
        # The bound method is stored once, so that it can be removed by identity.
        self._listener = self._begun

    @property
    def phase(self) -> Phase:
        """State, never `STEPS`: recordings begin and end independently of steps."""
        return Phase.OVER if self._is_over else Phase.IDLE

    def abandon(self, reason: str) -> None:
        """Stop annotating steps; `reason` has already been printed."""
        del reason
        with self._lock:
            if self._is_over:
                return
            self._is_over = True
        annotate.remove_listener(self._listener)
        self._over()

    def forget_steps(self) -> None:
        """End the current step, because another source of steps is used."""
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
        # Do not wait for devices, because recordings do not begin with a step.
        del marked, settle
        with self._lock:
            self._mark.leave()
            if self._is_over:
                return
            if recorder.is_recording():
                # The end of the last recording removed all listeners.
                annotate.add_listener(self._listener)
            self._mark.enter(first, batches, forwarded=forwarded)

    def step_ends(self, *, marked: bool = True, may_close: bool = True) -> None:
        """End the annotated step."""
        del marked, may_close
        with self._lock:
            self._mark.leave()

    def step_was_none(self, batches: int) -> None:
        """Cancel the step that was begun but did not run."""
        del batches
        with self._lock:
            self._mark.hold()

    def forked(self) -> None:
        """Reset in a forked child: a thread of the parent may hold the lock."""
        self._lock = threading.RLock()
        self._mark.forget()

    def _begun(
        self, _name: str, stats: Mapping[str, object]
    ) -> AbstractContextManager[object]:
        if _NUMBER in stats and not self._mark.marking:
            # The program itself annotates this step now.
            self._mark.hold()
            self.abandon("the program annotates its steps")
        return contextlib.nullcontext()
