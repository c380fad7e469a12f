"""Annotations of any Python program: named intervals and steps.

Annotations need no framework, and cost almost nothing while no recording is under way.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections import Counter
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar, overload

from stepscope._core import recorder
from stepscope._core.recorder import Trace
from stepscope.errors import NO_FRAME

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from contextlib import AbstractContextManager

    Forward = Callable[[str, Mapping[str, object]], AbstractContextManager[object]]

__all__ = [
    "StepTrace",
    "Trace",
    "add_forward",
    "add_listener",
    "at_first_annotation",
    "enter_beside_framework",
    "forget_forwards",
    "mark_step",
    "remove_forward",
    "remove_listener",
    "trace_function",
]

_P = ParamSpec("_P")
_R = TypeVar("_R")

#: Flag in the code object of an `async def` function.
_COROUTINE: Final = 0x80

#: Maximum number of annotations kept before a forked child's own recording begins.
_FIRST_ANNOTATIONS: Final = 65_536


class _Receivers:
    def __init__(self) -> None:
        self.framework: Forward | None = None
        self.listeners: list[Forward] = []


_receivers: Final = _Receivers()
#: Reentrant, because a listener may remove itself while it handles an annotation.
_receivers_lock = threading.RLock()


class StepTrace(Trace):
    """An annotation of one training step; every tool uses it as the step's bounds.

        with ss.StepTrace(i):
            batch = next(batches)
            train_step(batch)

    All steps of one loop share one `name`.
    """

    __slots__ = ()

    def __init__(self, step: int, name: str = "train", **stats: object) -> None:
        super().__init__(name, step_num=step, _r=1, **stats)


def mark_step(step: int, name: str = "train") -> None:
    """Mark the start of step `step`, which also ends the step before it.

    Use `mark_step` for a loop whose body does not fit into a `with` block. `ss.stop()`
    ends the last step. Only one loop per process may use `mark_step`.
    """
    recorder.mark_step(step, name)


@overload
def trace_function(function: Callable[_P, _R], /) -> Callable[_P, _R]: ...
@overload
def trace_function(
    name: str | None = None, /, **stats: object
) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]: ...
def trace_function(
    function: Callable[_P, _R] | str | None = None, /, **stats: object
) -> Callable[_P, _R] | Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Annotate every call of a function, under the function's name or a given name.

        @ss.trace_function
        def load(): ...

        @ss.trace_function("augment", kind="image")
        def augment(batch): ...

    The annotation of a coroutine lasts until the coroutine ends, waiting included.
    """
    if callable(function):
        return _wrap_in_trace(function, function.__qualname__, stats)
    name = function

    def decorate_function(function: Callable[_P, _R]) -> Callable[_P, _R]:
        return _wrap_in_trace(function, name or function.__qualname__, stats)

    return decorate_function


def add_forward(make: Forward) -> None:
    """Forward annotations to a framework that records at the same time.

    Only the framework that was added last receives annotations. Recordings of several
    frameworks become one profile, which would otherwise contain each annotation twice.

    Args:
        make: Called with name and values when an annotation begins; returns the
            framework's context manager. If `make` raises, neither the framework nor any
            listener receives the annotation.
    """
    with _receivers_lock:
        _receivers.framework = make
        _set_forward()


def remove_forward(make: Forward) -> bool:
    """Stop forwarding to a framework; call it before the framework's recording stops.

    An annotation that is open when forwarding stops counts as not forwarded.

    Returns:
        Whether this framework received annotations until now.
    """
    with _receivers_lock:
        was_given = _receivers.framework == make
        if was_given:
            _receivers.framework = None
        _set_forward()
    return was_given


def add_listener(make: Forward) -> None:
    """Report annotations to a listener, which must not record; add it only once."""
    with _receivers_lock:
        if make not in _receivers.listeners:
            _receivers.listeners.append(make)
        _set_forward()


def remove_listener(make: Forward) -> None:
    """Stop reporting annotations to a listener."""
    with _receivers_lock:
        if make in _receivers.listeners:
            _receivers.listeners.remove(make)
        _set_forward()


