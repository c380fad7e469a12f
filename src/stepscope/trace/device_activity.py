"""The kinds of what runs on a device."""

from __future__ import annotations

from typing import Final

from stepscope.trace.tables import DEVICE_ACTIVITY

#: During `transfer_wait` nothing is computed: the device waits for a transfer that
#: began earlier.
ACTIVITY_KINDS: Final = DEVICE_ACTIVITY.categories("kind")
