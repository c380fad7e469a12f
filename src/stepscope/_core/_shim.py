"""Replacement for Cython when a kernel module runs uncompiled.

A kernel module imports `cython` from this module. The build replaces this import with
`import cython`, whose names the Cython compiler resolves. Uncompiled code uses this
module even where Cython is installed, because the `cast` of Cython's own Python module
does not wrap integers. In this module decorators return their function unchanged, `with
cython.nogil:` keeps the GIL, and types only appear in annotations, which are never
evaluated. Two names have an effect, so that compiled and uncompiled code agree. `cast`
wraps integers to the width of the type, as C does. `ccall` passes arrays as
memoryviews, whose items are Python numbers.
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
    """A C type: a name for annotations, and for integers a width to wrap to."""

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
    """Usable as both `@cython.nogil` and `with cython.nogil:`."""

    def __call__(self, function: Any) -> Any:
        return function


def _same_function(function: Any) -> Any:
    return function


def _ignore_options(*_values: object, **_options: object) -> Callable[[Any], Any]:
    return _same_function


def ccall(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that passes each array on as a memoryview."""

    @wraps(function)
    def call(*values: Any) -> Any:
        return function(
            *(memoryview(it) if hasattr(it, "__len__") else it for it in values)
        )

    return call


def cast(kind: _Type, value: Any) -> Any:
    """Return the value wrapped to the width of the C type."""
    return kind.wrap(value)


def declare(_kind: object, value: Any = None) -> Any:
    """Return the value of a module variable that has a C type if compiled."""
    return value


def fused_type(*_kinds: _Type) -> _Type:
    """Return a placeholder for a type that is any of several C types."""
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

#: This module, typed `Any` because type checkers do not accept its names as types.
cython: Any = sys.modules[__name__]
