"""What the host was doing when it launched a collective."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope._core.nesting import inherit
from stepscope.derive.columns.arrays import handles, picked
from stepscope.frozen import Frozen
from stepscope.unavailable import Unavailable
from stepscope.xspace.op_links import BOOKKEEPING

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray

    from stepscope.derive.device.correlation import Correlation
    from stepscope.derive.intervals.nesting import Nesting

#: Ranges that a communication library puts around each of its launches.
_RANGE: Final = r"^(?:nccl|rccl|msccl|hccl|xccl|ucc|gloo|mpi):"


class Launched(Frozen, frozen=True, eq=True):
    """What leads from activities to the host; any of it may be absent."""

    correlation: Correlation | Unavailable
    launches: pl.DataFrame | Unavailable
    nesting: Nesting | Unavailable


class Surroundings(Frozen, frozen=True, eq=True):
    """Rows of events by activity, -1 for none.

    Attributes:
        range: The nearest range of a communication library around the launch.
        record: The nearest record of a framework about the collective around it.
    """

    range: NDArray[np.int32]
    record: NDArray[np.int32]


def surroundings(
    rows: NDArray[np.int64],
    given: Launched,
    events: pl.DataFrame,
    event_types: pl.DataFrame,
) -> Surroundings:
    """Find what encloses the launch calls of some activities on their threads."""
    nothing = np.full(len(rows), -1, np.int32)
    if (
        isinstance(given.correlation, Unavailable)
        or isinstance(given.launches, Unavailable)
        or isinstance(given.nesting, Unavailable)
    ):
        return Surroundings(nothing, nothing)
    launch = given.correlation.launch_of_activity[rows]
    call = np.append(handles(given.launches, "event"), np.int32(-1))[launch]
    names = event_types["name"]
    types = handles(events, "type")
    found = []
    for wanted in (
        names.str.contains(_RANGE).to_numpy(),
        names.is_in(sorted(BOOKKEEPING)).to_numpy(),
    ):
        chosen = picked(types, wanted)
        found.append(_nearest(given.nesting.parent, chosen, call))
    return Surroundings(*found)


def _nearest(
    parent: NDArray[np.int32],
    chosen: NDArray[np.integer],
    of: NDArray[np.int32],
) -> NDArray[np.int32]:
    """Return the nearest of the chosen events around each one of others; -1 for none.

    Args:
        parent: Row by row the event that holds it.
        chosen: Rows that may enclose others, ascending.
        of: Rows to look from; negative ones have none.
    """
    if not len(chosen) or not (of >= 0).any():
        return np.full(len(of), -1, np.int32)
    label = np.full(len(parent), -1, np.int32)
    label[chosen] = chosen
    begin = int(chosen[0])
    answer = inherit(parent, label, begin, max(int(of.max()) + 1, begin))
    if answer < 0:
        raise ValueError(f"the kernel refused its arrays ({answer})")
    return np.where(of >= 0, label[of], np.int32(-1))
