"""PyTorch: a step ends when an optimizer has stepped.

Where none ever does, as where weights are updated by hand, it ends with the backward
pass.
"""

from __future__ import annotations

import functools
import sys
import threading
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

from stepscope.capture.ground.functions import replace_function
from stepscope.capture.launching.harmless import harmless
from stepscope.errors import NO_FRAME

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from stepscope.capture.launching.counting import HearsSteps, StepCounter

_WHAT: Final = "steps of the optimizer (PyTorch)"
_PASSES: Final = "backward passes (PyTorch)"


def listen_to_steps(counter: StepCounter[HearsSteps]) -> Callable[[], None]:
    """Count the steps of the optimizer that steps most often; what ends it.

    Where it ends within a step the hook stays, and does nothing: PyTorch goes through
    its hooks then, and the program's own would fail with the change.
    """
    from torch.optim.optimizer import (  # noqa: PLC0415 - the user's
        register_optimizer_step_post_hook,
    )

    is_over = False

    @harmless(counter.window.abandon)
    def optimizer_stepped(optimizer: object, args: Any, kwargs: Any) -> None:
        del args, kwargs
        if is_over:
            return
        # The hook runs within PyTorch's own range of the optimizer, which a range that
        # begins here would not lie in.
        counter.call_ended(_WHAT, id(optimizer), forwarded=False)

    handle = register_optimizer_step_post_hook(optimizer_stepped)
    undo_passes = _hear_passes(counter)

    def undo_hooks() -> None:
        nonlocal is_over
        is_over = True
        undo_passes()
        # PyTorch may be going through the hooks, on any thread.
        file = getattr(sys.modules.get("torch.optim.optimizer"), "__file__", None)
        for top in sys._current_frames().values():  # noqa: SLF001 - what it is there for
            frame: FrameType | None = top
            while frame is not None:
                if frame.f_code.co_filename == file:
                    return
                frame = frame.f_back
        handle.remove()

    return undo_hooks


def _hear_passes(counter: StepCounter[HearsSteps]) -> Callable[[], None]:
    """Count the calls that compute gradients; what ends it.

    A version that keeps the function elsewhere is not heard: then time counts.
    """
    autograd: Any = sys.modules.get("torch.autograd")
    run = getattr(autograd, "_engine_run_backward", None)
    if run is None:
        return lambda: None
    folder = str(PurePath(str(autograd.__file__)).parent.parent)
    within = threading.local()

    @harmless(counter.window.abandon)
    def pass_ended(frame: FrameType | None) -> None:
        # The place in the program that asked PyTorch for gradients.
        while frame is not None and frame.f_code.co_filename.startswith(folder):
            frame = frame.f_back
        place = frame and (frame.f_code.co_filename, frame.f_lineno)
        counter.pass_ended(_PASSES, place)

    @functools.wraps(run)
    def run_and_hear(*args: Any, **kwargs: Any) -> Any:
        # A pass may run another one, for what it computes again.
        if getattr(within, "a_pass", False):
            with NO_FRAME:
                return run(*args, **kwargs)
        within.a_pass = True
        try:
            with NO_FRAME:
                result = run(*args, **kwargs)
        finally:
            within.a_pass = False
        pass_ended(sys._getframe(1))  # noqa: SLF001 - cheaper than `inspect`
        return result

    # Nothing public is called by all.
    return replace_function(autograd, "_engine_run_backward", run_and_hear)
