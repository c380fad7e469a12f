"""The one shape of "cannot say": a code, a reason and a way to get the data."""

from __future__ import annotations

from typing import Final, TypeVar

import msgspec

_Value = TypeVar("_Value")

#: Code → what it means (docs/glossary.md#why-a-number-is-missing).
CODES: Final = {
    "NO_DEVICE_PLANE": "the profile holds no device",
    "UNKNOWN_DEVICE": "the profile holds work of a kind of device that has no reader",
    "NO_DEVICE_EVENTS": "a device is listed, but none of its activity was recorded",
    "NO_STEPS": "no step marker and no accepted period",
    "SINGLE_SAMPLE": "one sample has no spread",
    "NO_SAMPLES": "there is nothing to form a statistic from",
    "ZERO_DENOMINATOR": "the whole that a share would be taken of is zero",
    "NO_COLLECTIVES": "what was recorded takes part in no collective",
    "NO_KERNEL_DETAILS": "kernels carry no launch details",
    "NO_HLO": "the profile holds no HLO module",
    "NO_SHAPES": "tensor shapes were not recorded",
    "NO_PEAKS": "the peak rates of this device are unknown",
    "NO_ALLOCATOR_EVENTS": "no allocator events were recorded",
    "NO_TFDATA_EVENTS": "no input pipeline events were recorded",
    "NO_CLOCK": "the profile has no absolute start time",
    "HOST_LEVEL": "the host tracer level was too low for these events",
    "LOST_EVENTS": "events were dropped while recording",
    "BAD_VALUE": "the file holds an impossible number",
    "FORMAT": "this format does not record it, or has no reader",
    "CORRUPT": "the file is damaged",
    "NOT_RECORDED": "the capture did not record it",
    "OTHER_WORK": "two runs are not known to do the same work in a step",
}


class Unavailable(msgspec.Struct, frozen=True, kw_only=True):
    """Something that could not be looked at: never an empty result, never a zero.

    Attributes:
        code: A key of `CODES`.
        reason: One sentence that names the absent input.
        remedy: One sentence with one concrete action.
    """

    code: str
    reason: str
    remedy: str

    def missing_field(self, field: str) -> Missing:
        """Say that one field of a result is null for this reason."""
        return Missing(
            field=field, code=self.code, reason=self.reason, remedy=self.remedy
        )


class Missing(msgspec.Struct, frozen=True, kw_only=True):
    """One null field (or one null column) of a result, with its reason."""

    field: str
    code: str
    reason: str
    remedy: str


def require_available(value: _Value | Unavailable) -> _Value:
    """Return a value that must be available, since another one was computed from it.

    Raises:
        TypeError: The value is unavailable.
    """
    if isinstance(value, Unavailable):
        raise TypeError(f"relied on, but absent: {value.reason}")
    return value
