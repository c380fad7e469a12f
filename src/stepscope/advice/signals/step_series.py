"""An effect over the clean steps of one device or host: what a verdict rests on."""

from __future__ import annotations

import msgspec

__all__ = ["StepSeries"]


class StepSeries(msgspec.Struct, frozen=True, kw_only=True):
    """An effect on one device, or on one host's step threads, over its clean steps.

    Attributes:
        host: The host.
        device: Ordinal; null for the step threads of a run without devices.
        step_source: Where the steps come from; null where the window is the profile.
        step_confidence: 0 to 1; 0 without steps.
        closed: The windows end where the next step starts; a lone last step does not.
        window_ps: Length of each clean step's window.
        parts_ps: Cause → its time in each of these windows; parts never overlap.
        unknown_ps: Time of each window whose cause could not be told and that might
            belong to the effect.
        doubt_ps: How far the record's own flaws may move the effect, either way.
        excess_ps: How much of the effect lost records may have made up.
        working_ps: Time of each window in which the device computed or copied
            (spec: advice, A2: it chooses the device that is judged).
        total_window_ps: All closed windows, untypical ones too, added up; null where
            those are the clean ones.
        total_parts_ps: The parts added up over the same windows.
        total_steps: Number of these windows.
    """

    host: str
    device: int | None
    step_source: str | None
    step_confidence: float
    closed: bool = True
    window_ps: tuple[int, ...]
    parts_ps: dict[str, tuple[int, ...]]
    unknown_ps: tuple[int, ...]
    doubt_ps: int = 0
    excess_ps: int = 0
    working_ps: tuple[int, ...] = ()
    total_window_ps: int | None = None
    total_parts_ps: dict[str, int] = {}
    total_steps: int = 0

    @property
    def effect_ps(self) -> tuple[int, ...]:
        """The parts of each window added up."""
        return tuple(sum(parts) for parts in zip(*self.parts_ps.values(), strict=True))

    @property
    def label(self) -> str:
        """`host:device`, or the host where no device is concerned."""
        return self.host if self.device is None else f"{self.host}:{self.device}"
