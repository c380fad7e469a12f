"""Here and now: where a recording would be written, and what else goes on."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from stepscope.doctor.check import Check, fact

if TYPE_CHECKING:
    from stepscope.doctor.machine import Machine

_HERE: Final = "here and now"
#: A recording of some steps takes a few to some hundred megabytes.
_LEAST_BYTES: Final = 2**30
_GIB: Final = 2**30
#: Programs that are named.
_LISTED: Final = 5
#: Ports that are used unless others are given, in documentation too, and by what.
_PORTS: Final = {6007: "stepscope serve", 6009: "profiler servers"}
_WITH_ANY_PORT: Final = {
    6007: "stepscope serve --port 0 LOGDIR",
    6009: "stepscope run --serve 0 -- python train.py",
}


def place_checks(machine: Machine, logdir: Path) -> list[Check]:
    """Look where recordings are written, which ports are free, and who listens."""
    return [*_log_directory(machine, logdir), _ports(machine), _servers(machine)]


def _servers(machine: Machine) -> Check:
    """Say which programs can be recorded now."""
    name = "programs that listen"
    found = machine.servers()
    if not found:
        text = "No program of yours listens for profiler clients."
        return fact(_HERE, name, text, state="skip")
    more = f" and {len(found) - _LISTED} more" if len(found) > _LISTED else ""
    return fact(_HERE, name, f"{', '.join(found[:_LISTED])}{more}.")


def _ports(machine: Machine) -> Check:
    used = {port: what for port, what in _PORTS.items() if not machine.is_free(port)}
    if not used:
        usual = " and ".join(f"{port} ({what})" for port, what in _PORTS.items())
        return fact(_HERE, "ports", f"{usual} are free.")
    taken = " and ".join(f"{port} ({what})" for port, what in used.items())
    return Check(
        group=_HERE,
        name="ports",
        state="warn",
        fact=f"Another program listens at {taken}.",
        remedy="Give another port; 0 takes a free one.",
        commands=tuple(_WITH_ANY_PORT[port] for port in used),
    )


def _log_directory(machine: Machine, logdir: Path) -> list[Check]:
    folder = _existing(logdir.absolute())
    name = "log directory"
    try:
        with tempfile.TemporaryDirectory(dir=folder, prefix=".stepscope-") as made:
            first, second = Path(made) / "a", Path(made) / "b"
            first.write_bytes(b"x")
            os.replace(first, second)  # noqa: PTH105 - as recordings do
    except OSError as error:
        return [
            Check(
                group=_HERE,
                name=name,
                state="fail",
                fact=f"{folder} cannot be written to ({error.strerror}).",
                remedy="Give another --logdir.",
            )
        ]
    found = [fact(_HERE, name, f"{folder} can be written to.")]
    free = machine.free_bytes(folder)
    if free < _LEAST_BYTES:
        found.append(
            Check(
                group=_HERE,
                name="free space",
                state="warn",
                fact=f"{free / _GIB:.2f} GiB are free; a long recording needs more.",
                remedy="Free some space, or give another --logdir.",
            )
        )
    else:
        found.append(fact(_HERE, "free space", f"{free / _GIB:,.1f} GiB are free."))
    return found


def _existing(folder: Path) -> Path:
    """Return the deepest folder above that exists: the others would be made."""
    while not folder.is_dir() and folder != folder.parent:
        folder = folder.parent
    return folder
