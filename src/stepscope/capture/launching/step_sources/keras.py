"""Keras: a step of `fit` begins where its callbacks are called for a batch.

The list of callbacks is listened to, not joined: one callback more could switch off
Keras's asynchronous dispatch, and programs look at the list. In a loop of the program's
own a step ends when an optimizer has changed the variables outside of a graph function.
"""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any, Final

from stepscope.capture.launching.counting import FIT
from stepscope.capture.launching.harmless import harmless
from stepscope.errors import NO_FRAME

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepscope.capture.launching.counting import HearsSteps, StepCounter

_UPDATES: Final = "updates of the optimizer (Keras)"


def listen(counter: StepCounter[HearsSteps]) -> Callable[[], None]:
    """Count the batches of every `fit`, and updates outside of it; what ends it.

    Raises:
        AttributeError: This version keeps its callbacks or its update elsewhere.
    """
    from keras.callbacks import CallbackList  # noqa: PLC0415 - the user's
    from keras.optimizers import Optimizer  # noqa: PLC0415 - the user's

    fit = _Fit(counter)

    def evaluation_begins(callbacks: Any, *_: object) -> None:
        # What a callback of a batch evaluates is a part of the step.
        if not fit.calling:
            fit.pauses(callbacks)
        counter.mute()

    def evaluation_ends(callbacks: Any, *_: object) -> None:
        del callbacks
        counter.unmute()

    heard: dict[str, Callable[..., object]] = {
        "on_train_batch_begin": fit.batch_begins,
        "on_train_batch_end": fit.batch_ends,
        "on_epoch_end": fit.pauses,
        "on_train_end": fit.pauses,
        "on_test_begin": evaluation_begins,
        "on_test_end": evaluation_ends,
        "on_predict_begin": evaluation_begins,
        "on_predict_end": evaluation_ends,
    }
    undone = [
        _before(CallbackList, name, harmless(counter.window.abandon)(hook))
        for name, hook in heard.items()
    ]
    undone += [
        _within(CallbackList, name, fit)
        for name in ("on_train_batch_begin", "on_train_batch_end")
    ]

    @harmless(counter.window.abandon)
    def updated(optimizer: Any, *_: object) -> None:
        if _runs_at_once():
            # An update leads over calls that repeat more often: it is what trains.
            counter.call_ended(_UPDATES, id(optimizer), carries=True)

    undone.append(_after(Optimizer, "apply", updated))

    def undo() -> None:
        # What was put around something goes first.
        for restore in reversed(undone):
            restore()

    return undo


class _Fit:
    """The batches of `fit`, as its list of callbacks is called for them."""

    def __init__(self, counter: StepCounter[HearsSteps]) -> None:
        self._counter = counter
        self._begun = 0  # batches of the execution that began and has not ended
        #: Whether callbacks are being called for a batch.
        self.calling = False

    def batch_begins(self, callbacks: Any, batch: int = 0, *_: object) -> None:
        self._begun = _batches(callbacks, batch)
        self._counter.begins(FIT, batches=self._begun)

    def batch_ends(self, callbacks: Any, *_: object) -> None:
        del callbacks
        self._begun = 0

    def pauses(self, callbacks: Any, *_: object) -> None:
        del callbacks
        if self._begun:
            # Where Keras does not know how many batches there are, it learns it from
            # an execution that finds none.
            self._counter.takes_back(FIT, batches=self._begun)
            self._begun = 0
        self._counter.ends(FIT)


def _runs_at_once() -> bool:
    """Return whether what is called runs now; TensorFlow may be tracing a graph."""
    tensorflow = sys.modules.get("tensorflow")
    return tensorflow is None or bool(tensorflow.executing_eagerly())


def _before(owner: type, name: str, hook: Callable[..., object]) -> Callable[[], None]:
    """Call `hook` before a method of a class; what ends it."""
    method = getattr(owner, name)

    @functools.wraps(method)
    def heard(self: Any, *args: Any, **kwargs: Any) -> Any:
        hook(self, *args, *kwargs.values())
        with NO_FRAME:
            return method(self, *args, **kwargs)

    return _replaced(owner, name, heard)


def _within(owner: type, name: str, fit: _Fit) -> Callable[[], None]:
    """Note while a method of a class calls what the program does; what ends it."""
    method = getattr(owner, name)

    @functools.wraps(method)
    def heard(self: Any, *args: Any, **kwargs: Any) -> Any:
        around, fit.calling = fit.calling, True
        try:
            with NO_FRAME:
                return method(self, *args, **kwargs)
        finally:
            fit.calling = around

    return _replaced(owner, name, heard)


def _after(owner: type, name: str, hook: Callable[..., object]) -> Callable[[], None]:
    """Call `hook` after a method of a class has returned; what ends it."""
    method = getattr(owner, name)

    @functools.wraps(method)
    def heard(self: Any, *args: Any, **kwargs: Any) -> Any:
        with NO_FRAME:
            result = method(self, *args, **kwargs)
        hook(self)
        return result

    return _replaced(owner, name, heard)


def _replaced(
    owner: type, name: str, heard: Callable[..., object]
) -> Callable[[], None]:
    """Put a function in the place of a method; what puts the method back."""
    method = getattr(owner, name)
    setattr(owner, name, heard)

    def undo() -> None:
        if getattr(owner, name) is heard:
            setattr(owner, name, method)

    return undo


def _batches(callbacks: Any, batch: int) -> int:
    """Batches in the execution that begins with this one of the epoch."""
    # Asking for `model` would wait for the device.
    model = getattr(callbacks, "_model", None)
    batches = getattr(model, "steps_per_execution", 1)
    if not isinstance(batches, int) or batches < 1:
        batches = 1
    in_epoch = (getattr(callbacks, "params", None) or {}).get("steps")
    if isinstance(in_epoch, int) and in_epoch > batch:
        return min(batches, in_epoch - batch)
    return batches
