"""What a rule is: an item of the checklist, one function, and what it reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stepscope.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepscope.advice.finding import Finding
    from stepscope.advice.item import Item
    from stepscope.advice.signals.replaying.change import Change
    from stepscope.advice.signals.signal import Signal, Signals
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
    reads: tuple[Signal[Any], ...]
    changes: Callable[[Signals, Thresholds], tuple[Change, ...]] | None = None
