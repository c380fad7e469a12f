"""How far the record itself can be trusted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.advice.signals.signal import signal

if TYPE_CHECKING:
    from stepscope.derive.profile_data import ProfileData
    from stepscope.thresholds import Thresholds

#: Severity of a flaw → the confidence that it leaves; of several the smallest counts.
_GRADES: Final = {"info": 1.0, "warning": 0.9, "error": 0.6}


@signal("quality")
def record_grade(profile: ProfileData, _: Thresholds) -> float:
    """Return 1 where the record shows no flaw, less where it does."""
    notes = (
        note for host in profile.hosts for note in profile.trace(host).quality_notes()
    )
    return min((_GRADES[note.severity] for note in notes), default=1.0)
