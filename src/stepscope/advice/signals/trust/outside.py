"""How much of a recording without steps lies before a device's first work or after it.

There the program starts or ends, or the recording was begun too early or ended too
late: nothing that happens to a step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.advice.signals.signal import signal
from stepscope.derive.account.owned_time import account
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.step_windows.windows import windows
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.derive.profile_data import ProfileData
    from stepscope.thresholds import Thresholds


@signal(account, windows)
def unexplained_outside(profile: ProfileData, _: Thresholds) -> dict[str, float]:
    """Return the percent of a recording that is unexplained there, by `host:device`.

    Recordings with steps, and devices without work, are left out.
    """
    found: dict[str, float] = {}
    for host in profile.hosts:
        owned = profile.derived(host, account)
        placed = profile.derived(host, windows)
        if (
            isinstance(owned, Unavailable)
            or isinstance(placed, Unavailable)
            or placed.has_steps
        ):
            continue
        judged = placed.judged
        for device in owned.devices:
            worked = (judged - Spans.union_of(device.idle.values())).hull
            if device.device is None or worked is None:
                continue
            unexplained = device.idle["unexplained"] & judged
            outside = unexplained.length_ps - unexplained.clip(*worked).length_ps
            found[f"{host}:{device.device}"] = 100 * outside / judged.length_ps
    return found
