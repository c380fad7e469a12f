"""What a derivation is: a pure function with a name and named inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Derivation"]


class Derivation(NamedTuple):
    """A pure function of one host's tables and other derivations, computed once.

    Attributes:
        name: What tools and signals ask for.
        inputs: Names of tables or derivations, in order of the parameters; `trace`
            is the `TraceData` itself, `strings` its interned texts. A name that ends
            in `?` is handed over even when it is `Unavailable`; without the mark an
            `Unavailable` input is the result.
        compute: The function.
    """

    name: str
    inputs: tuple[str, ...]
    compute: Callable[..., object]
