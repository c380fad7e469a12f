"""Whether the program collects garbage by hand, or leaves it to Python."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.advice.signals.signal import signal
from stepscope.derive.account.topics import COLLECTIONS
from stepscope.derive.columns.arrays import handles, picked
from stepscope.derive.columns.stat_values import find_handle, numbers_of, rows_with_key
from stepscope.trace.reading.stat_keys import StatKey
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.derive.profile_data import ProfileData
    from stepscope.thresholds import Thresholds

#: The generation of a collection of all objects.
_ALL: Final = 2
#: Fewer collections of all objects do not show who asks for them.
_FEW: Final = 3
#: By itself Python looks at all objects after more than ten collections of the middle
#: ones, each of which follows more than ten of the youngest. With fewer of both than
#: this for each, something else asks for it.
_YOUNGER: Final = 50


@signal("events", "event_types", "stats", seldom=True)
def collected_by_hand(profile: ProfileData, _: Thresholds) -> dict[str, bool]:
    """Return it of the hosts whose collections say which objects they looked at."""
    found = {}
    for host in profile.hosts:
        counts = _counts(profile, host)
        if counts:
            every = counts.get(_ALL, 0)
            younger = sum(counts.values()) - every
            found[host] = every >= _FEW and younger < _YOUNGER * every
    return found


def _counts(profile: ProfileData, host: str) -> dict[int, int]:
    """Return how many collections looked at which generation."""
    types, events, stats = (
        profile.table(host, it) for it in ("event_types", "events", "stats")
    )
    if (
        isinstance(types, Unavailable)
        or isinstance(events, Unavailable)
        or isinstance(stats, Unavailable)
    ):
        return {}
    wanted = types["name"].is_in(COLLECTIONS).fill_null(value=False).to_numpy()
    rows = picked(handles(events, "type"), wanted).astype(np.int32)
    key = find_handle(profile.trace(host).strings, StatKey.GENERATION)
    values = rows_with_key(stats, "event", key)
    generation, known = numbers_of(values, rows, key)
    return Counter(generation[known].tolist())
