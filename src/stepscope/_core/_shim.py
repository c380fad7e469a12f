"""Stands in for Cython when a kernel module runs uncompiled.

A kernel module takes `cython` from here. When it is compiled, that line becomes
`import cython`, whose names Cython resolves, and this module is never imported.
Uncompiled, it stands in even where Cython is installed, because the `cast` of Cython's
own Python module does not wrap. Here decorators hand back what they decorate,
`with cython.nogil:` keeps the lock, and types are names in annotations that nobody
evaluates. Two names compute, so that both forms agree: `cast` wraps whole numbers to
the width of the type, as C does, and `ccall` hands arrays on as memoryviews, whose
items are Python's numbers.
"""

from __future__ import annotations

import sys
from contextlib import nullcontext
from functools import wraps
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

compiled: Final = False


class _Type:
    """A C type: a name in annotations, and for whole numbers a width to wrap to."""

    def __init__(self, bits: Any = 0, *, signed: Any = True) -> None:
        self.bits = bits
        self.signed = signed

    def __getitem__(self, _shape: object) -> _Type:
        return self

    def wrap(self, value: Any) -> Any:
        if not self.bits:
            return value
        value &= (1 << self.bits) - 1
        if self.signed and value >> (self.bits - 1):
            value -= 1 << self.bits
        return value


class _Nogil(nullcontext[None]):
    """Both `@cython.nogil` and `with cython.nogil:`."""

    def __call__(self, function: Any) -> Any:
        return function


def _same_function(function: Any) -> Any:
    return function


def _ignore_options(*_values: object, **_options: object) -> Callable[[Any], Any]:
    return _same_function


def ccall(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function that Python calls: with memoryviews of the arrays."""

    @wraps(function)
    def call(*values: Any) -> Any:
        return function(
            *(memoryview(it) if hasattr(it, "__len__") else it for it in values)
        )

    return call


def cast(kind: _Type, value: Any) -> Any:
    """Return the value as that C type holds it."""
    return kind.wrap(value)


def declare(_kind: object, value: Any = None) -> Any:
    """Return a variable of the module that has a C type when it is compiled."""
    return value


def fused_type(*_kinds: _Type) -> _Type:
    """Return what stands for each of several types."""
    return _Type()


nogil: Final = _Nogil()
cfunc = inline = cclass = final = no_gc = _same_function
exceptval = boundscheck = wraparound = cdivision = initializedcheck = _ignore_options
returns = _ignore_options

bint = double = float = void = const = _Type()  # noqa: A001 - C's names
uchar = _Type(8, signed=False)
int = _Type(32)  # noqa: A001 - C's name
uint = _Type(32, signed=False)
long = longlong = Py_ssize_t = _Type(64)
ulonglong = _Type(64, signed=False)

#: The module itself, whose names are no types to a type checker.
cython: Any = sys.modules[__name__]
