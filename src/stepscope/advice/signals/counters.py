"""Readings of the counters of a process, its machine and the machine's cores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.derive.columns.arrays import handles, ints, picked
from stepscope.frozen import Frozen
from stepscope.trace.stats import DOUBLE
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.derive.profile_data import ProfileData

_OF_A_CORE: Final = r"^core \d+ CPU \(percent\)$"


class Readings(Frozen, frozen=True):
    """The readings of one counter, in time order."""

    time_ps: NDArray[np.int64]
    value: NDArray[np.float64]


def cores_of(profile: ProfileData, host: str) -> int | None:
    """Return how many cores have a counter; None where none has."""
    types = profile.table(host, "event_types")
    if isinstance(types, Unavailable):
        return None
    return int(types["name"].str.contains(_OF_A_CORE).sum()) or None


def usable_cores(profile: ProfileData, host: str) -> int | None:
    """Return how many cores the program may use; None where nothing says so.

    Where that was not recorded they are all of the machine.
    """
    table = profile.table(host, "environment")
    said = None if isinstance(table, Unavailable) else table["cores"].item()
    return cores_of(profile, host) if said is None else int(said)


def counter(profile: ProfileData, host: str, name: str) -> Readings | None:
    """Return the readings of a counter; None where it was not recorded."""
    types = profile.table(host, "event_types")
    events = profile.table(host, "events")
    stats = profile.table(host, "stats")
    if (
        isinstance(types, Unavailable)
        or isinstance(events, Unavailable)
        or isinstance(stats, Unavailable)
    ):
        return None
    wanted = (types["name"] == name).to_numpy()
    if not wanted.any():
        return None
    rows = picked(handles(events, "type"), wanted)
    mine = stats.filter(pl.col("event").is_in(rows.tolist())).unique(
        "event", keep="first"
    )
    if not len(mine):
        return None
    time_ps = ints(events, "start_ps")[mine["event"].to_list()]
    order = np.argsort(time_ps, kind="stable")
    value = mine["value"].to_numpy()
    real = (mine["kind"] == DOUBLE).to_numpy()
    number = np.where(real, value.view(np.float64), value)
    return Readings(time_ps[order], number[order].astype(np.float64))
