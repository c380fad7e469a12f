"""Types of events: a name, and what the producer calls its events.

A name may have several types: a program can name a range of its own like an operator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.formats.kineto.columns.categories import EventClass
from stepscope.frozen import Frozen

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.formats.kineto.columns.declared import FileColumns


class _Answer(Frozen, frozen=True, eq=True):
    """What a producer says of a class of events; None where it does not say."""

    op: bool | None
    annotation: bool | None


#: Positions are codes.
_ANSWERS: Final = (
    _Answer(op=False, annotation=False),
    _Answer(op=True, annotation=False),
    _Answer(op=False, annotation=True),
    _Answer(op=None, annotation=None),
)
_NEITHER, _OP, _ANNOTATION, _UNSAID = range(len(_ANSWERS))


class EventTypes(Frozen, frozen=True, kw_only=True, eq=True):
    """The types of a file's events, in the order in which their names appear.

    Attributes:
        of_event: int32 by place in `EventColumns`; the type of each event.
        name: int32 by type; number of its name.
        op: By type, whether its events are operators; None where that is not recorded.
        annotation: By type, whether its events are ranges that the program named; None
            where that is not recorded.
    """

    of_event: NDArray[np.int32]
    name: NDArray[np.int32]
    op: list[bool | None]
    annotation: list[bool | None]


def number_types(columns: FileColumns) -> EventTypes:
    """Number the distinct pairs of a name and what the category says of its events."""
    answer = np.full(max(EventClass) + 1, _NEITHER, np.int32)
    answer[EventClass.ANNOTATION] = _ANNOTATION
    # Of an unknown category nothing is known; the oldest producers call every range of
    # the program an operator.
    answer[EventClass.OTHER] = _UNSAID
    answer[EventClass.OP] = _UNSAID if columns.ranges_among_ops else _OP
    width = len(_ANSWERS)
    pair = columns.events.name * np.int32(width) + answer[columns.events.kind]
    counts = np.bincount(pair, minlength=len(columns.names) * width)
    used = np.flatnonzero(counts)
    number = np.full(len(counts), -1, np.int32)
    number[used] = np.arange(len(used), dtype=np.int32)
    said = [_ANSWERS[code] for code in (used % width).tolist()]
    return EventTypes(
        of_event=number[pair],
        name=(used // width).astype(np.int32),
        op=[one.op for one in said],
        annotation=[one.annotation for one in said],
    )
