"""What a tool is: a name that users know, and one function over a profile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    import msgspec

    from stepscope.derive.profile_data import ProfileData
    from stepscope.unavailable import Unavailable

__all__ = ["Tool"]


class Tool(NamedTuple):
    """One tool of the program.

    Attributes:
        name: The contract name.
        aliases: Short names accepted beside it.
        title: What the guides call it.
        options: The Struct of its options, every field with a default.
        analyse: `(profile, options)` to a frozen result or `Unavailable`.
        derivations: What it asks of each host for its default options, beside what
            these need themselves; they are computed side by side before.
    """

    name: str
    aliases: tuple[str, ...]
    title: str
    options: type[msgspec.Struct]
    analyse: Callable[[ProfileData, Any], msgspec.Struct | Unavailable]
    derivations: tuple[Callable[..., object], ...]
