"""Which frameworks a program uses: it decides which advice is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.advice.signals.signal import signal
from stepscope.derive.frameworks import seen
from stepscope.derive.host.function_names import function_names
from stepscope.derive.names.event_kinds import event_kinds

if TYPE_CHECKING:
    from stepscope.derive.profile_data import ProfileData
    from stepscope.thresholds import Thresholds


@signal(event_kinds, function_names)
def frameworks_used(profile: ProfileData, _: Thresholds) -> tuple[str, ...]:
    """Look which frameworks the program uses."""
    return seen(profile)
