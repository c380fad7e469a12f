"""The type for missing values: a code, a reason and a way to get the data."""

from __future__ import annotations

from typing import Final, TypeVar

import msgspec

_Value = TypeVar("_Value")

#: Code → meaning (docs/glossary.md#why-a-number-is-missing).
CODES: Final = {
    "NO_DEVICE_PLANE": "the profile has no device",
    "UNKNOWN_DEVICE": "the profile has work of a kind of device without a reader",
    "NO_DEVICE_EVENTS": "a device is listed, but none of its activity was recorded",
    "NO_STEPS": "no step marker and no accepted period",
    "SINGLE_SAMPLE": "a spread cannot be computed from one sample",
    "NO_SAMPLES": "there are no samples for a statistic",
    "ZERO_DENOMINATOR": "the denominator of a share is zero",
    "NO_COLLECTIVES": "no recorded work is part of a collective",
    "NO_KERNEL_DETAILS": "kernels have no launch details",
    "NO_HLO": "the profile has no HLO module",
    "NO_SHAPES": "tensor shapes were not recorded",
    "NO_PEAKS": "the peak rates of this device are unknown",
    "NO_ALLOCATOR_EVENTS": "no allocator events were recorded",
    "NO_TFDATA_EVENTS": "no input pipeline events were recorded",
    "NO_CLOCK": "the profile has no absolute start time",
    "HOST_LEVEL": "the host tracer level was too low for these events",
    "LOST_EVENTS": "events were dropped while recording",
    "BAD_VALUE": "the file has an impossible number",
    "FORMAT": "this format does not record the data, or has no reader",
    "CORRUPT": "the file is damaged",
    "NOT_RECORDED": "the capture did not record the data",
    "OTHER_WORK": "the two runs may do different work in a step",
}


class Unavailable(msgspec.Struct, frozen=True, kw_only=True):
    """A value that could not be measured; used instead of an empty result or a zero.

    Attributes:
        code: A key of `CODES`.
        reason: One sentence that names the missing input.
        remedy: One sentence with one concrete action.
    """

    code: str
    reason: str
    remedy: str

    def missing_field(self, field: str) -> Missing:
        """Return the entry of a null field for a result's list of missing fields."""
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
    """Return a value that is known to be available.

    Raises:
        TypeError: The value is unavailable.
    """
    if isinstance(value, Unavailable):
        raise TypeError(f"a required value is unavailable: {value.reason}")
    return value
