"""What a derivation is: a pure function whose parameters name its inputs."""

from __future__ import annotations

import ast
from functools import cache
from graphlib import CycleError, TopologicalSorter
from inspect import CO_VARARGS, CO_VARKEYWORDS
from typing import TYPE_CHECKING

from stepscope.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable


class Derivation(Frozen, frozen=True, eq=True):
    """What the signature of a derivation says.

    Attributes:
        name: Name of the function, and of the parameter of derivations that use it.
        inputs: Parameter → whether the function accepts an `Unavailable` for it.
            Where it does not, an `Unavailable` input is the result.
        compute: The function.
    """

    name: str
    inputs: dict[str, bool]
    compute: Callable[..., object]


def declared(
    functions: Iterable[Callable[..., object]], given: Collection[str]
) -> dict[str, Derivation]:
    """Read the signatures of all derivations, by name, and check them together.

    A run reads only those that it needs; a test reads all.

    Args:
        functions: Pure functions of keyword-only parameters.
        given: Names of the inputs that are not derivations.

    Raises:
        TypeError: A signature lacks what is needed; the message names the
            function and the parameter.
    """
    found: dict[str, Derivation] = {}
    for function in functions:
        derivation = derivation_of(function)
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


def derivation_of(function: Callable[..., object]) -> Derivation:
    """Read the signature of one derivation.

    Raises:
        TypeError: The signature lacks what is needed; the message names the function
            and the parameter.
    """
    name = function.__name__
    # `inspect.signature` would say the same in twenty times the time.
    code = function.__code__
    if code.co_argcount or code.co_flags & (CO_VARARGS | CO_VARKEYWORDS):
        raise TypeError(
            f"{name}: its parameter {code.co_varnames[0]!r} is not keyword-only"
        )
    inputs: dict[str, bool] = {}
    for parameter in code.co_varnames[: code.co_kwonlyargcount]:
        annotation = function.__annotations__.get(parameter)
        if not isinstance(annotation, str):
            raise TypeError(
                f"{name}: the annotation of {parameter!r} is not kept as text; "
                "begin the module with `from __future__ import annotations`"
            )
        inputs[parameter] = _names_unavailable(annotation)
    return Derivation(name, inputs, function)


@cache
def _names_unavailable(annotation: str) -> bool:
    """Return whether an unevaluated union has the member `Unavailable`."""
    if "Unavailable" not in annotation:
        return False
    members = [ast.parse(annotation, mode="eval").body]
    while members:
        match members.pop():
            case ast.BinOp(left=left, op=ast.BitOr(), right=right):
                members += (left, right)
            case ast.Name(id="Unavailable"):
                return True
    return False


def _refuse_circles(derivations: dict[str, Derivation]) -> None:
    try:
        TopologicalSorter(
            {one.name: one.inputs for one in derivations.values()}
        ).prepare()
    except CycleError as error:
        circle = " ← ".join(error.args[1])
        raise TypeError(f"derivations need each other: {circle}") from None
