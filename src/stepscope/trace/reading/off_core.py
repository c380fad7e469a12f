"""Names of intervals in which a thread had no core, on a line next to the thread."""

from __future__ import annotations

from typing import Final

#: Beginning of all names of these intervals, and of no other names.
OFF_CORE: Final = "off the core: "


def name_of_wait(call: str) -> str:
    """Name an interval in which the thread waits in a system call."""
    return f"{OFF_CORE}waits in {call}"


def core_runs(thread: str | None) -> str:
    """Name an interval in which a thread, or another program (None), has the core."""
    return f"{OFF_CORE}the core runs {thread or 'another program'}"


def core_free() -> str:
    """Name an interval in which no recorded thread takes the core."""
    return f"{OFF_CORE}no recorded thread took the core"
