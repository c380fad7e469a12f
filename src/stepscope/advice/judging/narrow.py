"""Which 16-bit type the matrix units of the devices take, and the advice for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.advice.signals.device import device_signals

if TYPE_CHECKING:
    from stepscope.advice.finding import Action
    from stepscope.advice.signals.signal import Signals

__all__ = ["for_units"]

#: First compute capability whose matrix units take bfloat16 and TF32.
_BFLOAT16_CAPABILITY: Final = (8, 0)


def for_units(actions: tuple[Action, ...], signals: Signals) -> tuple[Action, ...]:
    """Return the actions for a type that the units of every device take.

    Args:
        actions: Actions with the cause `bfloat16`, `float16` or `any`.
        signals: The signals of the profile. Of unknown devices the older type is sure.
    """
    known = [
        one for one in signals.of(device_signals).compute_capability if one is not None
    ]
    narrow = "bfloat16" if known and min(known) >= _BFLOAT16_CAPABILITY else "float16"
    return tuple(action for action in actions if action.cause in ("any", narrow))
