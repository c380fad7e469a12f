"""Which module hears of the steps of which framework."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepscope.capture.launching.counting import HearsSteps, StepCounter

_HERE: Final = "stepscope.capture.launching.step_sources."

#: Module of the program → module here that hears of its steps.
STEP_SOURCES: Final = {
    "stepscope.capture.ground.annotate": _HERE + "annotations",
    "keras": _HERE + "keras",
    "torch": _HERE + "torch",
    "jax": _HERE + "jax",
    "tensorflow": _HERE + "tensorflow",
}


def install(arrived: str, counter: StepCounter[HearsSteps]) -> Callable[[], None]:
    """Hear of the steps of a module that the program imported.

    Returns:
        What undoes it.

    Raises:
        Exception: This version of the module has no place to listen at.
    """
    listen = importlib.import_module(STEP_SOURCES[arrived]).listen
    undo: Callable[[], None] = listen(counter)
    return undo
