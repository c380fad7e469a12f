"""Import of gRPC in a program that may fork."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any, Final

_FORKS: Final = "GRPC_ENABLE_FORK_SUPPORT"
#: Environment variables that gRPC reads at its import, unless the user has set them.
#:
#: gRPC logs only errors. At its default log level gRPC writes a line to standard error
#: for each child that a program with a server forks, such as PyTorch's DataLoader
#: workers.
#:
#: gRPC's fork handling is off. By default a forked child may continue to use gRPC. But
#: in recorded programs, one forked child in 25 died of SIGSEGV, and some hung.
_SETTINGS: Final = {"GRPC_VERBOSITY": "ERROR", _FORKS: "0"}
#: Values that gRPC reads as "fork handling off".
_OFF: Final = frozenset({"0", "f", "false", "n", "no"})
#: Ids of the processes that imported gRPC with fork handling off.
_importers: Final[list[int]] = []


class ForkedSince(ImportError):
    """A parent process imported gRPC, which does not work in its forked children."""


def import_grpc() -> Any:
    """Import gRPC with stepscope's settings, unless the program has imported it.

    Raises:
        ForkedSince: A parent process imported gRPC with fork handling off.
        ImportError: gRPC is not installed.
    """
    if "grpc" in sys.modules:
        if _importers and _importers[-1] != os.getpid():
            raise ForkedSince(
                "this process was forked from a process that uses gRPC, and gRPC does "
                "not work after a fork; have the program spawn its children instead"
            )
        return sys.modules["grpc"]
    ours = [name for name in _SETTINGS if name not in os.environ]
    os.environ.update({name: _SETTINGS[name] for name in ours})
    try:
        grpc = importlib.import_module("grpc")
        if os.environ[_FORKS].lower() in _OFF:
            _importers.append(os.getpid())
        return grpc
    finally:
        for name in ours:
            os.environ.pop(name, None)
