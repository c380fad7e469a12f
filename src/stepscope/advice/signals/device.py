"""What is known about the accelerators of the program, for rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.advice.signals.signal import signal
from stepscope.derive.account.owned_time import account
from stepscope.derive.judging.recorded_devices import (
    DeviceSignals,
    recorded_devices,
)
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.derive.profile_data import ProfileData
    from stepscope.thresholds import Thresholds

NO_KERNELS: Final = Unavailable(
    code="NO_DEVICE_EVENTS",
    reason="No kernel was recorded on any device.",
    remedy="Record a window in which the device computes.",
)


@signal(account)
def device_signals(profile: ProfileData, _: Thresholds) -> DeviceSignals:
    """Look at every host; a device that was recorded on one counts for the run."""
    return recorded_devices(profile)
