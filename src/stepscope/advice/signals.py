"""Signals that rules read: data derived from a whole run, by the deriving function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

from stepscope.frozen import Frozen
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepscope.derive.run_derivation import RunDerivation

_Value = TypeVar("_Value")


class NoVerdict(Exception):
    """Raised if a rule cannot judge; the rule then returns a finding with a reason.

    Attributes:
        status: The status of the returned finding.
        why: The reason.
    """

    status: ClassVar[Literal["cannot_tell", "not_applicable"]]

    def __init__(self, why: Unavailable) -> None:
        """Store the reason."""
        super().__init__(why.reason)
        self.why = why


class CannotTell(NoVerdict):
    """Data that the rule needs was not recorded."""

    status = "cannot_tell"


class NotApplicable(NoVerdict):
    """The subject of the rule does not exist in the program."""

    status = "not_applicable"


class Signals(Frozen, frozen=True):
    """Derivations of a profile; each value is computed when it is first read.

    Attributes:
        value_of: Returns the value of a derivation, as `ProfileData.of_run` does.
    """

    value_of: Callable[[RunDerivation[Any]], Any]

    def of(self, wanted: RunDerivation[_Value]) -> _Value:
        """Return the value of a derivation."""
        value: _Value = self.value_of(wanted)
        return value

    def needed(self, wanted: RunDerivation[_Value | Unavailable]) -> _Value:
        """Return the value of a derivation that a rule needs for its verdict.

        Raises:
            CannotTell: The value is unavailable.
        """
        value = self.of(wanted)
        if isinstance(value, Unavailable):
            raise CannotTell(value)
        return value

    def known(self, wanted: RunDerivation[_Value | Unavailable]) -> _Value | None:
        """Return the value of a derivation; None if it is unavailable."""
        value = self.of(wanted)
        return None if isinstance(value, Unavailable) else value
