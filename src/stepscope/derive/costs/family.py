"""Families of ops: how many operations and bytes an execution of each costs."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

from stepscope.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from stepscope.derive.costs.operands import Operands


class Part(IntEnum):
    """The part of an op's work that a rule counts.

    Where an op calls others whose rules count its own part, that work is theirs; only
    the rest is its own. So the product inside a layer counts once, and so does an
    addition next to it.
    """

    PRODUCT = 1
    OTHER = 2


class Rule(Frozen, frozen=True, eq=True):
    """The cost of one execution.

    Attributes:
        flops: Floating-point operations; None where the operands do not determine
            them.
        result: Sizes of the result; None where the operands do not determine them.
        accessed: Bytes read and written, where they are not those of all operands and
            of a result of the first one's type; None where that is what they are.
    """

    flops: Callable[[Operands], int | None]
    result: Callable[[Operands], tuple[int, ...] | None]
    accessed: Callable[[Operands], int | None] | None = None


class Family(Frozen, frozen=True, eq=True):
    """Ops whose costs follow one formula.

    Attributes:
        name: Name of the family.
        part: Part of the work that its ops count.
        formula: The number of operations in words.
        source: Where the formula comes from.
        rules: Op type → its rule.
    """

    name: str
    part: Part
    formula: str
    source: str
    rules: Mapping[str, Rule]
