"""Types of events that show that a thread runs the program itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.derive.names.event_kinds import EventFlag

if TYPE_CHECKING:
    import numpy as np
    import polars as pl
    from numpy.typing import NDArray

    from stepscope.derive.names.event_kinds import EventKinds

#: A thread with one of these runs no tasks of others.
_CALLS: Final = EventFlag.PYTHON_FRAME | EventFlag.PJIT | EventFlag.FUNCTION_CALL


def of_the_program(event_types: pl.DataFrame, kinds: EventKinds) -> NDArray[np.bool_]:
    """Return by type whether it is a call, or a range, that only a program makes.

    Ranges are those that the producer calls so and that no framework puts around its
    own work, which threads of a framework hold, too.
    """
    ranges: NDArray[np.bool_] = kinds.has(EventFlag.ANNOTATION)
    ranges &= ~kinds.has(EventFlag.LIBRARY_RANGE)
    ranges &= event_types["annotation"].fill_null(value=False).to_numpy()
    return kinds.has(_CALLS) | ranges
