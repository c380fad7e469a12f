"""How the shapes of an op's operands are written as one text."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


def operands_text(sizes: Sequence[object], types: Sequence[object]) -> str | None:
    """`c10::Half[128,64], float[64]` for the operands that have dimensions.

    Scalars are left out: the type of a factor says nothing about that of the tensors.

    Args:
        sizes: A list of sizes per operand; of a list of tensors a list of such lists.
        types: A text per operand.

    Returns:
        None where no operand has both.
    """
    parts = [
        f"{name}[{','.join(map(str, size))}]"
        for operand, name in zip(sizes, types, strict=False)
        if isinstance(name, str) and name
        for size in _tensors(operand)
    ]
    return ", ".join(parts) or None


def _tensors(operand: object) -> Iterator[list[int]]:
    """Yield the sizes of an operand, or of each tensor of a list."""
    if not isinstance(operand, list) or not operand:
        return
    if all(isinstance(it, int) for it in operand):
        yield operand
        return
    for inner in operand:
        if (
            isinstance(inner, list)
            and inner
            and all(isinstance(it, int) for it in inner)
        ):
            yield inner
