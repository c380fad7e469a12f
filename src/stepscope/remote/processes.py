"""Properties of a process on this machine: user, ancestors and command line.

All values are read from /proc; without /proc, unknown values are None or empty.
"""

from __future__ import annotations

import os
from typing import Final

#: Environment variable with the plan of `stepscope run --serve`.
VARIABLE: Final = "STEPSCOPE_SERVE"


def process_owner(pid: int) -> int | None:
    """Return the user id of a process; None if the process does not exist."""
    try:
        return os.stat(f"/proc/{pid}").st_uid  # noqa: PTH116 - avoids importing pathlib
    except OSError:
        pass
    try:
        os.kill(pid, 0)
    except PermissionError:
        # Without /proc the owner is unknown, except that it is another user.
        return -1
    except (ProcessLookupError, OverflowError):
        return None
    return os.getuid()


def process_ancestors(pid: int) -> tuple[int, ...]:
    """Return the parent of a process, the parent's parent, and so on."""
    ancestors: list[int] = []
    parent = _parent(pid)
    while parent is not None and parent > 0 and parent not in ancestors:
        ancestors.append(parent)
        parent = _parent(parent)
    return tuple(ancestors)


def command_line(pid: int) -> bytes:
    """Return the command line of a process; empty if unknown.

    A forked child that executes no other program has the parent's command line.
    """
    return _read_process_file(pid, "cmdline")


def begins_to_listen(pid: int) -> bool:
    """Return whether `stepscope run --serve` started a process."""
    entries = _read_process_file(pid, "environ").split(b"\0")
    return any(entry.startswith(f"{VARIABLE}=".encode()) for entry in entries)


def user_name(user: int) -> str:
    """Return the name of a user, or the user id if there is no name."""
    import pwd  # noqa: PLC0415 - missing on some systems, and needed only for a message

    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return str(user) if user >= 0 else "unknown"


def _parent(pid: int) -> int | None:
    try:
        # The name of the process, in parentheses, may contain spaces.
        return int(_read_process_file(pid, "stat").rpartition(b")")[2].split()[1])
    except (ValueError, IndexError):
        return None


def _read_process_file(pid: int, name: str) -> bytes:
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:  # noqa: PTH123 - avoids importing pathlib
            return file.read()
    except OSError:
        return b""
