"""What a tool is: a name that users know, and one function over a profile."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from stepscope.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import msgspec

    from stepscope.derive.profile_data import ProfileData
    from stepscope.unavailable import Unavailable

__all__ = ["Tool"]

#: Most tools have no answers by another producer's rules.
_NOBODY: Final[Mapping[str, Any]] = MappingProxyType({})


class Tool(Frozen, frozen=True, eq=True):
    """One tool of the program.

    Attributes:
        name: The contract name.
        aliases: Short names accepted beside `name`.
        title: What the guides call it.
        options: The Struct of its options, every field with a default.
        analyse: `(profile, options)` to a frozen result or `Unavailable`.
        derivations: Derivations that the tool asks of each host for its default
            options; they are computed side by side beforehand.
        compat: Producer of profiles → `analyse` with the numbers that the producer
            wrote itself.
    """

    name: str
    aliases: tuple[str, ...]
    title: str
    options: type[msgspec.Struct]
    analyse: Callable[[ProfileData, Any], msgspec.Struct | Unavailable]
    derivations: tuple[Callable[..., object], ...]
    compat: Mapping[str, Callable[[ProfileData, Any], msgspec.Struct | Unavailable]] = (
        _NOBODY
    )
