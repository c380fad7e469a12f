"""What a damaged file lacks was lost, not absent: the reason says so."""

from __future__ import annotations

from stepscope.remedies import Remedy
from stepscope.unavailable import Unavailable


def or_lost(absent: Unavailable, damaged_at: int | None) -> Unavailable:
    """Return why a table is absent: where damage may have taken it, that is the reason.

    Args:
        absent: The reason in a whole file.
        damaged_at: First byte of the file that cannot be read; None in a whole file.
    """
    if damaged_at is None:
        return absent
    return Unavailable(
        code="CORRUPT",
        reason=f"The file is damaged at byte {damaged_at:,}, and what can be read of "
        "it does not hold this.",
        remedy=Remedy.COPY_AGAIN,
    )
