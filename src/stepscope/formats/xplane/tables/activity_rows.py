"""Events of device tracks, with their stats as columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.formats.xplane.decoded.columns import BLOCK_ROWS
from stepscope.formats.xplane.decoded.shown_texts import ANNOTATION
from stepscope.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from stepscope.array_types import Bools, Int32s, Int64s
    from stepscope.formats.xplane.decoded.columns import Texts, Values
    from stepscope.formats.xplane.decoded.recording import Recording

#: Key of the details of a copy or memset, regardless of which stat contains them.
COPY: Final = "copy"

_COPY_DETAILS: Final[tuple[str, ...]] = (
    "memcpy_details",
    "Memset_details",
    "memset_details",
)
#: Stats whose presence shows that an event, such as an allocation, is not activity.
_PASSIVE_DETAILS: Final[tuple[str, ...]] = (
    "memalloc_details",
    "MemFree_details",
    "MemoryResidency_details",
)
_TEXTS: Final[tuple[str, ...]] = (
    "kernel_details",
    "tf_op",
    "level 0",
    ANNOTATION,
    "hlo_op",
    "hlo_module",
    "shape",
    "equation",
    "hlo_category",
)
_NUMBERS: Final[tuple[str, ...]] = ("correlation_id", "program_id", "group_id")
_OCCUPANCY: Final = "theoretical_occupancy_pct"
_KEYS: Final = (*_TEXTS, *_NUMBERS, *_COPY_DETAILS, *_PASSIVE_DETAILS, _OCCUPANCY)


class ActivityRows(Frozen, frozen=True, kw_only=True, eq=True):
    """Every event of the activity tracks, with its stats as columns.

    Attributes:
        texts: Numbers of texts, including texts stored in events.
        handles: Stat name, or `COPY` → number of each event's text; -1 for none.
        numbers: Stat name → value of each event, and whether it has a value.
        passive: Mask of events whose stats show that they are not device activity.
        occupancy: Occupancy of each event in the tracer's stat; 0 if absent.
    """

    event: Int32s
    position: Int32s
    texts: Texts
    handles: dict[str, Int32s]
    numbers: dict[str, tuple[Int64s, Bools]]
    passive: Bools | None
    occupancy: NDArray[np.float64] | None


def gather_rows(recording: Recording) -> ActivityRows:
    """Convert the stats of all activity tracks to columns, one block at a time."""
    ranges = list(recording.ranges(recording.activity_tracks))
    counts = [end - begin for begin, end in ranges]
    # A stat whose name is not in the file needs no column.
    keys = [key for key in _KEYS if recording.handle(key) >= 0]
    texts = recording.texts()
    columns = _Columns(keys, sum(counts))
    filled = 0
    for begin, end in ranges:
        for first in range(begin, end, BLOCK_ROWS):
            last = min(first + BLOCK_ROWS, end)
            values = recording.values_in_range(keys, first, last)
            columns.fill(texts, values, slice(filled, filled + last - first))
            filled += last - first
    event = [np.arange(begin, end, dtype=np.int32) for begin, end in ranges]
    return ActivityRows(
        event=np.concatenate(event) if event else np.empty(0, np.int32),
        position=np.repeat(np.arange(len(counts), dtype=np.int32), counts),
        texts=texts,
        handles=columns.handles,
        numbers=columns.numbers,
        passive=columns.passive,
        occupancy=columns.occupancy,
    )


class _Columns:
    def __init__(self, keys: Sequence[str], total: int) -> None:
        self._copies = [key for key in _COPY_DETAILS if key in keys]
        self._passive = [key for key in _PASSIVE_DETAILS if key in keys]
        self._texts = [key for key in _TEXTS if key in keys]
        self.handles = {key: np.empty(total, np.int32) for key in self._texts}
        if self._copies:
            self.handles[COPY] = no_handles(total)
        self.numbers = {
            key: (np.empty(total, np.int64), np.empty(total, np.bool_))
            for key in _NUMBERS
            if key in keys
        }
        self.passive = np.zeros(total, np.bool_) if self._passive else None
        self.occupancy = np.zeros(total) if _OCCUPANCY in keys else None

    def fill(self, texts: Texts, values: Mapping[str, Values], target: slice) -> None:
        for key in self._texts:
            self.handles[key][target] = texts.numbers(values[key])
        for key in self._copies:
            details = texts.numbers(values[key])
            np.copyto(self.handles[COPY][target], details, where=details >= 0)
        for key, (number, present) in self.numbers.items():
            number[target], present[target] = values[key].integer_values()
        if self.passive is not None:
            for key in self._passive:
                self.passive[target] |= values[key].kind != 0
        if self.occupancy is not None:
            self.occupancy[target] = values[_OCCUPANCY].real_values()[0]


def no_handles(count: int) -> Int32s:
    """Return `count` handles of -1, which means no text."""
    return np.full(count, -1, dtype=np.int32)
