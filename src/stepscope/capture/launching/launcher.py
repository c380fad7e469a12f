"""Running a command with a plan: signals passed on, its exit status kept."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Final

from stepscope.capture.launching.environment import armed_environment
from stepscope.capture.launching.outcome import BY_SIGNAL
from stepscope.capture.launching.plan import VARIABLE
from stepscope.errors import BadUsage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import FrameType

    from stepscope.capture.launching.plan import RunPlan

_PASSED_ON: Final = tuple(
    getattr(signal, name)
    for name in ("SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2")
    if hasattr(signal, name)
)


def launch(
    arguments: Sequence[str], plan: RunPlan, environment: Mapping[str, str]
) -> int:
    """Run a program that records itself by the plan; its exit status.

    Raises:
        BadUsage: The system cannot run it.
    """
    return supervise(
        arguments, armed_environment(environment, VARIABLE, plan.to_text())
    )


def supervise(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a program with its own input and outputs; its exit status.

    A signal that asks to end is passed on, and we wait for the program. Where a signal
    ended it the status is 128 and the signal's number, as a shell reports it.

    Raises:
        BadUsage: The system cannot run it.
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
        # On a terminal Ctrl-C reaches the program by itself.
        if not _has_terminal():
            pass_on(number, frame)

    handlers = dict.fromkeys(_PASSED_ON, pass_on)
    handlers[signal.SIGINT] = leave_to_program
    # What is ignored (nohup, a job in the background) stays so in the program too.
    before = {
        number: signal.signal(number, handler)
        for number, handler in handlers.items()
        if signal.getsignal(number) is not signal.SIG_IGN
    }
    try:
        try:
            process = subprocess.Popen(  # noqa: S603 - running it is what was asked for
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


def _has_terminal() -> bool:
    try:
        return os.isatty(sys.stdin.fileno())
    except (OSError, ValueError, AttributeError):
        return False
