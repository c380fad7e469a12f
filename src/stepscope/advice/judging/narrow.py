"""Which 16-bit type the matrix units of the devices take, and the advice for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.advice.signals.device import device_signals
from stepscope.advice.signals.running.traits import traits_of

if TYPE_CHECKING:
    from stepscope.advice.finding import Action
    from stepscope.advice.signals.signal import Signals

__all__ = ["for_units"]

#: First compute capability whose matrix units take bfloat16 and TF32.
_BFLOAT16_CAPABILITY: Final = (8, 0)


def for_units(actions: tuple[Action, ...], signals: Signals) -> tuple[Action, ...]:
    """Return the actions for a type that the units of every device take.

    Args:
        actions: Actions with the cause `bfloat16`, `float16`, `float16_forward` (in
            place of a framework's `float16` where nothing trains) or `any`.
        signals: The signals of the profile. Of unknown devices the older type is sure.
    """
    known = [
        one for one in signals.of(device_signals).compute_capability if one is not None
    ]
    narrow = "bfloat16" if known and min(known) >= _BFLOAT16_CAPABILITY else "float16"
    # Without gradients there is no loss to scale.
    forward = narrow == "float16" and not traits_of(signals).trains
    told = [one for one in actions if forward and one.cause == "float16_forward"]
    instead = {one.framework for one in told}
    return tuple(
        one
        for one in actions
        if one.cause == "any"
        or one in told
        or (one.cause == narrow and one.framework not in instead)
    )
