"""All derivations read at once: what a run, which reads those it needs, cannot see."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING

from stepscope.derive.derivations import read_signature

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from stepscope.derive.derivations import Derivation


def declared(
    functions: Iterable[Callable[..., object]], given: Collection[str]
) -> dict[str, Derivation]:
    """Read the signatures of all derivations, by name, and check them together.

    Args:
        functions: Pure functions of keyword-only parameters.
        given: Names of the inputs that are not derivations.

    Raises:
        TypeError: A signature lacks what is needed; the message names the
            function and the parameter.
    """
    found: dict[str, Derivation] = {}
    for function in functions:
        derivation = read_signature(function)
        if derivation.name in found or derivation.name in given:
            raise TypeError(f"{derivation.name}: declared twice")
        found[derivation.name] = derivation
    for derivation in found.values():
        for name in derivation.inputs:
            if name not in found and name not in given:
                raise TypeError(
                    f"{derivation.name}: its parameter {name!r} names no table and no "
                    "derivation"
                )
    _refuse_circles(found)
    return found


def _refuse_circles(derivations: dict[str, Derivation]) -> None:
    try:
        TopologicalSorter(
            {one.name: one.inputs for one in derivations.values()}
        ).prepare()
    except CycleError as error:
        circle = " ← ".join(error.args[1])
        raise TypeError(f"derivations need each other: {circle}") from None
