"""What to do about collections of garbage: by who asks for them.

Definition: docs/advice/gap_gc.md.
"""

from __future__ import annotations

from typing import Final

from stepscope.advice.finding import Action

__all__ = ["BY_HAND", "FEWER_OBJECTS", "FREEZE", "collecting"]

BY_HAND: Final = Action(
    cause="any",
    framework="any",
    text="Do not collect garbage by hand in each step: Python frees arrays at once "
    "when nothing refers to them. Collect every n-th step, if at all, and leave "
    "out what lives as long as the program.",
    code="gc.freeze()  # once, after the set-up",
)
FREEZE: Final = Action(
    cause="any",
    framework="any",
    text="After the set-up, leave out of every collection what lives as long as "
    "the program.",
    code="gc.collect(); gc.freeze()",
)
FEWER_OBJECTS: Final = Action(
    cause="any",
    framework="any",
    text="Make fewer Python objects per batch: arrays in place of lists and "
    "dictionaries of numbers.",
)


def collecting(*, by_hand: bool | None) -> tuple[Action, ...]:
    """Return what fits a function that mostly collects garbage.

    Args:
        by_hand: Whether the program asks for collections; None where it is unknown.
    """
    if by_hand is None:
        return (FEWER_OBJECTS, FREEZE, BY_HAND)
    return (BY_HAND,) if by_hand else (FEWER_OBJECTS, FREEZE)
