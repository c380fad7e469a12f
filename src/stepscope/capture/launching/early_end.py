"""Programs that end before their first step: with what, told to whoever reads of them.

A report of such a recording would speak of how the program was set up, as if that were
what to change.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.capture.launching.notes import Note

__all__ = ["ending_error", "tell_early_ends"]

#: Characters of an exception's text that are kept.
_MAX_CHARACTERS: Final = 160


def ending_error() -> str | None:
    """Return the exception that ends this interpreter now, in one line; None if none.

    Of `sys.exit` only the exit status is known, to whoever started the program.
    """
    error = getattr(sys, "last_value", None)
    if error is None:
        return None
    try:
        text = f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001 - the program's own class
        text = type(error).__name__
    printable = "".join(it if it.isprintable() else " " for it in text)
    line = " ".join(printable.split()).removesuffix(":")
    if len(line) > _MAX_CHARACTERS:
        return f"{line[:_MAX_CHARACTERS]}…"
    return line


def tell_early_ends(notes: Sequence[Note], status: int) -> None:
    """Add to the recordings of programs without a step with what these ended.

    One without a framework that ends as it should has no steps to come to.

    Args:
        notes: What the processes said whose files stay.
        status: Exit status of the program that was started.
    """
    for note in notes:
        is_early = note.how == "early" and not note.steps
        fails = bool(note.error or status or note.has_framework)
        if note.path is not None and is_early and fails:
            ended_with = f"exit status {status}"
            if note.error is not None:
                ended_with = f"{note.error} ({ended_with})"
            _append(note.path, ended_with)


def _append(path: str, ended_with: str) -> None:
    from stepscope.xspace.vocabulary import END_PLANE, END_STAT  # noqa: PLC0415 - arming stays light
    from stepscope.xspace.writing.write import XSpaceBuilder  # noqa: PLC0415 - arming stays light

    space = XSpaceBuilder("", start_ns=None)
    space.plane(END_PLANE).set_stat(END_STAT, ended_with)
    try:
        with open(path, "ab") as file:  # noqa: PTH123 - pathlib is not needed for this
            file.write(space.to_bytes())
    except OSError:
        return
