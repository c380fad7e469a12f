"""What rules read: derivations of the whole run, by the function that declares each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

from stepscope.frozen import Frozen
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepscope.derive.run_derivation import RunDerivation

_Value = TypeVar("_Value")


class NoVerdict(Exception):
    """A rule cannot judge; the rule's frame makes the finding that says why.

    Attributes:
        status: The status of that finding.
        why: Its reason.
    """

    status: ClassVar[Literal["cannot_tell", "not_applicable"]]

    def __init__(self, why: Unavailable) -> None:
        """Keep the reason."""
        super().__init__(why.reason)
        self.why = why


class CannotTell(NoVerdict):
    """What the rule needs was not recorded."""

    status = "cannot_tell"


class NotApplicable(NoVerdict):
    """The rule's topic is absent, with proof."""

    status = "not_applicable"


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

    def needed(self, wanted: RunDerivation[_Value | Unavailable]) -> _Value:
        """Return the value of a derivation without which a rule cannot judge.

        Raises:
            CannotTell: It is unavailable.
        """
        value = self.of(wanted)
        if isinstance(value, Unavailable):
            raise CannotTell(value)
        return value

    def known(self, wanted: RunDerivation[_Value | Unavailable]) -> _Value | None:
        """Return the value of a derivation; None where it is unavailable."""
        value = self.of(wanted)
        return None if isinstance(value, Unavailable) else value
