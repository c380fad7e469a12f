"""What a rule is: one function, what it reads, what it says, and where to look."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepscope.advice.finding import Finding
    from stepscope.advice.signals.signal import Signal, Signals
    from stepscope.advice.words import Words
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
        evaluate: Computes the finding from signals and thresholds alone.
        reads: The signals that the rule asks for.
        words: The sentences about its findings.
        pages: Tools that show the numbers it rests on, the most useful first.
    """

    id: str
    stage: int
    title: str
    evaluate: Callable[[Signals, Thresholds], Finding]
    reads: tuple[Signal[Any], ...]
    words: Words
    pages: tuple[str, ...]
