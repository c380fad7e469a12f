"""What a rule is: a stable name, its place in the guides' order, and one function."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepscope.advice.finding import Finding
    from stepscope.advice.signals.model import Signals
    from stepscope.thresholds import Thresholds

__all__ = ["Rule"]


class Rule(NamedTuple):
    """One rule.

    Attributes:
        id: Stable name, `topic.matter`.
        stage: 0 capture, 1 input, 2 gaps, 3 device use, 4 placement and copies,
            5 kernels, 6 mixed precision, 7 compilation, 8 several devices, 9 memory
            and run.
        title: What is the matter when it fails.
        evaluate: Signals and thresholds to a finding; reads nothing else.
    """

    id: str
    stage: int
    title: str
    evaluate: Callable[[Signals, Thresholds], Finding]
