"""The machine that is checked, as an object that tests can replace."""

from __future__ import annotations

import contextlib
import ctypes
import importlib.metadata
import os
import shutil
import socket
import sys
import sysconfig
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

Loader = Callable[[str], Any]


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """Access to a machine for the checks.

    Attributes:
        root: Root of the file system.
        environ: Environment variables.
        packages: Name of an installed distribution → its version.
        import_path: Folders from which Python imports.
        load: Loads a shared library by name or path; raises `OSError`.
        which: Returns the path of a program on PATH; None if there is none.
        free_bytes: Returns the free space of the file system that contains a folder.
        is_free: Returns whether a program on this machine can listen at a port.
        packages_at: Folder into which `pip install` puts packages.
        servers: Returns descriptions of this user's programs with a profiler server.
    """

    root: Path
    environ: Mapping[str, str]
    packages: Mapping[str, str]
    import_path: tuple[Path, ...]
    load: Loader
    which: Callable[[str], str | None]
    free_bytes: Callable[[Path], int]
    is_free: Callable[[int], bool]
    packages_at: Path
    servers: Callable[[], Sequence[str]]

    @classmethod
    def here(cls, *, servers: Callable[[], Sequence[str]] = tuple) -> Machine:
        """Return the machine that runs this Python."""
        packages: dict[str, str] = {}
        for package in importlib.metadata.distributions():
            name = package.metadata["Name"]
            if name:
                packages.setdefault(name.lower().replace("_", "-"), package.version)
        return cls(
            root=Path("/"),
            environ=dict(os.environ),
            packages=packages,
            import_path=tuple(Path(folder) for folder in sys.path if folder),
            load=ctypes.CDLL,
            which=shutil.which,
            free_bytes=lambda folder: shutil.disk_usage(folder).free,
            is_free=_is_free,
            packages_at=Path(sysconfig.get_path("platlib")),
            servers=servers,
        )

    def text(self, path: str) -> str | None:
        """Return the content of a file below the root; None if it cannot be read."""
        with contextlib.suppress(OSError):
            return (self.root / path).read_text(encoding="utf-8", errors="replace")
        return None

    def find(self, pattern: str) -> list[Path]:
        """Return the files below the root that match a pattern, sorted by name."""
        with contextlib.suppress(OSError):
            return sorted(self.root.glob(pattern))
        return []


def _is_free(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True
