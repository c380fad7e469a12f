"""All signals of a profile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.advice.signals import device, launch, precision
from stepscope.advice.signals import input as input_
from stepscope.advice.signals.model import Signals
from stepscope.derive.device.tensor_cores import tensor_cores
from stepscope.derive.step_time.blame import blame
from stepscope.derive.step_time.breakdown import breakdown

if TYPE_CHECKING:
    from stepscope.advice.thresholds import Thresholds
    from stepscope.derive.profile_data import ProfileData

__all__ = ["DERIVATIONS", "collect"]

#: What the signals ask of each host, beside what these need themselves.
DERIVATIONS: Final = (blame, breakdown, tensor_cores)

#: What a flaw of the record takes from the trust in a verdict: the gravest counts.
_GRADES: Final = {"info": 1.0, "warning": 0.9, "error": 0.6}


def collect(profile: ProfileData, thresholds: Thresholds) -> Signals:
    """Name the numbers that rules read; each is absent for a stated reason."""
    profile.prepare(DERIVATIONS)
    compile_percent = thresholds.dirty_compile.value
    return Signals(
        device=device.collect(profile),
        input=input_.collect(profile, compile_percent=compile_percent),
        launch=launch.collect(profile, compile_percent=compile_percent),
        precision=precision.collect(profile, compile_percent=compile_percent),
        record_grade=_grade(profile),
    )


def _grade(profile: ProfileData) -> float:
    notes = (
        note for host in profile.hosts for note in profile.trace(host).quality_notes()
    )
    return min((_GRADES[note.severity] for note in notes), default=1.0)
