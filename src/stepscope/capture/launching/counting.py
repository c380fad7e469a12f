"""Counting the steps of a process, from whichever source knows them best.

Of calls that repeat, the training step is the one that hands its result to itself.
"""

from __future__ import annotations

import importlib
import threading
from collections import Counter
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

from stepscope.capture.launching.window import Phase

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

#: A step has this many parts at least, where each is a call.
_LEAST_PARTS: Final = 2


class RepeatedCalls:
    """Counts calls, and follows one of the things called: the leader.

    What hands its own result back to itself (parameters in, parameters out) leads over
    what does not: that is what a training step does, and what preparing an input or
    evaluating does not. Among equals the one that was called more often leads, and
    the first one where they are even: a call that initialises happens once, and
    whatever goes along with each step comes after it.

    A leader that begins again, with other arguments than it returned, whenever
    something else has advanced a state of its own is a part of that other's step: a
    cell that a loop in Python calls for each element, or gradients that are
    accumulated.
    """

    def __init__(self) -> None:
        self._calls: Counter[Hashable] = Counter()
        self._carries: set[Hashable] = set()
        self._leader: Hashable | None = None
        self._settled = False
        #: What led until it turned out to be a part.
        self._parts: set[Hashable] = set()
        #: What was called since the leader's last call, and what before it began again.
        self._since: set[Hashable] = set()
        self._before_anew: set[Hashable] = set()

    def count_call(self, called: Hashable, *, carries: bool = False) -> int | None:
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
            encloses_leader = (
                called in self._carries
                and called in self._before_anew
                and calls[self._leader] >= _LEAST_PARTS * calls[called]
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
        """What is followed; None before the first call."""
        return self._leader

    def keep_leader(self) -> None:
        """From now on the leader stays: its steps are being recorded."""
        self._settled = True

    def _takes_lead(self, called: Hashable) -> bool:
        if self._leader is None:
            return True
        weight, of_leader = (
            (it in self._carries, self._calls[it]) for it in (called, self._leader)
        )
        return called not in self._parts and weight > of_leader


#: The program annotates its steps itself: what it says is what is counted.
MARKED: Final = "steps that the program annotates"
#: Batches that a framework trains on.
FIT: Final = "batches of Keras fit"
#: Calls of something that repeats.
CALLS: Final = "calls"
#: A source takes over from those after it, until a window of steps is open.
_SUREST_FIRST: Final = (MARKED, FIT, CALLS)
#: A step may be this many parts, such as backward passes whose gradients are added up,
#: before the first call that ends one.
_PARTS: Final = 32


class HearsSteps(Protocol):
    """Who is told of the steps that are counted: the window of a recording, or others.

    Attributes:
        counted: What is counted as steps, for people.
    """

    counted: str | None

    @property
    def phase(self) -> Phase:
        """How far the recording has come: while steps are recorded, sources stay."""

    def abandon(self, reason: str) -> None:
        """Hear no more, because something is wrong."""

    def forget_steps(self) -> None:
        """Forget the count so far: what was counted turned out not to be the steps."""

    def step_begins(
        self,
        first: int,
        *,
        batches: int = 1,
        marked: bool = True,
        settle: Callable[[], object] | None = None,
        forwarded: bool = True,
    ) -> None:
        """Begin a step, and end the one before it; as `Window.step_begins`."""

    def step_ends(self, *, marked: bool = True, may_close: bool = True) -> None:
        """End the step; it is not known when the next one begins."""

    def step_was_none(self, batches: int) -> None:
        """Take back what had begun as a step of this many batches: it did not run."""


_Hearer_co = TypeVar("_Hearer_co", bound=HearsSteps, covariant=True)


class StepCounter(Generic[_Hearer_co]):
    """Hears of steps from several sources, and reports those of one to the window."""

    def __init__(self, window: _Hearer_co) -> None:
        self.window = window
        self._lock = threading.RLock()
        self._source = CALLS
        self._calls = RepeatedCalls()
        self._passes = RepeatedCalls()
        self._followed: tuple[str, Hashable] | None = None
        self._batches = 0
        self._muted = 0

    def call_ended(
        self,
        what: str,
        called: Hashable,
        *,
        carries: bool = False,
        settle: Callable[[], object] | None = None,
        forwarded: bool = True,
    ) -> None:
        """Something that may be a step was called, and the call is over.

        Args:
            what: What is counted if this is it, for people.
            carries: Whether an argument is what the function returned before.
            settle: Waits until it is done on the device too.
        """
        with self._lock:
            if self._muted or not self._takes_source(CALLS):
                return
            number = self._calls.count_call((what, called), carries=carries)
            if number is None or self._records_passes():
                return
            self._follow_call(what, called)
            self.window.step_begins(number + 1, settle=settle, forwarded=forwarded)
            if self.window.phase is Phase.STEPS:
                self._calls.keep_leader()

    def pass_ended(self, what: str, called: Hashable) -> None:
        """Something that is at least a part of a step is over.

        It is the step where it comes again and again, and nothing that ends a step was
        called. Steps are numbered from where that is taken for sure.
        """
        with self._lock:
            if self._muted or not self._takes_source(CALLS):
                return
            if self._calls.leads is not None and not self._records_passes():
                return
            number = self._passes.count_call((what, called))
            if number is None or number <= _PARTS:
                return
            self._follow_call(what, called)
            self.window.step_begins(number - _PARTS + 1)
            if self.window.phase is Phase.STEPS:
                self._passes.keep_leader()

    def _follow_call(self, what: str, called: Hashable) -> None:
        if (what, called) != self._followed:
            self._followed = (what, called)
            self.window.forget_steps()
        self.window.counted = what

    def _records_passes(self) -> bool:
        within = self.window.phase is Phase.STEPS
        return within and self._followed == self._passes.leads

    def begins(self, source: str, *, batches: int = 1) -> int | None:
        """A step begins; its number from 1, None where another source is counted."""
        with self._lock:
            if not self._takes_source(source):
                return None
            first = self._batches + 1
            self._batches += batches
            self.window.counted = source
            self.window.step_begins(first, batches=batches, marked=source != MARKED)
            return first

    def takes_back(self, source: str, *, batches: int) -> None:
        """Take back the step that began: it was none."""
        with self._lock:
            if source == self._source:
                self._batches -= batches
                self.window.step_was_none(batches)

    def ends(self, source: str, *, may_close: bool = True) -> None:
        """Note that the step that began has ended, and no other has begun."""
        with self._lock:
            if source == self._source:
                self.window.step_ends(marked=source != MARKED, may_close=may_close)

    def mute(self) -> None:
        """Stop counting calls until `unmute`: what is called now is no training."""
        self._muted += 1

    def unmute(self) -> None:
        """Count calls again after `mute`."""
        self._muted = max(0, self._muted - 1)

    def forked(self) -> None:
        """Count again in a child."""
        self._lock = threading.RLock()
        self._calls = RepeatedCalls()
        self._passes = RepeatedCalls()
        self._followed = None
        self._source = CALLS
        self._batches = 0
        self._muted = 0

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

#: Module of the program → module here that hears of its steps.
STEP_SOURCES: Final = {
    "stepscope.capture.ground.annotate": _HERE + "annotations",
    "keras": _HERE + "keras",
    "torch": _HERE + "torch",
    "jax": _HERE + "jax",
    "tensorflow": _HERE + "tensorflow",
}


def install_step_source(
    arrived: str, counter: StepCounter[HearsSteps]
) -> Callable[[], None]:
    """Hear of the steps of a module; return what undoes it. Raises where it cannot."""
    listen = importlib.import_module(STEP_SOURCES[arrived]).listen_to_steps
    undo: Callable[[], None] = listen(counter)
    return undo
