"""Lines for the user of a program: the logger `stepscope`, or standard error."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, Any, Final

from stepscope.errors import is_from_handler, printable_line, suppress_faults

if TYPE_CHECKING:
    from collections.abc import Iterator


def say_line(sentence: str) -> None:
    """Print one line on standard error, which the program may have closed."""
    try:
        sys.stderr.write(f"stepscope: {printable_line(sentence)}\n")
    except (OSError, ValueError, AttributeError) as refused:
        if is_from_handler(refused):
            raise


def log_line(sentence: str, *, is_warning: bool = True) -> None:
    """Log one line; print it if the program has not configured `logging`.

    The program's levels and filters apply in both cases. A handler that fails does not
    harm the program. `logging` is not imported here: a program that has not imported it
    has not configured it, and after an import, Python forgets that Ctrl-C ended it.
    """
    if _silences:
        return
    logging: Any = sys.modules.get("logging")
    if logging is None:
        if is_warning:
            say_line(sentence)
        return
    with suppress_faults():
        logger = logging.getLogger("stepscope")
        level = logging.WARNING if is_warning else logging.INFO
        if not logger.isEnabledFor(level):
            return
        text = printable_line(sentence)
        record = logger.makeRecord(logger.name, level, __file__, 0, text, (), None)
        if logger.hasHandlers():
            logger.handle(record)
        elif logger.filter(record):
            say_line(text)


#: One member for each `silence_log` block that the process is in.
_silences: Final[list[None]] = []


@contextlib.contextmanager
def silence_log() -> Iterator[None]:
    """Log nothing; the launcher prints the warnings after the program ends."""
    _silences.append(None)
    try:
        yield
    finally:
        _silences.pop()
