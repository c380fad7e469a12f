"""Why a table is absent: not recorded, or lost with the rest of a cut file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.formats.kineto.tables.recording import Recording

__all__ = ["or_lost"]


def or_lost(recording: Recording, absent: Unavailable) -> Unavailable:
    """Why a table is absent; if damage may have taken it, that is the reason."""
    columns = recording.columns
    places = [it for it in (columns.bad_place, columns.cut_at) if it is not None]
    if not places:
        return absent
    return Unavailable(
        code="CORRUPT",
        reason=f"The file is damaged at byte {min(places):,}, and what can be read of "
        "it does not hold this.",
        remedy="Copy the whole file again, or record again.",
    )
