"""What is done around a program that runs under one of NVIDIA's profilers."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING

from stepscope.capture.launching.command import resolve
from stepscope.capture.launching.harmless import say
from stepscope.capture.launching.nsight import check_alone
from stepscope.errors import BadUsage, StepscopeError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path


def program_of(command: Sequence[str], name: str) -> list[str]:
    """Return the arguments of the program that a tool is to run.

    Raises:
        BadUsage: There is no such program, or it would trace the GPU itself.
    """
    arguments = resolve(command)
    check_alone(arguments, name)
    return arguments


def clear(outputs: Sequence[Path], *, force: bool) -> None:
    """Make room for what a tool will write.

    Raises:
        BadUsage: A file exists that may not be overwritten.
    """
    for path in outputs:
        if path.exists() and not force:
            raise BadUsage(f"{path}: exists already. Add --force to overwrite it")
        # What an earlier run left must not be taken for what this one writes.
        path.unlink(missing_ok=True)


def report_on(path: str, kernels: str | None = None) -> None:
    """Print the report on standard error, apart from the program's own output."""
    from stepscope.cli import (  # noqa: PLC0415 - only when there is a report
        report as reporting,
    )

    with contextlib.redirect_stdout(sys.stderr):
        reporting.answer(reporting.Request(paths=(path,), kernels=kernels))


@contextlib.contextmanager
def harmless() -> Iterator[None]:
    """Say what goes wrong after the program: its status is the answer."""
    try:
        yield
    except (StepscopeError, OSError) as error:
        say(str(error))
