"""Names of intervals in which a thread had no core, on a track next to the thread's."""

from __future__ import annotations

from typing import Final

#: Prefix of the names of intervals without a core; no other name has this prefix.
OFF_CORE: Final = "off the core: "


def name_of_wait(call: str) -> str:
    """Name an interval in which the thread waits in a system call."""
    return f"{OFF_CORE}waits in {call}"


def core_runs(thread: str | None) -> str:
    """Name an interval in which another thread (None: another program) has the core."""
    return f"{OFF_CORE}the core runs {thread or 'another program'}"


def core_free() -> str:
    """Name an interval in which no recorded thread runs on the core."""
    return f"{OFF_CORE}no recorded thread took the core"
