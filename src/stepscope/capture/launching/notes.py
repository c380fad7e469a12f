"""What each process of a run says about its recording, for whoever started it."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final, NamedTuple

from stepscope.errors import is_from_handler

if TYPE_CHECKING:
    from collections.abc import Iterable

#: What children of `multiprocessing` run that are not forked from the program.
_CHILD: Final = ("from multiprocessing.spawn ", "from multiprocessing.forkserver ")
#: Characters of code that are shown as the name of a program.
_SHOWN: Final = 48
#: Characters of an exception's text that are kept.
_MAX_ERROR_CHARACTERS: Final = 160


class Note(NamedTuple):
    """What one process recorded.

    Attributes:
        program: Its script, module or code, as it was called.
        how: Why this was recorded: "steps", "time", "early" where the program ended
            before its window began, "waited" where it only started other processes:
            that is kept where nothing else was recorded; "none" where nothing was.
        counted: What was counted as steps, None without any.
        path: File of the recording, None where none could be written.
        unrecorded_s: How long the last steps before the window took.
        recorded_s: How long the steps of the window took, but for the first one.
        start_s: How long the program waited for its window to open.
        stop_s: How long it waited for the recording to be stored.
        has_framework: Whether it had imported a framework that trains.
    """

    process: int
    program: str
    how: str
    counted: str | None
    steps: int
    first: int | None
    last: int | None
    path: str | None
    warnings: tuple[str, ...]
    seconds: float = 0.0
    unrecorded_s: tuple[float, ...] = ()
    recorded_s: tuple[float, ...] = ()
    start_s: float = 0.0
    stop_s: float = 0.0
    error: str | None = None
    has_framework: bool = False


def write_note(folder: str, note: Note) -> None:
    """Leave a note, whole or not at all; without the folder nobody reads it."""
    import json  # noqa: PLC0415 - only when a recording ends

    path = f"{folder}/{note.process}.json"
    try:
        with open(f"{path}.new", "w", encoding="utf-8") as file:  # noqa: PTH123 - pathlib is not needed for this
            json.dump(note._asdict(), file)
        os.replace(f"{path}.new", path)  # noqa: PTH105 - pathlib is not needed for this
    except OSError:
        return


def read_notes(folder: str) -> tuple[Note, ...]:
    """Return all notes, by process id; what cannot be read is left out."""
    import json  # noqa: PLC0415 - only when a recording ends

    notes = []
    for entry in _folder_entries(folder):
        if not entry.name.endswith(".json"):
            continue
        try:
            with open(entry.path, encoding="utf-8") as file:  # noqa: PTH123 - pathlib is not needed for this
                fields = json.load(file)
            for name, value in fields.items():
                fields[name] = tuple(value) if isinstance(value, list) else value
            notes.append(Note(**fields))
        except (OSError, ValueError, TypeError, KeyError):
            continue
    return tuple(sorted(notes))


def say_steps_are_counted(folder: str) -> None:
    """Report to the other processes that this one counts steps."""
    try:
        with open(f"{folder}/{os.getpid()}.steps", "w", encoding="utf-8"):  # noqa: PTH123 - pathlib is not needed for this
            pass
    except OSError as refused:
        if is_from_handler(refused):
            raise


def steps_were_counted(folder: str) -> bool:
    """Return whether a process of the run counts steps."""
    return any(entry.name.endswith(".steps") for entry in _folder_entries(folder))


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
    if len(line) > _MAX_ERROR_CHARACTERS:
        return f"{line[:_MAX_ERROR_CHARACTERS]}…"
    return line


def program_is_known() -> bool:
    """Return whether `program_name` tells; a child of `multiprocessing` has to hear."""
    return not _is_child() or (bool(sys.argv) and sys.argv[0] != "-c")


def program_name() -> str:
    """Return the script, module or code that the interpreter runs, as it was called.

    A child of `multiprocessing` has the name of its program, and its own.
    """
    if _is_child():
        # What its parent sends replaces the interpreter's own arguments.
        if not program_is_known():
            return "a child of multiprocessing"
        process = sys.modules.get("multiprocessing.process")
        program = sys.argv[0]
        return f"{program} {process.current_process().name}" if process else program
    arguments = sys.orig_argv[1:]
    for index, argument in enumerate(arguments):
        if argument in {"-m", "-c"}:
            what = arguments[index + 1 : index + 2]
            return " ".join((argument, *what)).split("\n")[0][:_SHOWN]
        if not argument.startswith("-"):
            return argument
    return "python"


def _is_child() -> bool:
    return any(word.startswith(_CHILD) for word in sys.orig_argv)


def _folder_entries(folder: str) -> Iterable[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []
