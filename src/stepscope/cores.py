"""Number of cores that this process may use."""

from __future__ import annotations

import os


def core_count() -> int:
    """Return the number of cores of the machine that the process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
