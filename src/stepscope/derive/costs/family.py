"""What a family of ops is: how many operations and bytes an execution of it costs."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from stepscope.derive.costs.operands import Operands

__all__ = ["Family", "Part", "Rule"]


class Part(IntEnum):
    """Which part of the work of an op that calls others a rule stands for.

    What an op calls others of its own part for is their work: only the rest is its
    own. So the product inside a layer counts once, and an addition beside it.
    """

    PRODUCT = 1
    OTHER = 2


class Rule(NamedTuple):
    """The cost of one execution.

    Attributes:
        flops: Floating-point operations; None where the operands do not tell.
        result: Sizes of what it returns; None where the operands do not tell.
    """

    flops: Callable[[Operands], int | None]
    result: Callable[[Operands], tuple[int, ...] | None]


class Family(NamedTuple):
    """Ops whose costs follow one formula.

    Attributes:
        name: What they are called together.
        part: Whose work they count as.
        formula: The number of operations in words.
        source: Where the formula comes from.
        rules: Op type → its rule.
    """

    name: str
    part: Part
    formula: str
    source: str
    rules: Mapping[str, Rule]
