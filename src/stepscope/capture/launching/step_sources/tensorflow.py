"""TensorFlow: a step ends when a call of a `tf.function` returns to eager code."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from stepscope.capture.ground.functions import replace_function
from stepscope.capture.launching.harmless import harmless
from stepscope.errors import NO_FRAME

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepscope.capture.launching.counting import HearsSteps, StepCounter


def listen_to_steps(counter: StepCounter[HearsSteps]) -> Callable[[], None]:
    """Count the calls of every `tf.function`; what ends it."""
    from tensorflow.python.eager import context  # noqa: PLC0415 - the user's
    from tensorflow.python.eager.polymorphic_function.polymorphic_function import (  # noqa: PLC0415 - the user's
        Function,
    )

    @harmless(counter.window.abandon)
    def function_returned(function: Any) -> None:
        # Within a function that is being traced, or within another, it is no step.
        if context.executing_eagerly():
            name = getattr(function.python_function, "__name__", "without a name")
            # It may be made again for each call: its code is one.
            place = getattr(function.python_function, "__code__", id(function))
            counter.call_ended(f"calls of tf.function {name}", place)

    call = Function.__call__

    @functools.wraps(call)
    def call_and_hear(self: Any, *args: Any, **kwargs: Any) -> Any:
        with NO_FRAME:
            result = call(self, *args, **kwargs)
        function_returned(self)
        return result

    return replace_function(Function, "__call__", call_and_hear)
