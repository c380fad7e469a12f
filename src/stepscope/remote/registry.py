"""Which processes of this user can be recorded from outside, by a small file each."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from stepscope.errors import BadUsage

__all__ = ["address_of", "forget", "note"]


def note(address: str) -> None:
    """Write down where this process listens; where that fails, so does `--attach`."""
    told = {
        "address": address,
        "since_unix_s": time.time(),
        "program": sys.argv[0] or sys.executable,
    }
    with contextlib.suppress(OSError):
        path = _file(os.getpid())
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Only its user may read it.
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            os.write(handle, json.dumps(told).encode())
        finally:
            os.close(handle)


def forget() -> None:
    """Take the file of this process away."""
    with contextlib.suppress(OSError):
        _file(os.getpid()).unlink()


def address_of(process: int) -> str:
    """Return where a process can be recorded.

    Raises:
        BadUsage: It is gone, or started no server.
    """
    path = _file(process)
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        path.unlink(missing_ok=True)
        raise BadUsage(f"there is no process {process}.") from None
    except PermissionError:
        pass
    try:
        told: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return str(told["address"])
    except (OSError, ValueError, KeyError):
        raise BadUsage(
            f"process {process} cannot be recorded from outside: it has not called "
            "ss.server.start(). Add that call to the program."
        ) from None


def _file(process: int) -> Path:
    root = os.environ.get("XDG_RUNTIME_DIR")
    base = Path(root) if root else Path(tempfile.gettempdir()) / f"run-{os.getuid()}"
    return base / "stepscope" / f"{process}.json"
