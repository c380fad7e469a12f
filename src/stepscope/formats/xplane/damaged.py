"""What a damaged file lacks was lost, not absent: the reason says so."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.formats.xplane.recording import Recording

__all__ = ["or_lost"]


def or_lost(recording: Recording, absent: Unavailable) -> Unavailable:
    """Why a table is absent: where damage may have taken it, that is the reason."""
    if not recording.space.damage:
        return absent
    first = recording.space.damage[0]
    return Unavailable(
        code="CORRUPT",
        reason=f"The file is damaged at byte {first.offset:,}, and what can be read of "
        "it does not hold this.",
        remedy="Copy the whole file again, or record again.",
    )
