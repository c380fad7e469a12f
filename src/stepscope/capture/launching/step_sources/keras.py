"""Steps of Keras: a step of `fit` begins when its callbacks are called for a batch.

`CallbackList` is patched instead of adding a callback, because a callback could disable
Keras's asynchronous dispatch, and programs inspect the list. In a custom training loop
a step ends when an optimizer has updated the variables outside of a graph function.
"""

from __future__ import annotations

import functools
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final

from stepscope.capture.base.functions import replace_function
from stepscope.capture.launching.counting import FIT
from stepscope.capture.launching.harmless import harmless
from stepscope.errors import NO_FRAME

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepscope.capture.launching.counting import StepCounter, StepListener

_UPDATES: Final = "updates of the optimizer (Keras)"


def listen_to_steps(counter: StepCounter[StepListener]) -> Callable[[], None]:
    """Count batches of `fit`, and optimizer updates outside; return a stop function."""
    from keras.callbacks import CallbackList  # noqa: PLC0415 - the program's framework
    from keras.optimizers import Optimizer  # noqa: PLC0415 - the program's framework

    fit = _Fit(counter)

    def evaluation_begins(callbacks: Any, *_: object) -> None:
        # An evaluation inside a callback of a batch is part of the step.
        if not fit.calling:
            fit.pause_steps(callbacks)
        counter.mute()

    def evaluation_ends(callbacks: Any, *_: object) -> None:
        del callbacks
        counter.unmute()

    hooks: dict[str, Callable[..., object]] = {
        "on_train_batch_begin": fit.batch_begins,
        "on_train_batch_end": fit.batch_ends,
        "on_epoch_end": fit.pause_steps,
        "on_train_end": fit.pause_steps,
        "on_test_begin": evaluation_begins,
        "on_test_end": evaluation_ends,
        "on_predict_begin": evaluation_begins,
        "on_predict_end": evaluation_ends,
    }
    undo = ExitStack()
    for name, hook in hooks.items():
        is_batch = name in {"on_train_batch_begin", "on_train_batch_end"}
        before = harmless(counter.window.abandon)(hook)
        undo.callback(
            _wrap(CallbackList, name, before=before, fit=fit if is_batch else None)
        )

    @harmless(counter.window.abandon)
    def optimizer_updated(optimizer: Any) -> None:
        # TensorFlow may be tracing a graph, which updates no variable.
        tensorflow = sys.modules.get("tensorflow")
        if tensorflow is None or tensorflow.executing_eagerly():
            # `carries` gives updates precedence over calls that are more frequent.
            counter.call_ended(_UPDATES, id(optimizer), carries=True)

    undo.callback(_wrap(Optimizer, "apply", after=optimizer_updated))
    return undo.close


class _Fit:
    def __init__(self, counter: StepCounter[StepListener]) -> None:
        self._counter = counter
        self._begun = 0  # number of batches in the execution in progress
        #: Whether callbacks of a batch are being called.
        self.calling = False

    def batch_begins(self, callbacks: Any, batch: int = 0, *_: object) -> None:
        # Reading the public `model` property would wait for the device.
        model = getattr(callbacks, "_model", None)
        batches = getattr(model, "steps_per_execution", 1)
        if not isinstance(batches, int) or batches < 1:
            batches = 1
        in_epoch = (getattr(callbacks, "params", None) or {}).get("steps")
        if isinstance(in_epoch, int) and in_epoch > batch:
            batches = min(batches, in_epoch - batch)
        self._begun = batches
        self._counter.begins(FIT, batches=batches)

    def batch_ends(self, callbacks: Any, *_: object) -> None:
        del callbacks
        self._begun = 0

    def pause_steps(self, callbacks: Any, *_: object) -> None:
        del callbacks
        if self._begun:
            # If the number of batches is unknown, Keras starts one more execution after
            # the last batch; it finds no data.
            self._counter.cancel_step(FIT, batches=self._begun)
            self._begun = 0
        self._counter.ends(FIT)


def _wrap(
    owner: type,
    name: str,
    *,
    before: Callable[..., object] | None = None,
    after: Callable[..., object] | None = None,
    fit: _Fit | None = None,
) -> Callable[[], None]:
    """Patch a method to call `before` and `after`; return a function to unpatch it.

    Args:
        fit: State of `fit`, whose `calling` is true during the call.
    """
    method = getattr(owner, name)

    @functools.wraps(method)
    def call_and_hear(self: Any, *args: Any, **kwargs: Any) -> Any:
        around = fit is not None and fit.calling
        if fit is not None:
            fit.calling = True
        try:
            if before is not None:
                before(self, *args, *kwargs.values())
            with NO_FRAME:
                result = method(self, *args, **kwargs)
        finally:
            if fit is not None:
                fit.calling = around
        if after is not None:
            after(self)
        return result

    return replace_function(owner, name, call_and_hear)
