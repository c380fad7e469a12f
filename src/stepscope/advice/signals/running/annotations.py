"""Which names are ranges that the program named: none of them is an op."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepscope.advice.signals.signal import signal
from stepscope.derive.names.event_kinds import EventFlag, event_kinds
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.derive.profile_data import ProfileData
    from stepscope.thresholds import Thresholds


@signal(event_kinds)
def annotation_names(profile: ProfileData, _: Thresholds) -> frozenset[str]:
    """Return the names of ranges of the program, or of a library in it."""
    found: set[str] = set()
    for host in profile.hosts:
        kinds = profile.derived(host, event_kinds)
        types = profile.table(host, "event_types")
        if isinstance(kinds, Unavailable) or isinstance(types, Unavailable):
            continue
        rows = np.flatnonzero(kinds.has(EventFlag.ANNOTATION) & ~kinds.is_op())
        found.update(types["name"].gather(rows).to_list())
    return frozenset(found)
