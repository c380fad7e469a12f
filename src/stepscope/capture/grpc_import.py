"""gRPC as stepscope uses it in a program that may fork."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any, Final

_FORKS: Final = "GRPC_ENABLE_FORK_SUPPORT"
#: What gRPC's own code reads when it is imported, unless the user has set it.
#:
#: It logs errors alone. At its usual level it writes a line to standard error for each
#: child that a program with a server forks, as PyTorch's DataLoader does every epoch.
#:
#: It does nothing at a fork. What it usually does there lets a child go on with gRPC.
#: But one child in 25 died of SIGSEGV, and some hung, where their parent was being
#: recorded meanwhile.
_SETTINGS: Final = {"GRPC_VERBOSITY": "ERROR", _FORKS: "0"}
#: How gRPC reads that it is to do nothing at a fork.
_OFF: Final = frozenset({"0", "f", "false", "n", "no"})
#: The process that imported it so that it does nothing at a fork.
_importers: Final[list[int]] = []


class ForkedSince(ImportError):
    """A parent of this process imported gRPC, which does not work on this side."""


def import_grpc() -> Any:
    """Import gRPC with settings of ours, unless the program uses it already.

    Raises:
        ForkedSince: A parent of this process had it imported so.
        ImportError: It is not installed.
    """
    if "grpc" in sys.modules:
        if _importers and _importers[-1] != os.getpid():
            raise ForkedSince(
                "this process was forked from one that uses gRPC, which does not "
                "outlive a fork; have the program spawn its children instead"
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
