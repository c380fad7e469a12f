"""Steps that the program announces itself, with annotations that carry `step_num`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope._core import recorder
from stepscope.capture.ground import annotate
from stepscope.capture.launching.counting import MARKED
from stepscope.capture.launching.harmless import harmless

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType

    from stepscope.capture.launching.counting import StepCounter
    from stepscope.capture.launching.window import Window

_NUMBER: Final = "step_num"
#: Annotations that are kept before the first step begins a recording.
_UNHEARD_OF: Final = 1


def listen(counter: StepCounter[Window]) -> Callable[[], None]:
    """Count the outermost annotations with a step number; what ends it."""
    steps = _OwnSteps(counter)

    def hear() -> None:
        # The end of a recording ends all forwarding.
        annotate.add_listener(steps.begun)

    def hear_without_recording() -> None:
        # Annotations are heard of only while they are kept.
        if not recorder.enabled():
            recorder.enable(_UNHEARD_OF)
        hear()

    def hear_in_child() -> None:
        annotate.forget_forwards()
        hear_without_recording()

    hear_without_recording()
    counter.window.after_begin = hear
    counter.window.after_fork = hear_in_child

    def undo() -> None:
        annotate.remove_listener(steps.begun)

    return undo


class _OwnSteps:
    """The program's own steps, as they begin and end."""

    def __init__(self, counter: StepCounter[Window]) -> None:
        self.counter = counter
        self.depth = 0
        # One bound method, so that it can be removed.
        self.begun = self._begun
        self.begins = harmless(counter.window.abandon)(self._begins)
        self.ends = harmless(counter.window.abandon)(self._ends)

    def _begun(self, name: str, stats: Mapping[str, object]) -> _Heard | _Unheard:
        """Return what is to hear the end of an annotation that begins."""
        window = self.counter.window
        if not window.mark.marking:
            window.annotated = True
        if _NUMBER not in stats or window.mark.marking:
            return _UNHEARD
        return _Heard(self, name, stats)

    def _begins(self, heard: _Heard) -> None:
        self.depth += 1
        if self.depth > 1:
            return
        window = self.counter.window
        before = window.beginnings
        number = self.counter.begins(MARKED)
        if number is None:
            return
        if window.ends_with(number) or window.beginnings != before:
            heard.enter_again(self)

    def _ends(self, heard: _Heard) -> None:
        self.depth = max(0, self.depth - 1)
        if self.depth:
            return
        if heard.again is not None:
            heard.again.__exit__(None, None, None)
        # A recording that ends here keeps only what was annotated once more.
        self.counter.ends(MARKED, may_close=heard.again is not None)


class _Heard:
    """One annotation with a step number.

    A recording that begins or ends within an annotation does not keep it. So the first
    and the last step of the window are annotated once more, inside.
    """

    __slots__ = ("_name", "_stats", "_steps", "again")

    def __init__(
        self, steps: _OwnSteps, name: str, stats: Mapping[str, object]
    ) -> None:
        self._steps = steps
        self._name = name
        self._stats = stats
        self.again: annotate.Trace | None = None

    def enter_again(self, steps: _OwnSteps) -> None:
        """Annotate the step once more, without counting it again."""
        self.again = annotate.Trace(self._name, **self._stats)
        with steps.counter.window.mark.marks():
            self.again.__enter__()

    def __enter__(self) -> None:
        self._steps.begins(self)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._steps.ends(self)


class _Unheard:
    """An annotation that is no step."""

    __slots__ = ()

    def __enter__(self) -> None:
        return

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        return


_UNHEARD: Final = _Unheard()
