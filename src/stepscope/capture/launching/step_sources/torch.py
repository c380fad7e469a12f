"""Steps of PyTorch: a step ends when an optimizer has stepped.

If no optimizer ever steps, as with updates by hand, a step ends with the backward pass.
"""

from __future__ import annotations

import functools
import sys
import threading
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

from stepscope.capture.base.functions import replace_function
from stepscope.capture.launching.harmless import harmless
from stepscope.errors import NO_FRAME

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from stepscope.capture.launching.counting import StepCounter, StepListener

_TITLE: Final = "steps of the optimizer (PyTorch)"
_PASSES: Final = "backward passes (PyTorch)"


def listen_to_steps(counter: StepCounter[StepListener]) -> Callable[[], None]:
    """Count the steps of the most frequent optimizer; return a stop function.

    The hook is not removed while PyTorch iterates over its hooks: the removal would
    make the program's own step fail. The hook then stays and does nothing.
    """
    from torch.optim.optimizer import (  # noqa: PLC0415 - the program's framework
        register_optimizer_step_post_hook,
    )

    is_over = False

    @harmless(counter.window.abandon)
    def optimizer_stepped(optimizer: object, args: Any, kwargs: Any) -> None:
        del args, kwargs
        if is_over:
            return
        # The hook runs inside PyTorch's range of the optimizer. A range that begins in
        # the hook would end after PyTorch's range, so it would not nest.
        counter.call_ended(_TITLE, id(optimizer), forwarded=False)

    handle = register_optimizer_step_post_hook(optimizer_stepped)
    undo_passes = _count_passes(counter)

    def undo_hooks() -> None:
        nonlocal is_over
        is_over = True
        undo_passes()
        # Keep the hook if any thread is executing PyTorch's optimizer module.
        file = getattr(sys.modules.get("torch.optim.optimizer"), "__file__", None)
        for top in sys._current_frames().values():  # noqa: SLF001 - the only way to read all stacks
            frame: FrameType | None = top
            while frame is not None:
                if frame.f_code.co_filename == file:
                    return
                frame = frame.f_back
        handle.remove()

    return undo_hooks


def _count_passes(counter: StepCounter[StepListener]) -> Callable[[], None]:
    """Count backward passes if this PyTorch version allows; return a stop function."""
    autograd: Any = sys.modules.get("torch.autograd")
    run = getattr(autograd, "_engine_run_backward", None)
    if run is None:
        return lambda: None
    folder = str(PurePath(str(autograd.__file__)).parent.parent)
    within = threading.local()

    @harmless(counter.window.abandon)
    def pass_ended(frame: FrameType | None) -> None:
        # Find the line of the program that started the backward pass.
        while frame is not None and frame.f_code.co_filename.startswith(folder):
            frame = frame.f_back
        place = frame and (frame.f_code.co_filename, frame.f_lineno)
        counter.pass_ended(_PASSES, place)

    @functools.wraps(run)
    def run_and_hear(*args: Any, **kwargs: Any) -> Any:
        # A backward pass may run another backward pass, to recompute activations.
        if getattr(within, "a_pass", False):
            with NO_FRAME:
                return run(*args, **kwargs)
        within.a_pass = True
        try:
            with NO_FRAME:
                result = run(*args, **kwargs)
        finally:
            within.a_pass = False
        pass_ended(sys._getframe(1))  # noqa: SLF001 - faster than `inspect`
        return result

    # PyTorch has no public function through which all backward passes go.
    return replace_function(autograd, "_engine_run_backward", run_and_hear)
