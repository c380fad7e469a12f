"""Names of the stretches in which a thread had no core, on a line beside the thread."""

from __future__ import annotations

from typing import Final

#: All these names begin so, and no others.
OFF_CORE: Final = "off the core: "


def name_of_wait(call: str) -> str:
    """Name a wait in a call of the operating system."""
    return f"{OFF_CORE}waits in {call}"


def core_runs(thread: str | None) -> str:
    """Name a stretch in which a thread of the program, or another one, has the core."""
    return f"{OFF_CORE}it runs {thread or 'another program'}"


def core_free() -> str:
    """Name a stretch in which no recorded thread takes the core."""
    return f"{OFF_CORE}nothing recorded took it"
