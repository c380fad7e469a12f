"""What a rule is: an item of the checklist, one function, and what it reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stepscope.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepscope.advice.finding import Finding
    from stepscope.advice.item import Item
    from stepscope.advice.signals import Signals
    from stepscope.derive.facts.replaying.edits import Change
    from stepscope.derive.run_derivation import RunDerivation
    from stepscope.thresholds import Thresholds


class Rule(Frozen, frozen=True, eq=True):
    """One rule.

    Attributes:
        item: Its name, what it says, and what to change.
        evaluate: Computes the finding from signals and thresholds alone.
        reads: The signals that the rule asks for.
        changes: Says what a failing finding would change about a step, for a replay;
            None where that follows from its owners, or nothing can be said.
    """

    item: Item
    evaluate: Callable[[Signals, Thresholds], Finding]
    reads: tuple[RunDerivation[Any], ...]
    changes: Callable[[Signals, Thresholds], tuple[Change, ...]] | None = None
