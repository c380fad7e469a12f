"""Notes that each process of a run writes about its recording, for the launcher."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final, NamedTuple

from stepscope.errors import is_from_handler

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Code of child processes of `multiprocessing` that the program did not fork itself.
_CHILD: Final = ("from multiprocessing.spawn ", "from multiprocessing.forkserver ")
#: Maximum number of characters of `-c` code that are shown as a program's name.
_MAX_CHARS: Final = 48
#: Maximum number of characters of an exception's text that are kept.
_MAX_ERROR_CHARACTERS: Final = 160


class Note(NamedTuple):
    """Description of the recording of one process.

    Attributes:
        program: Script, module or code of the process, as given on its command line.
        how: What opened the window: "steps" or "time"; "early" if the program ended
            before its window; "waited" if it only started other processes (kept only if
            no other process has a recording); "none" if nothing was recorded.
        counted: Description of what was counted as steps; None without steps.
        path: File of the recording; None if no file was written.
        unrecorded_s: Durations of the last steps before the window, in seconds.
        recorded_s: Durations of the steps of the window except the first, in seconds.
        start_s: Seconds that the program waited for its window to open.
        stop_s: Seconds that the program waited for the recording to be stored.
        has_framework: Whether the program had imported a training framework.
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
    """Write a note atomically; do nothing if the folder is missing."""
    import json  # noqa: PLC0415 - needed only at the end of a recording

    path = f"{folder}/{note.process}.json"
    try:
        with open(f"{path}.new", "w", encoding="utf-8") as file:  # noqa: PTH123 - avoids importing pathlib
            json.dump(note._asdict(), file)
        os.replace(f"{path}.new", path)  # noqa: PTH105 - avoids importing pathlib
    except OSError:
        return


def read_notes(folder: str) -> tuple[Note, ...]:
    """Return all readable notes, in order of process id."""
    import json  # noqa: PLC0415 - needed only at the end of a recording

    notes = []
    for entry in _folder_entries(folder):
        if not entry.name.endswith(".json"):
            continue
        try:
            with open(entry.path, encoding="utf-8") as file:  # noqa: PTH123 - avoids importing pathlib
                fields = json.load(file)
            for name, value in fields.items():
                fields[name] = tuple(value) if isinstance(value, list) else value
            notes.append(Note(**fields))
        except (OSError, ValueError, TypeError, KeyError):
            continue
    return tuple(sorted(notes))


def say_steps_counted(folder: str) -> None:
    """Report to the other processes of the run that this one counts steps."""
    try:
        with open(f"{folder}/{os.getpid()}.steps", "w", encoding="utf-8"):  # noqa: PTH123 - avoids importing pathlib
            pass
    except OSError as refused:
        if is_from_handler(refused):
            raise


def steps_were_counted(folder: str) -> bool:
    """Return whether a process of the run counts steps."""
    return any(entry.name.endswith(".steps") for entry in _folder_entries(folder))


def ending_error() -> str | None:
    """Return the exception that ends this interpreter, in one line, or None.

    `sys.exit` does not count as an exception: the launcher gets its exit status.
    """
    error = getattr(sys, "last_value", None)
    if error is None:
        return None
    try:
        text = f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001 - the exception class is the program's
        text = type(error).__name__
    printable = "".join(letter if letter.isprintable() else " " for letter in text)
    line = " ".join(printable.split()).removesuffix(":")
    if len(line) > _MAX_ERROR_CHARACTERS:
        return f"{line[:_MAX_ERROR_CHARACTERS]}…"
    return line


def program_is_known() -> bool:
    """Return whether `program_name` is known; children receive it from their parent."""
    return not _is_child() or (bool(sys.argv) and sys.argv[0] != "-c")


def program_name() -> str:
    """Return the script, module or code of this process, as on its command line.

    A child of `multiprocessing` is named by its program and its process name.
    """
    if _is_child():
        # `sys.argv` is replaced when the parent sends the program's own arguments.
        if not program_is_known():
            return "a child of multiprocessing"
        process = sys.modules.get("multiprocessing.process")
        program = sys.argv[0]
        return f"{program} {process.current_process().name}" if process else program
    arguments = sys.orig_argv[1:]
    for index, argument in enumerate(arguments):
        if argument in {"-m", "-c"}:
            target = arguments[index + 1 : index + 2]
            return " ".join((argument, *target)).split("\n")[0][:_MAX_CHARS]
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
