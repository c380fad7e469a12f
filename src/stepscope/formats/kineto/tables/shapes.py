"""Operand shapes with their element types, from the two lists that an op records."""

from __future__ import annotations

from stepscope.formats.kineto.json.lenient import json_value
from stepscope.xspace.operands import operands_text

__all__ = ["shape_text"]


def shape_text(dims: bytes, types: bytes) -> str | None:
    """`c10::Half[128,64], float[64]` for the operands that have dimensions.

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
    return operands_text(sizes, names)
