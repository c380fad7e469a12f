"""Running a command that records itself: signals and exit status are passed on."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from stepscope.capture.launching.outcome import BY_SIGNAL
from stepscope.capture.launching.plan import VARIABLE
from stepscope.errors import BadUsage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import FrameType

    from stepscope.capture.launching.plan import RunPlan

#: Options of the Python interpreter that take the place of a script.
_OF_PYTHON: Final = ("-m", "-c")
_SCRIPTS: Final = (".py", ".pyw", ".pyz")
#: Command names for which this interpreter is used if PATH has no such program.
_PYTHONS: Final = ("python", "python3")


def resolve_command(command: Sequence[str]) -> list[str]:
    """Return the command with the path of its program or interpreter in front.

    A script, `-m MODULE` and `-c CODE` are executed by the interpreter of stepscope.
    Any other command is searched for on PATH, then next to stepscope's interpreter.

    Raises:
        BadUsage: The script or command does not exist.
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
            f"stepscope run has no option {first}; see stepscope run --help. Options "
            "of the program come after its name"
        )
    if first.endswith(_SCRIPTS):
        if not Path(first).is_file():
            raise BadUsage(f"{first}: there is no such file. Name a script that exists")
        return [sys.executable, *command]
    # Scripts of an environment that is not activated are next to its interpreter.
    scripts = str(Path(sys.executable).parent)
    python = sys.executable if first in _PYTHONS else None
    program = shutil.which(first) or shutil.which(first, path=scripts) or python
    if program is not None:
        return [program, *command[1:]]
    if Path(first).is_file():
        raise BadUsage(
            f"{first}: is not a Python script (.py) and is not executable. Name the "
            "program that runs it"
        )
    if os.sep in first:
        raise BadUsage(f"{first}: there is no such program. Name one that exists")
    raise BadUsage(
        f"there is no command {first!r} on PATH. Install it or give its path"
    )


_INJECTED: Final = Path(__file__).parent / "injected"
_PATH: Final = "PYTHONPATH"


def armed_environment(
    environment: Mapping[str, str], variable: str, plan: str
) -> dict[str, str]:
    """Return the environment with a plan, and our `sitecustomize` first on PYTHONPATH.

    Child processes inherit the environment, so they belong to the same run.

    Args:
        variable: The plan's environment variable; its name selects the arming module.
    """
    armed = {**environment, variable: plan}
    before = environment.get(_PATH)
    # An empty entry in PYTHONPATH would mean the working directory.
    armed[_PATH] = f"{_INJECTED}{os.pathsep}{before}" if before else str(_INJECTED)
    return armed


_PASSED_ON: Final = tuple(
    getattr(signal, name)
    for name in ("SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2")
    if hasattr(signal, name)
)


def launch_program(
    arguments: Sequence[str], plan: RunPlan, environment: Mapping[str, str]
) -> int:
    """Run a program that records itself by the plan; return its exit status."""
    return supervise_program(
        arguments, armed_environment(environment, VARIABLE, plan.to_text())
    )


def supervise_program(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a program with its own input and outputs; return its exit status.

    Signals that ask for an end go to the program, and stepscope waits for it. If a
    signal ended the program, the status is 128 plus the signal's number, as in a shell.
    """
    started: list[subprocess.Popen[bytes]] = []
    early: list[int] = []

    def pass_on(number: int, frame: FrameType | None) -> None:
        del frame
        if not started:
            early.append(number)
        elif started[0].returncode is None:
            started[0].send_signal(number)

    def leave_to_program(number: int, frame: FrameType | None) -> None:
        # A terminal sends Ctrl-C to the program directly.
        with suppress(OSError, ValueError, AttributeError):
            if os.isatty(sys.stdin.fileno()):
                return
        pass_on(number, frame)

    handlers = dict.fromkeys(_PASSED_ON, pass_on)
    handlers[signal.SIGINT] = leave_to_program
    # A signal that is ignored here (nohup, a background job) is ignored in the program.
    before = {
        number: signal.signal(number, handler)
        for number, handler in handlers.items()
        if signal.getsignal(number) is not signal.SIG_IGN
    }
    try:
        try:
            process = subprocess.Popen(  # noqa: S603 - the command is the user's
                arguments, env=dict(environment)
            )
        except OSError as error:
            raise BadUsage(
                f"{arguments[0]}: cannot be run ({error.strerror}). Name a program "
                "that the system can run"
            ) from error
        started.append(process)
        for number in early:
            process.send_signal(number)
        status = process.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return status if status >= 0 else BY_SIGNAL - status
