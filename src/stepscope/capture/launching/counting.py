"""Counting the steps of a process, from the most reliable source of steps.

If several functions are called repeatedly, the training step is the function that takes
its own last result as an argument.
"""

from __future__ import annotations

import importlib
import threading
from collections import Counter
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

from stepscope.capture.base.process_end import process_end
from stepscope.capture.base.program_log import log_line
from stepscope.capture.launching.window import Phase

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable
    from contextlib import ExitStack

#: A function called at least this often per call of another is part of its step.
_MIN_PARTS: Final = 2


class RepeatedCalls:
    """Counts calls per function, and picks the function that is the step: the leader.

    A function that receives its own last result (parameters in, parameters out) takes
    precedence: a training step does so, input preparation and evaluation do not.
    Otherwise the function with more calls is the leader. With equal counts the leader
    is the function called first: an initialisation is called once, and functions called
    within a step are called after the step's function.

    The leader may be part of a longer step, such as an RNN cell that a Python loop
    calls for each element, or a gradient accumulation. A leader in a longer step gets
    arguments other than its last result whenever the function of the longer step has
    advanced its own state, and that function becomes the leader.
    """

    def __init__(self) -> None:
        self._calls: Counter[Hashable] = Counter()
        self._carries: set[Hashable] = set()
        self._leader: Hashable | None = None
        self._settled = False
        #: Former leaders that are parts of a longer step.
        self._parts: set[Hashable] = set()
        #: Functions called since the leader's last call, and functions called before a
        #: call of the leader that did not get its last result.
        self._since: set[Hashable] = set()
        self._before_anew: set[Hashable] = set()

    def count_call(self, called: Hashable, *, carries: bool = False) -> int | None:
        """Count a call; return how often the leader was called, or None for others."""
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
            encloses_leader = (
                called in self._carries
                and called in self._before_anew
                and calls[self._leader] >= _MIN_PARTS * calls[called]
            )
            if encloses_leader:
                self._parts.add(self._leader)
            if encloses_leader or (not self._settled and self._takes_lead(called)):
                self._leader = called
                self._since.clear()
                self._before_anew.clear()
        return calls[called] if called == self._leader else None

    @property
    def leads(self) -> Hashable | None:
        """The function whose calls are the steps; None before the first call."""
        return self._leader

    def keep_leader(self) -> None:
        """Keep the current leader from now on, because its steps are recorded."""
        self._settled = True

    def _takes_lead(self, called: Hashable) -> bool:
        if self._leader is None:
            return True
        weight, of_leader = (
            (call in self._carries, self._calls[call])
            for call in (called, self._leader)
        )
        return called not in self._parts and weight > of_leader


#: Source of steps that the program annotates itself, with a step number.
MARKED: Final = "steps that the program annotates"
#: Source of steps that are the training batches of Keras `fit`.
FIT: Final = "batches of Keras fit"
#: Source of steps that are repeated calls of one function.
CALLS: Final = "calls"
#: All sources of steps, the most reliable first. Until a step window opens, a more
#: reliable source replaces the source in use.
_SUREST_FIRST: Final = (MARKED, FIT, CALLS)
#: Number of backward passes without an optimizer step after which each pass counts as a
#: step: fewer passes may accumulate the gradients of one step.
_MIN_PASSES: Final = 32


class StepListener(Protocol):
    """Receiver of counted steps, such as the window of a recording.

    Attributes:
        counted: Description of what is counted as steps, shown to the user.
    """

    counted: str | None

    @property
    def phase(self) -> Phase:
        """State of the recording; in `STEPS`, the source of steps cannot change."""

    def abandon(self, reason: str) -> None:
        """Stop receiving steps because of an error."""

    def forget_steps(self) -> None:
        """Discard the step count so far, because another source of steps is used."""

    def step_begins(
        self,
        first: int,
        *,
        batches: int = 1,
        marked: bool = True,
        settle: Callable[[], object] | None = None,
        forwarded: bool = True,
    ) -> None:
        """End the current step and begin the next one, as `Window.step_begins`."""

    def step_ends(self, *, marked: bool = True, may_close: bool = True) -> None:
        """End the current step; the next step begins at an unknown later time."""

    def step_was_none(self, batches: int) -> None:
        """Cancel the step of N batches that was begun but did not run."""


_Hearer_co = TypeVar("_Hearer_co", bound=StepListener, covariant=True)


