"""Keeping our faults out of the program: one line, and no more from then on."""

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
    """Print one line on standard error, which may be closed."""
    try:
        sys.stderr.write(f"stepscope: {printable_line(sentence)}\n")
    except (OSError, ValueError, AttributeError) as refused:
        if is_from_handler(refused):
            raise


@contextlib.contextmanager
def silence_log() -> Iterator[None]:
    """Warnings go into the note: the launcher says them once, after the program."""
    import logging  # noqa: PLC0415 - arming stays light

    log = logging.getLogger("stepscope")
    log.disabled = True
    try:
        yield
    finally:
        log.disabled = False


def harmless(
    after_fault: Callable[[str], None],
) -> Callable[[Callable[_P, _R]], Callable[_P, _R | None]]:
    """Make a hook that never raises: a fault is logged and passed to `after_fault`.

    What interrupts the program (Ctrl-C, whatever its signal handlers raise) is its own
    and passes through.
    """

    def guard_hook(hook: Callable[_P, _R]) -> Callable[_P, _R | None]:
        @functools.wraps(hook)
        def guarded_hook(*args: _P.args, **kwargs: _P.kwargs) -> _R | None:
            try:
                return hook(*args, **kwargs)
            except Exception as fault:
                if is_from_handler(fault):
                    raise
                from stepscope.errors import StepscopeError  # noqa: PLC0415 - arming stays light

                is_ours = isinstance(fault, StepscopeError)
                why = f"{fault}" if is_ours else f"{type(fault).__name__}: {fault}"
                what = f"recording stops: {why}"
                say_line(what)
                # It was said that we stop.
                with suppress_faults():
                    after_fault(what)
                return None

        return guarded_hook

    return guard_hook
