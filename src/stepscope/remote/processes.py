"""What this machine says of a process: whose it is, who started it, what it runs.

All of it comes from /proc; without that, what is not known is None or empty.
"""

from __future__ import annotations

import os
from typing import Final

#: The environment variable by which `stepscope run --serve` has processes listen.
VARIABLE: Final = "STEPSCOPE_SERVE"
#: Fields of /proc/PID/stat, counted from after the name of the process.
_PARENT, _STARTED_TICKS = 1, 19


def process_owner(process: int) -> int | None:
    """Return the user of a process; None where there is none."""
    try:
        return os.stat(f"/proc/{process}").st_uid  # noqa: PTH116 - pathlib is not needed for this
    except OSError:
        pass
    try:
        os.kill(process, 0)
    except PermissionError:
        # Nobody of this number: without /proc it is only known to be another user's.
        return -1
    except (ProcessLookupError, OverflowError):
        return None
    return os.getuid()


def started_ticks(process: int) -> int | None:
    """Return when a process started, since the machine did; None without /proc."""
    return _stat_field(process, _STARTED_TICKS)


def process_ancestors(process: int) -> tuple[int, ...]:
    """Return who started a process, who started that one, and so on, nearest first."""
    found: list[int] = []
    parent = _stat_field(process, _PARENT)
    while parent is not None and parent > 0 and parent not in found:
        found.append(parent)
        parent = _stat_field(parent, _PARENT)
    return tuple(found)


def command_line(process: int) -> bytes:
    """Return the words that a process was started with; empty where not known.

    A child that is forked and runs no other program has those of its parent.
    """
    return _read_process_file(process, "cmdline")


def begins_to_listen(process: int) -> bool:
    """Return whether `stepscope run --serve` started a process."""
    entries = _read_process_file(process, "environ").split(b"\0")
    return any(entry.startswith(f"{VARIABLE}=".encode()) for entry in entries)


def user_name(user: int) -> str:
    """Return the name of a user, else the number."""
    import pwd  # noqa: PLC0415 - not on every system, and only for a message

    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return str(user) if user >= 0 else "unknown"


def _stat_field(process: int, field: int) -> int | None:
    try:
        return int(
            _read_process_file(process, "stat").rpartition(b")")[2].split()[field]
        )
    except (ValueError, IndexError):
        return None


def _read_process_file(process: int, name: str) -> bytes:
    try:
        with open(f"/proc/{process}/{name}", "rb") as file:  # noqa: PTH123 - pathlib is not needed for this
            return file.read()
    except OSError:
        return b""
