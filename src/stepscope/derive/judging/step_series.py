"""An effect over the judged steps of one device or host: what a verdict rests on."""

from __future__ import annotations

from functools import cached_property
from typing import Final

import msgspec

from stepscope.remedies import Remedy
from stepscope.unavailable import Unavailable

NO_JUDGED_STEPS: Final = Unavailable(
    code="NO_STEPS",
    reason="Without steps a share of the step cannot be formed.",
    remedy=Remedy.MARK_STEPS,
)


class StepSeries(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """An effect on one device, or on one host's step threads, over its judged steps.

    Attributes:
        step_source: Where the steps come from; null where the whole profile is one
            window.
        step_confidence: 0 to 1; 0 without steps.
        closed: Whether each window ends where the next step starts; a single last
            step's does not.
        window_ps: Length of each judged window.
        parts_ps: Cause → its time in each window; parts never overlap.
        unknown_ps: Time of all windows whose cause is unknown and that might belong to
            the effect.
        doubt_ps: How far differing clocks may have moved the effect of all windows, up
            or down.
        excess_ps: How much of the effect of all windows may come from lost records
            alone.
    """

    step_source: str | None
    step_confidence: float
    closed: bool = True
    window_ps: tuple[int, ...]
    parts_ps: dict[str, tuple[int, ...]]
    unknown_ps: int = 0
    doubt_ps: int = 0
    excess_ps: int = 0

    @cached_property
    def effect_ps(self) -> tuple[int, ...]:
        """Return the sum of the parts in each window."""
        if not self.parts_ps:
            return (0,) * len(self.window_ps)
        return tuple(map(sum, zip(*self.parts_ps.values(), strict=True)))
