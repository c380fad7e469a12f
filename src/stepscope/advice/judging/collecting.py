"""What to do about collections of garbage: by who asks for them.

Definition: docs/advice/gap_gc.md.
"""

from __future__ import annotations

from typing import Final

from stepscope.advice.finding import Action

__all__ = ["BY_HAND", "COLLECTING", "FEWER_OBJECTS", "FREEZE"]

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
#: What fits a function that mostly collects garbage, by whether the program asks for
#: collections; None where that is unknown.
COLLECTING: Final[dict[bool | None, tuple[Action, ...]]] = {
    True: (BY_HAND,),
    False: (FEWER_OBJECTS, FREEZE),
    None: (FEWER_OBJECTS, FREEZE, BY_HAND),
}