def enter_beside_framework(annotation: Trace) -> None:
    """Begin an annotation that listeners receive, but the framework does not."""
    with _receivers_lock:
        _set_forward(to_framework=False)
        try:
            annotation.__enter__()
        finally:
            _set_forward()


def at_first_annotation(begin: Callable[[], object]) -> None:
    """Call `begin` when the next annotation begins; that annotation is recorded.

    A forked child that never annotates thus costs nothing and leaves no file.
    """

    def begin_when_annotated(
        _name: str, _stats: Mapping[str, object]
    ) -> AbstractContextManager[object]:
        recorder.set_forward(None)
        begin()
        raise LookupError("no framework records at the same time")

    recorder.start_recording(_FIRST_ANNOTATIONS)
    recorder.set_forward(begin_when_annotated)


def forget_forwards() -> None:
    """In a forked child, forget the framework and listeners of the parent process."""
    global _receivers_lock  # noqa: PLW0603 - the parent may have held the lock
    _receivers_lock = threading.RLock()
    _receivers.framework = None
    _receivers.listeners.clear()


def _set_forward(*, to_framework: bool = True) -> None:
    framework = _receivers.framework if to_framework else None
    first = () if framework is None else (framework,)
    factories = (*first, *_receivers.listeners)
    if len(factories) < 2:
        recorder.set_forward(factories[0] if factories else None, keeps=bool(first))
    else:
        recorder.set_forward(
            lambda name, stats: _Several([make(name, stats) for make in factories]),
            keeps=bool(first),
        )


class _Several:
    __slots__ = ("_annotations",)

    def __init__(self, annotations: list[AbstractContextManager[object]]) -> None:
        self._annotations = annotations

    def __enter__(self) -> None:
        for annotation in self._annotations:
            annotation.__enter__()

    def __exit__(self, *error: object) -> None:
        for annotation in reversed(self._annotations):
            annotation.__exit__(*error)  # type: ignore[arg-type]


def _wrap_in_trace(
    function: Callable[_P, _R], name: str, stats: Mapping[str, object]
) -> Callable[_P, _R]:
    code = getattr(function, "__code__", None)
    if code is not None and code.co_flags & _COROUTINE:

        @functools.wraps(function)
        async def traced_coroutine(*args: _P.args, **kwargs: _P.kwargs) -> object:
            with NO_FRAME, Trace(name, **stats):
                return await function(*args, **kwargs)  # type: ignore[misc]

        return traced_coroutine  # type: ignore[return-value]

    @functools.wraps(function)
    def traced_function(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        with NO_FRAME, Trace(name, **stats):
            return function(*args, **kwargs)

    return traced_function


#: System thread ids; a single set, because a process has a single recording.
_threads: set[int] = set()


def note_annotating(threads: Iterable[int]) -> None:
    """Add the system ids of threads that made annotations."""
    _threads.update(threads)


def annotating_threads() -> frozenset[int]:
    """Return the system ids of threads that made annotations in this recording."""
    return frozenset(_threads)


def forget_annotating() -> None:
    """Clear the set of annotating threads, because another recording begins."""
    _threads.clear()


class StepsBegun:
    """A listener that counts the steps of one recording inside its `with` block."""

    def __init__(self, steps: int, enough: threading.Event) -> None:
        """Set an event when enough whole steps have passed.

        Args:
            steps: Number of whole steps. A step ends where the next step of its name
                begins. The step under way at the start does not count, because its
                annotation is not recorded. Steps of different names (training and
                validation, or one loop annotated twice) are counted separately.
            enough: Event to set when the steps of one name reach the number.
        """
        self._steps = steps
        self._begun: Counter[str] = Counter()
        self._enough = enough

    def __enter__(self) -> None:
        add_listener(self.begins)

    def __exit__(self, *error: object) -> None:
        remove_listener(self.begins)

    def begins(
        self, name: str, stats: Mapping[str, object]
    ) -> AbstractContextManager[object]:
        """Count an annotation that begins, if it marks a step."""
        if "_r" in stats:
            if self._begun[name] == self._steps:
                self._enough.set()
            self._begun[name] += 1
        return contextlib.nullcontext()
