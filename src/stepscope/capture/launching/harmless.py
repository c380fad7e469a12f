"""Hooks that never fail the program: an error logs a line and ends the recording."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from stepscope.capture.base.program_log import log_line
from stepscope.errors import is_from_handler, suppress_faults

if TYPE_CHECKING:
    from collections.abc import Callable

_P = ParamSpec("_P")
_R = TypeVar("_R")


def harmless(
    after_fault: Callable[[str], None],
) -> Callable[[Callable[_P, _R]], Callable[_P, _R | None]]:
    """Make a hook that never raises: an error is logged and passed to `after_fault`.

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
                log_line(message)
                with suppress_faults():
                    after_fault(message)
                return None

        return guarded_hook

    return guard_hook
