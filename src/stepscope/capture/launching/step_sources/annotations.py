"""Steps that the program annotates itself, with a `step_num`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope._core import recorder
from stepscope.capture.base import annotate
from stepscope.capture.launching.counting import MARKED
from stepscope.capture.launching.harmless import harmless

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from stepscope.capture.launching.counting import StepCounter
    from stepscope.capture.launching.window import Window

_NUMBER: Final = "step_num"
#: Capacity of the recorder before a recording begins, in annotations.
_UNHEARD_OF: Final = 1


def listen_to_steps(counter: StepCounter[Window]) -> Callable[[], None]:
    """Count the outermost annotations with a step number; return a stop function."""
    steps = _MarkedSteps(counter)

    def hear_without_recording() -> None:
        # Listeners are called only while the recorder is running.
        if not recorder.is_recording():
            recorder.start_recording(_UNHEARD_OF)
        annotate.add_listener(steps.begun)

    def hear_in_child() -> None:
        annotate.forget_forwards()
        hear_without_recording()

    hear_without_recording()
    # Each recording removes all listeners at its end, so add this one again.
    counter.window.after_begin = lambda: annotate.add_listener(steps.begun)
    counter.window.after_fork = hear_in_child
    return lambda: annotate.remove_listener(steps.begun)


class _MarkedSteps:
    def __init__(self, counter: StepCounter[Window]) -> None:
        self.counter = counter
        self.depth = 0
        # The bound method is stored once, so that it can be removed by identity.
        self.begun = self._watch_annotation
        self.begins = harmless(counter.window.abandon)(self._begin_step)
        self.ends = harmless(counter.window.abandon)(self._end_step)

    def _watch_annotation(
        self, name: str, stats: Mapping[str, object]
    ) -> _StepAnnotation | _Unheard:
        window = self.counter.window
        if not window.mark.marking:
            window.annotated = True
        if _NUMBER not in stats or window.mark.marking:
            return _UNHEARD
        return _StepAnnotation(self, name, stats)

    def _begin_step(self, annotation: _StepAnnotation) -> None:
        self.depth += 1
        if self.depth > 1:
            return
        window = self.counter.window
        before = window.beginnings
        number = self.counter.begins(MARKED)
        if number is None:
            return
        if window.is_last_step(number) or window.beginnings != before:
            # Annotate the step a second time, without counting it again.
            annotation.again = annotate.Trace(annotation.name, **annotation.stats)
            with window.mark.marks():
                annotation.again.__enter__()

    def _end_step(self, annotation: _StepAnnotation) -> None:
        self.depth = max(0, self.depth - 1)
        if self.depth:
            return
        if annotation.again is not None:
            annotation.again.__exit__(None, None, None)
        # A recording that ends in this call contains only the second annotation.
        self.counter.ends(MARKED, may_close=annotation.again is not None)


class _StepAnnotation:
    """An annotation of the program with a step number.

    A recording that begins or ends inside an annotation lacks that annotation. So the
    first and the last step of the window get a second annotation, inside the program's.
    """

    __slots__ = ("_steps", "again", "name", "stats")

    def __init__(
        self, steps: _MarkedSteps, name: str, stats: Mapping[str, object]
    ) -> None:
        self._steps = steps
        self.name = name
        self.stats = stats
        self.again: annotate.Trace | None = None

    def __enter__(self) -> None:
        self._steps.begins(self)

    def __exit__(self, *_error: object) -> None:
        self._steps.ends(self)


class _Unheard:
    __slots__ = ()

    def __enter__(self) -> None:
        return

    def __exit__(self, *_error: object) -> None:
        return


_UNHEARD: Final = _Unheard()
