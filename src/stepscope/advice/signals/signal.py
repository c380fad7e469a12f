"""What a signal is, and how rules ask for one.

A signal is a group of named numbers, or the reason why there are none. The decorator
`signal` declares the function that computes it from a profile and the thresholds, and
rules ask for it by the name of that function: `signals.of(input_signals)`. A signal
that is worked out from another declares that too, and is given its value.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from stepscope.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepscope.derive.profile_data import Wanted

T = TypeVar("T")


class Signal(Frozen, Generic[T], frozen=True):
    """A group of numbers that rules may read.

    Attributes:
        compute: Computes the group.
        needs: Derivations and tables that `compute` asks for on each host; what those
            need in turn is not listed.
        reads: Signals whose values `compute` is given after profile and thresholds.
        seldom: Whether most verdicts are reached without it, so that it is not worked
            out before a rule asks.
    """

    compute: Callable[..., T]
    needs: tuple[Wanted, ...]
    reads: tuple[Signal[Any], ...] = ()
    seldom: bool = False


def signal(
    *needs: Wanted,
    reads: tuple[Signal[Any], ...] = (),
    seldom: bool = False,
) -> Callable[[Callable[..., T]], Signal[T]]:
    """Declare a function as a signal, with the derivations and tables it asks for."""
    return lambda compute: Signal(compute, needs, reads, seldom)


class Signals:
    """All signals of a profile; each is computed when first asked for, and kept."""

    def __init__(self, value_of: Callable[[Signal[Any]], Any]) -> None:
        self._value_of = functools.cache(value_of)

    def of(self, wanted: Signal[T]) -> T:
        """Return the value of a signal."""
        value: T = self._value_of(wanted)
        return value
