"""Containers of the program to which each step adds arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from stepscope.advice.signals.counters import counter
from stepscope.advice.signals.signal import signal
from stepscope.derive.columns.arrays import ints
from stepscope.derive.step_windows.windows import windows
from stepscope.frozen import Frozen
from stepscope.unavailable import Unavailable
from stepscope.xspace.vocabulary import KEPT_KINDS, KeptCounter

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from stepscope.derive.profile_data import ProfileData
    from stepscope.thresholds import Thresholds

_MARK: Final = r"^items added to "


class KeptGrowth(Frozen, frozen=True, eq=True):
    """What the steps of a recording added to one container.

    Attributes:
        host: Name of the host.
        counted: Whose container it is; the counter of its members.
        steps: Number of steps that began meanwhile.
        items: Members that were added, or nodes of a graph of gradients.
        array_bytes: What their arrays take.
        graph_bytes: What graphs of gradients hold for them.
    """

    host: str
    counted: KeptCounter
    steps: int
    items: float
    array_bytes: float
    graph_bytes: float


@signal(windows)
def kept_growth(profile: ProfileData, _: Thresholds) -> tuple[KeptGrowth, ...]:
    """Return the containers of all hosts that grew, in the order they were noted."""
    found: list[KeptGrowth] = []
    for host in profile.hosts:
        types = profile.table(host, "event_types")
        placed = profile.derived(host, windows)
        if isinstance(types, Unavailable) or isinstance(placed, Unavailable):
            continue
        if not placed.has_steps:
            continue
        begins = ints(placed.rows, "start_ps")
        noted = types.filter(pl.col("name").str.contains(_MARK))["name"]
        for name in noted.unique(maintain_order=True).to_list():
            counted = KeptCounter.of(name)
            grown = None if counted is None else _growth(profile, host, counted, begins)
            found += [] if grown is None else [grown]
    return tuple(found)


def _growth(
    profile: ProfileData, host: str, counted: KeptCounter, begins: NDArray[np.int64]
) -> KeptGrowth | None:
    readings = [counter(profile, host, counted.of_kind(kind)) for kind in KEPT_KINDS]
    items, array_bytes, graphs = readings
    if items is None or array_bytes is None or graphs is None:
        return None
    first, last = int(items.time_ps[0]), int(items.time_ps[-1])
    steps = int(((begins >= first) & (begins < last)).sum())
    return KeptGrowth(
        *(host, counted, steps),
        *(float(one.value[-1]) for one in (items, array_bytes, graphs)),
    )
