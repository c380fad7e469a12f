"""PyTorch: a step ends when an optimizer has stepped."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from stepscope.capture.launching.harmless import harmless

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from stepscope.capture.launching.counting import HearsSteps, StepCounter

__all__ = ["listen"]

_WHAT: Final = "steps of the optimizer (PyTorch)"


def listen(counter: StepCounter[HearsSteps]) -> Callable[[], None]:
    """Count the steps of the optimizer that steps most often; what ends it.

    Where it ends within a step the hook stays, and does nothing: PyTorch goes through
    its hooks then, and the program's own would fail with the change.

    Raises:
        ImportError: PyTorch before 2.0 has no such hook.
    """
    from torch.optim.optimizer import (  # noqa: PLC0415 - the user's
        register_optimizer_step_post_hook,
    )

    is_over = False

    @harmless(counter.window.abandon)
    def stepped(optimizer: object, args: Any, kwargs: Any) -> None:
        del args, kwargs
        if is_over:
            return
        # The hook runs within PyTorch's own range of the optimizer, which a range that
        # begins here would not lie in.
        counter.call_ended(_WHAT, id(optimizer), forwarded=False)

    handle = register_optimizer_step_post_hook(stepped)

    def undo() -> None:
        nonlocal is_over
        is_over = True
        if not _is_within_a_step():
            handle.remove()

    return undo


def _is_within_a_step() -> bool:
    """Return whether PyTorch may be going through the hooks, on any thread."""
    module = sys.modules.get("torch.optim.optimizer")
    file = getattr(module, "__file__", None)
    for top in sys._current_frames().values():  # noqa: SLF001 - what it is there for
        frame: FrameType | None = top
        while frame is not None:
            if frame.f_code.co_filename == file:
                return True
            frame = frame.f_back
    return False
