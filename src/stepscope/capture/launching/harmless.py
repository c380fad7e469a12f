"""Hooks that never fail the program: an error prints a line and ends the recording."""

from __future__ import annotations

import contextlib
import functools
import sys
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from stepscope.errors import is_from_handler, printable_line, suppress_faults

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_P = ParamSpec("_P")
_R = TypeVar("_R")


def say_line(sentence: str) -> None:
    """Print one line on standard error, which the program may have closed."""
    try:
        sys.stderr.write(f"stepscope: {printable_line(sentence)}\n")
    except (OSError, ValueError, AttributeError) as refused:
        if is_from_handler(refused):
            raise


@contextlib.contextmanager
def silence_log() -> Iterator[None]:
    """Disable logging; the launcher prints the warnings after the program ends."""
    import logging  # noqa: PLC0415 - keeps process startup fast

    log = logging.getLogger("stepscope")
    log.disabled = True
    try:
        yield
    finally:
        log.disabled = False


def harmless(
    after_fault: Callable[[str], None],
) -> Callable[[Callable[_P, _R]], Callable[_P, _R | None]]:
    """Make a hook that never raises: an error is printed and passed to `after_fault`.

    Exceptions that interrupt the program (Ctrl-C, or raised by its signal handlers)
    belong to the program and are passed on.
    """

    def guard_hook(hook: Callable[_P, _R]) -> Callable[_P, _R | None]:
        @functools.wraps(hook)
        def guarded_hook(*args: _P.args, **kwargs: _P.kwargs) -> _R | None:
            try:
                return hook(*args, **kwargs)
            except Exception as fault:
                if is_from_handler(fault):
                    raise
                from stepscope.errors import StepscopeError  # noqa: PLC0415 - keeps process startup fast

                is_ours = isinstance(fault, StepscopeError)
                reason = f"{fault}" if is_ours else f"{type(fault).__name__}: {fault}"
                message = f"recording stops: {reason}"
                say_line(message)
                with suppress_faults():
                    after_fault(message)
                return None

        return guarded_hook

    return guard_hook
