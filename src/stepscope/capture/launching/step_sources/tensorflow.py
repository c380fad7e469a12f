"""Steps of TensorFlow: a step ends when a `tf.function` returns to eager code."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from stepscope.capture.base.functions import replace_function
from stepscope.capture.launching.harmless import harmless
from stepscope.errors import NO_FRAME

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepscope.capture.launching.counting import StepCounter, StepListener


def listen_to_steps(counter: StepCounter[StepListener]) -> Callable[[], None]:
    """Count the calls of every `tf.function`; return a stop function."""
    from tensorflow.python.eager import context  # noqa: PLC0415 - the program's framework
    from tensorflow.python.eager.polymorphic_function.polymorphic_function import (  # noqa: PLC0415 - the program's framework
        Function,
    )

    @harmless(counter.window.abandon)
    def function_returned(function: Any) -> None:
        # A call inside another `tf.function`, or during tracing, is not a step.
        if context.executing_eagerly():
            name = getattr(function.python_function, "__name__", "without a name")
            # A function may be created again for each call, with the same code object.
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
