"""Events of device tracks, with their stats as columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.formats.xplane.decoded.columns import BLOCK_ROWS
from stepscope.formats.xplane.decoded.shown_texts import ANNOTATION
from stepscope.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Mapping

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
    total = sum(counts)
    # A stat whose name is not in the file needs no column.
    keys = [key for key in _KEYS if recording.handle(key) >= 0]
    handles = {key: np.empty(total, np.int32) for key in keys if key in _TEXTS}
    if not set(keys).isdisjoint(_COPY_DETAILS):
        handles[COPY] = no_handles(total)
    has_passive = not set(keys).isdisjoint(_PASSIVE_DETAILS)
    event = [np.arange(begin, end, dtype=np.int32) for begin, end in ranges]
    rows = ActivityRows(
        event=np.concatenate(event) if event else np.empty(0, np.int32),
        position=np.repeat(np.arange(len(counts), dtype=np.int32), counts),
        texts=recording.texts(),
        handles=handles,
        numbers={
            key: (np.empty(total, np.int64), np.empty(total, np.bool_))
            for key in keys
            if key in _NUMBERS
        },
        passive=np.zeros(total, np.bool_) if has_passive else None,
        occupancy=np.zeros(total) if _OCCUPANCY in keys else None,
    )
    filled = 0
    for begin, end in ranges:
        for first in range(begin, end, BLOCK_ROWS):
            last = min(first + BLOCK_ROWS, end)
            target = slice(filled, filled + last - first)
            _fill_rows(rows, target, recording.values_in_range(keys, first, last))
            filled = target.stop
    return rows


def _fill_rows(
    rows: ActivityRows, target: slice, values_by_key: Mapping[str, Values]
) -> None:
    for key, values in values_by_key.items():
        if key in _TEXTS:
            rows.handles[key][target] = rows.texts.numbers(values)
        elif key in _COPY_DETAILS:
            details = rows.texts.numbers(values)
            np.copyto(rows.handles[COPY][target], details, where=details >= 0)
        elif key in _NUMBERS:
            number, present = rows.numbers[key]
            number[target], present[target] = values.integer_values()
        elif rows.passive is not None and key in _PASSIVE_DETAILS:
            rows.passive[target] |= values.kind != 0
        elif rows.occupancy is not None:
            rows.occupancy[target] = values.real_values()[0]


def no_handles(count: int) -> Int32s:
    """Return `count` handles of -1, which means no text."""
    return np.full(count, -1, dtype=np.int32)
