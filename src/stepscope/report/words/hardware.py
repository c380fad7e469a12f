"""The hardware of a run in one sentence."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from stepscope.report.words.names import percent
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.report.document import Document
    from stepscope.report.envelope import Device

#: Shares from here on are written as 100 %.
_ALL: Final = 99.95
#: What is known for less of the time than this says nothing of a run as a whole.
_LEAST: Final = 25.0


def device_name(device: Device, document: Document) -> str:
    """Return the name of a device for people, as far as it was recorded."""
    if device.name is not None:
        return device.name
    known = (
        ()
        if isinstance(document.overview, Unavailable)
        else document.overview.environment.devices
    )
    place = device.host, device.device
    types = (one.type for one in known if (one.host, one.device) == place)
    return next(types, None) or device.type


def hardware_words(document: Document) -> str | None:
    """Write on what a run ran, and how much of it was used; None where unknown."""
    found = document.hardware
    used = [one for one in document.profile.devices if one.activities]
    kinds = Counter(device_name(one, document) for one in used)
    parts = [f"{count} × {kind}" for kind, count in kinds.items()]
    if found.cores is not None:
        parts.append(f"{found.cores} {'core' if found.cores == 1 else 'cores'}")
    covered = found.peak_covered_percent
    if found.peak_percent is not None and covered is not None and covered >= _LEAST:
        whose = "its" if len(used) == 1 else "their"
        known = "" if covered >= _ALL else f", known for {percent(covered)} of the time"
        parts.append(
            f"{whose} kernels reach {percent(found.peak_percent)} of the peak of the "
            f"units that they use{known}"
        )
    # The devices alone stand in the head of the page already.
    if len(parts) == len(kinds):
        return None
    return f"On {', '.join(parts)}."
