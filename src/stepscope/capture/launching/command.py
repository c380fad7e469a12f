"""The command of `stepscope run`, as the arguments of a process."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from stepscope.errors import BadUsage

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Options of the Python interpreter that may take the place of a program.
_OF_PYTHON: Final = ("-m", "-c")
_SCRIPTS: Final = (".py", ".pyw", ".pyz")
#: Names of an interpreter that this one replaces where none is installed.
_PYTHONS: Final = ("python", "python3")


def resolve(command: Sequence[str]) -> list[str]:
    """Return the command with the program that runs it in front.

    A script, `-m MODULE` and `-c CODE` are run by the interpreter that runs stepscope;
    any other command is looked for on PATH, then beside that interpreter.

    Raises:
        BadUsage: There is no such script or command.
    """
    if not command:
        raise BadUsage(
            "there is nothing to run; name a program: stepscope run -- script.py"
        )
    first = command[0]
    if first in _OF_PYTHON:
        if len(command) == 1:
            raise BadUsage(f"{first} needs a module or code after it")
        return [sys.executable, *command]
    if first.startswith("-"):
        raise BadUsage(
            f"stepscope run has no option {first}; see stepscope run --help. What is "
            "for the program comes after its name"
        )
    if first.endswith(_SCRIPTS):
        if not Path(first).is_file():
            raise BadUsage(f"{first}: there is no such file. Name a script that exists")
        return [sys.executable, *command]
    return _found(first, command[1:])


def _found(first: str, rest: Sequence[str]) -> list[str]:
    # Scripts that were installed together with stepscope are found without activating.
    beside = str(Path(sys.executable).parent)
    found = shutil.which(first) or shutil.which(first, path=beside)
    if found is not None:
        return [found, *rest]
    if first in _PYTHONS:
        return [sys.executable, *rest]
    if Path(first).is_file():
        raise BadUsage(
            f"{first}: is neither a script (.py) nor a program that may be run. Name "
            "the program that runs it"
        )
    if os.sep in first:
        raise BadUsage(f"{first}: there is no such program. Name one that exists")
    raise BadUsage(
        f"there is no command {first!r} on PATH. Install it or give its path"
    )
