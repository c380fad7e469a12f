"""An effect over the clean steps of one device or host: what a verdict rests on."""

from __future__ import annotations

import msgspec

__all__ = ["StepSeries"]


class StepSeries(msgspec.Struct, frozen=True, kw_only=True):
    """An effect on one device, or on one host's step threads, over its clean steps.

    Attributes:
        host: Name of the host.
        device: Ordinal of the device; null for the step threads of a run without
            devices.
        step_source: Where the steps come from; null where the whole profile is one
            window.
        step_confidence: 0 to 1; 0 without steps.
        closed: Whether each window ends where the next step starts; a single last
            step's does not.
        window_ps: Length of each clean step's window.
        parts_ps: Cause → its time in each clean step's window; parts never overlap.
        unknown_ps: Time in each clean step's window whose cause is unknown and that
            might belong to the effect.
        doubt_ps: How far flaws of the record may have moved the effect, up or down.
        excess_ps: How much of the effect may come from lost records alone.
        working_ps: Time in each clean step's window in which the device computed or
            copied; it decides which device is judged
            (docs/definitions/judging.md#which-device-is-judged).
        total_window_ps: Sum of all closed windows, untypical steps included; null
            where every closed window is a clean one.
        total_parts_ps: Cause → its time in all closed windows.
        total_steps: Number of closed windows.
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
        """Return the sum of the parts in each window."""
        return tuple(sum(parts) for parts in zip(*self.parts_ps.values(), strict=True))

    @property
    def label(self) -> str:
        """Return `host:device`, or the host where the series is of no device."""
        return self.host if self.device is None else f"{self.host}:{self.device}"
