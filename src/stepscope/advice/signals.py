"""What rules read: derivations of the whole run, by the function that declares each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from stepscope.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepscope.derive.run_derivation import RunDerivation

_Value = TypeVar("_Value")


class Signals(Frozen, frozen=True):
    """What is derived from a profile; each value is computed when first asked for.

    Attributes:
        value_of: Returns the value of a derivation, as `ProfileData.of_run` does.
    """

    value_of: Callable[[RunDerivation[Any]], Any]

    def of(self, wanted: RunDerivation[_Value]) -> _Value:
        """Return the value of a derivation."""
        value: _Value = self.value_of(wanted)
        return value
