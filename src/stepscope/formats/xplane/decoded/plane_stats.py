"""Properties of a whole plane, in whatever field their producer wrote them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stepscope.xspace.reading.columns import Plane


def integer(plane: Plane, name: str) -> int | None:
    """Return a whole number; None if there is none or it exceeds 64 bits signed."""
    value = _value(plane, name)
    if isinstance(value, float) and math.isfinite(value):
        value = int(value)
    if isinstance(value, int) and -(2**63) <= value < 2**63:
        return value
    return None


def real(plane: Plane, name: str) -> float | None:
    """Return a finite number, None where there is none."""
    value = _value(plane, name)
    if isinstance(value, int | float) and math.isfinite(value):
        return float(value)
    return None


def text(plane: Plane, name: str) -> str | None:
    """Return a text that is not empty, None where there is none."""
    value = _value(plane, name)
    return value if isinstance(value, str) and value else None


def raw(plane: Plane, name: str) -> bytes | None:
    """Return bytes, None where there are none."""
    value = _value(plane, name)
    return value if isinstance(value, bytes) else None


def _value(plane: Plane, name: str) -> float | int | str | bytes | None:
    found = None
    for key, _, value in plane.stats:
        if key == name:
            found = value
    return found
