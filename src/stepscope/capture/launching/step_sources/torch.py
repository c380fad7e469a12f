"""PyTorch: a step ends when an optimizer has stepped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from stepscope.capture.launching.harmless import harmless

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepscope.capture.launching.counting import HearsSteps, StepCounter

__all__ = ["listen"]

_WHAT: Final = "steps of the optimizer (PyTorch)"


def listen(counter: StepCounter[HearsSteps]) -> Callable[[], None]:
    """Count the steps of the optimizer that steps most often; what ends it.

    Raises:
        ImportError: PyTorch before 2.0 has no such hook.
    """
    from torch.optim.optimizer import (  # noqa: PLC0415 - the user's
        register_optimizer_step_post_hook,
    )

    @harmless(counter.window.abandon)
    def stepped(optimizer: object, args: Any, kwargs: Any) -> None:
        del args, kwargs
        # The hook runs within PyTorch's own range of the optimizer, which a range that
        # begins here would not lie in.
        counter.call_ended(_WHAT, id(optimizer), forwarded=False)

    handle = register_optimizer_step_post_hook(stepped)
    undo: Callable[[], None] = handle.remove
    return undo
