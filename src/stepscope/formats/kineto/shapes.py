"""Operand shapes with their element types, from the two lists that an op records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.formats.kineto.lenient import json_value

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["shape_text"]


def shape_text(dims: bytes, types: bytes) -> str | None:
    """`c10::Half[128,64], float[64]` for the operands that have dimensions.

    Scalars are left out: the type of a factor says nothing about that of the tensors.

    Args:
        dims: JSON of `Input Dims`: a list of sizes per operand; of a list of tensors
            a list of such lists.
        types: JSON of `Input type`: a text per operand.

    Returns:
        None where no operand has both.
    """
    sizes, names = json_value(dims), json_value(types)
    if not isinstance(sizes, list) or not isinstance(names, list):
        return None
    parts = [
        f"{name}[{','.join(map(str, size))}]"
        for operand, name in zip(sizes, names, strict=False)
        if isinstance(name, str) and name
        for size in _tensors(operand)
    ]
    return ", ".join(parts) or None


def _tensors(operand: object) -> Iterator[list[int]]:
    """The sizes of an operand, or of each tensor of a list."""
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
