"""Which actions fit the kind of program: training, inference, or a serving engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.derive.facts.program_traits import ProgramTraits, program_traits
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.advice.finding import Action
    from stepscope.advice.signals import Signals


def traits_of(signals: Signals) -> ProgramTraits:
    """Return the traits; those of a plain training program where they are unknown."""
    found = signals.of(program_traits)
    return ProgramTraits() if isinstance(found, Unavailable) else found


def fitting(actions: tuple[Action, ...], signals: Signals) -> tuple[Action, ...]:
    """Leave out what is for programs of another kind: training, inference, engines."""
    traits = traits_of(signals)
    wrong = {"inference", "engine"} if traits.updates else {"training"}
    if not traits.engine:
        wrong.add("engine")
    return tuple(action for action in actions if action.cause not in wrong)
