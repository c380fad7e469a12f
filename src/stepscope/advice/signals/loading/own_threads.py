"""Whether a library makes the batches in threads of its own, beside any loader."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.advice.signals.signal import signal
from stepscope.derive.names.event_kinds import event_kinds
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.derive.profile_data import ProfileData
    from stepscope.thresholds import Thresholds

#: The ranges and the kernels of NVIDIA DALI.
_NAMES: Final = r"^\[DALI\]|\bdali::"


@signal(event_kinds)
def made_in_own_threads(profile: ProfileData, _: Thresholds) -> frozenset[str]:
    """Return the hosts whose batches such a library makes."""
    found = set()
    for host in profile.hosts:
        types = profile.table(host, "event_types")
        if isinstance(types, Unavailable):
            continue
        if types["name"].str.contains(_NAMES).any():
            found.add(host)
    return frozenset(found)
