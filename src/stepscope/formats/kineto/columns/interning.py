"""Distinct values get numbers, in the order in which they first appear."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from numpy.typing import NDArray

__all__ = ["Interned"]

_Value = TypeVar("_Value", bound="Hashable")


class Interned(dict[_Value, int], Generic[_Value]):
    """Value → number; looking a new one up adds it.

    A subclass of `dict`, so that a known value is found without running Python code.
    """

    def __missing__(self, value: _Value) -> int:
        number = self[value] = len(self)
        return number

    def numbers(self, values: Sequence[_Value]) -> NDArray[np.int32]:
        """The number of each value."""
        return np.fromiter(map(self.__getitem__, values), np.int32, len(values))

    def values_in_order(self) -> list[_Value]:
        """Every value, at the place of its number."""
        return list(self)
