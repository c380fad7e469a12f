"""`event_categories`: the step-time category of each event, which is its colour."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope._core.rows import paint
from stepscope.derive.columns.arrays import codes, handles
from stepscope.derive.step_time.host_time import CATEGORY_OF_CODE, STICKY
from stepscope.derive.step_time.owners import CATEGORIES, OWNER_OF_KIND, OWNERS
from stepscope.trace.reading.by_row import by_row
from stepscope.trace.tables import ACTIVITY_KINDS
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray

    from stepscope.derive.device.precision import Precision
    from stepscope.derive.intervals.nesting import Nesting
    from stepscope.derive.step_time.host_classes import HostClasses

_NUMBER: Final = {name: number for number, name in enumerate(CATEGORIES)}
#: The category of what has no other: waiting, Python, and unexplained events.
OTHER: Final = _NUMBER["other"]

_OF_OWNER: Final = {owner.name: owner.category for owner in OWNERS}
_NARROW: Final = "device_compute_16"


def event_categories(
    *,
    events: pl.DataFrame,
    event_nesting: Nesting,
    device_activity: pl.DataFrame | Unavailable,
    precision: Precision | Unavailable,
    host_classes: HostClasses | Unavailable,
) -> NDArray[np.uint8]:
    """Return a place in `CATEGORIES` by row of events, for drawing only.

    Device activity has the category that its time is charged to, and a host event that
    of its class (docs/definitions/host-time.md#classes), whether or not a step has its
    time. An event without a class has the category of the event around it, and all that
    is nested in input or compilation belongs to that. All else is other.

    Definition: docs/tools/overview_page.md#where-the-time-goes.

    Args:
        events: The table.
        event_nesting: Parents of its rows.
        device_activity: The table.
        precision: Bits of each activity; without it kernels count as 32-bit.
        host_classes: What each host event stands for.
    """
    found = _of_host(len(events), event_nesting, host_classes)
    if not isinstance(device_activity, Unavailable):
        event = handles(device_activity, "event")
        shown = event >= 0
        found[event[shown]] = _of_activity(device_activity, precision)[shown]
    return found


def _of_host(
    rows: int, nesting: Nesting, host_classes: HostClasses | Unavailable
) -> NDArray[np.uint8]:
    if isinstance(host_classes, Unavailable):
        return np.full(rows, OTHER, np.uint8)
    code = host_classes.code.copy()
    sticky = np.zeros(256, np.uint8)
    sticky[list(STICKY)] = 1
    answer = paint(nesting.parent, sticky, code)
    if answer < 0:
        raise ValueError(f"the kernel refused its arrays ({answer})")
    category = np.full(256, OTHER, np.uint8)
    for value, name in CATEGORY_OF_CODE.items():
        category[value] = _NUMBER[name]
    return by_row(category, code)


def _of_activity(
    device_activity: pl.DataFrame, precision: Precision | Unavailable
) -> NDArray[np.uint8]:
    category = np.array(
        [_NUMBER[_OF_OWNER[OWNER_OF_KIND[kind]]] for kind in ACTIVITY_KINDS.categories],
        np.uint8,
    )
    found = by_row(category, codes(device_activity, "kind"))
    if not isinstance(precision, Unavailable):
        found[precision.bits == 16] = _NUMBER[_NARROW]
    return found