class StepCounter(Generic[_Hearer_co]):
    """Receives steps of several sources; reports those of one source to the window."""

    def __init__(self, window: _Hearer_co) -> None:
        self.window = window
        self.forked()

    def forked(self) -> None:
        """Reset all counts, at the beginning and in a forked child process."""
        self._lock = threading.RLock()
        self._calls = RepeatedCalls()
        self._passes = RepeatedCalls()
        self._followed: tuple[str, Hashable] | None = None
        self._source = CALLS
        self._batches = 0
        self._muted = 0

    def call_ended(
        self,
        title: str,
        called: Hashable,
        *,
        carries: bool = False,
        settle: Callable[[], object] | None = None,
        forwarded: bool = True,
    ) -> None:
        """Note that a call that may be a step has ended.

        Args:
            title: Description of these calls, shown to the user if they are the steps.
            carries: Whether an argument is the function's own last result.
            settle: Waits until the device has finished the call.
        """
        with self._lock:
            if self._muted or not self._takes_source(CALLS):
                return
            number = self._calls.count_call((title, called), carries=carries)
            if number is None or self._records_passes():
                return
            self._follow_call(title, called)
            self.window.step_begins(number + 1, settle=settle, forwarded=forwarded)
            if self.window.phase is Phase.STEPS:
                self._calls.keep_leader()

    def pass_ended(self, title: str, called: Hashable) -> None:
        """Note that a call that is at least part of a step has ended.

        Each backward pass counts as a step if passes repeat and no optimizer steps.
        Steps are numbered from the first pass that counts.
        """
        with self._lock:
            if self._muted or not self._takes_source(CALLS):
                return
            if self._calls.leads is not None and not self._records_passes():
                return
            number = self._passes.count_call((title, called))
            if number is None or number <= _MIN_PASSES:
                return
            self._follow_call(title, called)
            self.window.step_begins(number - _MIN_PASSES + 1)
            if self.window.phase is Phase.STEPS:
                self._passes.keep_leader()

    def _follow_call(self, title: str, called: Hashable) -> None:
        if (title, called) != self._followed:
            self._followed = (title, called)
            self.window.forget_steps()
        self.window.counted = title

    def _records_passes(self) -> bool:
        within = self.window.phase is Phase.STEPS
        return within and self._followed == self._passes.leads

    def begins(self, source: str, *, batches: int = 1) -> int | None:
        """Begin a step; return its number, from 1; None if the source is not in use."""
        with self._lock:
            if not self._takes_source(source):
                return None
            first = self._batches + 1
            self._batches += batches
            self.window.counted = source
            self.window.step_begins(first, batches=batches, marked=source != MARKED)
            return first

    def cancel_step(self, source: str, *, batches: int) -> None:
        """Cancel the step that was begun but did not run."""
        with self._lock:
            if source == self._source:
                self._batches -= batches
                self.window.step_was_none(batches)

    def ends(self, source: str, *, may_close: bool = True) -> None:
        """End the step in progress; the next step has not begun."""
        with self._lock:
            if source == self._source:
                self.window.step_ends(marked=source != MARKED, may_close=may_close)

    def mute(self) -> None:
        """Ignore calls until `unmute`, because the program is evaluating."""
        self._muted += 1

    def unmute(self) -> None:
        """Count calls again after `mute`."""
        self._muted = max(0, self._muted - 1)

    def _takes_source(self, source: str) -> bool:
        if source == self._source:
            return True
        rank = _SUREST_FIRST.index
        if self.window.phase is Phase.STEPS or rank(source) > rank(self._source):
            return False
        self._source = source
        self._batches = 0
        self.window.forget_steps()
        return True


_HERE: Final = "stepscope.capture.launching.step_sources."

#: Module that the program imports → stepscope module that counts its steps.
STEP_SOURCES: Final = {
    "stepscope.capture.base.annotate": _HERE + "annotations",
    "keras": _HERE + "keras",
    "torch": _HERE + "torch",
    "jax": _HERE + "jax",
    "tensorflow": _HERE + "tensorflow",
}


def install_step_source(
    arrived: str, counter: StepCounter[StepListener], undo: ExitStack
) -> None:
    """Count the steps of an imported module until `undo` is closed, or say why not."""
    try:
        with process_end.undisturbed():
            listen = importlib.import_module(STEP_SOURCES[arrived]).listen_to_steps
            undo.callback(listen(counter))
    except (ImportError, AttributeError) as missing:
        log_line(f"steps of this version of {arrived} cannot be counted: {missing}")
