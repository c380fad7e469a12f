"""What a signal is, and how rules ask for one.

A signal is a group of named numbers, or why there are none; a function of a profile
and the thresholds that `signal` declares. Rules ask for it by that name:
`signals.of(input_signals)`.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepscope.derive.profile_data import ProfileData
    from stepscope.thresholds import Thresholds

__all__ = ["Signal", "Signals", "signal"]

T = TypeVar("T")


class Signal(NamedTuple, Generic[T]):
    """A group of numbers that rules may read.

    Attributes:
        compute: Works it out.
        needs: Derivations that it asks of each host, beside what these need
            themselves.
    """

    compute: Callable[[ProfileData, Thresholds], T]
    needs: tuple[Callable[..., object], ...]


def signal(
    *needs: Callable[..., object],
) -> Callable[[Callable[[ProfileData, Thresholds], T]], Signal[T]]:
    """Declare a function as a signal, with the derivations that it asks for."""
    return lambda compute: Signal(compute, needs)


class Signals:
    """All signals of a profile; each is worked out when first asked for, and kept."""

    def __init__(self, value_of: Callable[[Signal[Any]], Any]) -> None:
        self._value_of = functools.cache(value_of)

    def of(self, wanted: Signal[T]) -> T:
        """The value of a signal."""
        value: T = self._value_of(wanted)
        return value
