"""Lines of several planes made into lines of one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from stepscope._core import rebase
from stepscope.xspace.encode import number_field, sized_field, varint
from stepscope.xspace.fields import LineTag, PlaneTag
from stepscope.xspace.messages import index

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from stepscope.xspace.merged_names import IdMap

__all__ = ["Line", "line_chunks", "line_head", "read_lines"]

#: A line that starts later than this (nanoseconds) counts from 1970, not from the
#: start of the recording: three years would have passed (spec: formats, section 4.1).
EPOCH_NS: Final = 10**17
#: Events are written in pieces, which bounds what is needed beside them.
_PIECE_EVENTS: Final = 2**20


class Head(NamedTuple):
    """What a line says of itself; texts are None where it says nothing."""

    id: int
    name: bytes | None
    timestamp_ns: int
    duration_ps: int
    display_id: int
    display_name: bytes | None


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """A line of one plane, its events as places.

    Attributes:
        head: With its time already moved.
        data: The bytes of its message.
        begin: Where the bodies of its events begin, int64.
        end: And end.
        type_ids: What ids of types become.
        stat_ids: And of names of stats.
    """

    head: Head
    data: NDArray[np.uint8]
    begin: NDArray[np.int64]
    end: NDArray[np.int64]
    type_ids: IdMap
    stat_ids: IdMap
