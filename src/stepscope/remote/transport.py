"""gRPC as both ends use it: names of services, limits, and who may call."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any, Final

from stepscope.errors import BadUsage

__all__ = ["ANALYSIS", "METADATA_KEY", "SERVICE", "UNLIMITED", "bearer", "grpc_module"]

SERVICE: Final = "tensorflow.ProfilerService"
ANALYSIS: Final = "tensorflow.ProfileAnalysis"
#: gRPC refuses messages beyond 4 MB by default, and a profile is one message.
UNLIMITED: Final = (
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
)
#: How much gRPC's own code logs, which reads it when it is imported.
_VERBOSITY: Final = "GRPC_VERBOSITY"
#: Where a call carries the token.
METADATA_KEY: Final = "authorization"


def bearer(token: str) -> str:
    """Return the value of a call's `authorization`."""
    return f"Bearer {token}"


def grpc_module() -> Any:
    """Import gRPC, whose own code logs errors alone then.

    At its usual level it writes a line to standard error for each child that a program
    with a server forks, as PyTorch's DataLoader does in every epoch.

    Raises:
        BadUsage: It is not installed.
    """
    is_ours = _VERBOSITY not in os.environ and "grpc" not in sys.modules
    if is_ours:
        os.environ[_VERBOSITY] = "ERROR"
    try:
        return importlib.import_module("grpc")
    except ImportError as error:
        raise BadUsage(
            f"recording from outside needs gRPC, which cannot be imported ({error}); "
            "pip install grpcio"
        ) from error
    finally:
        if is_ours:
            os.environ.pop(_VERBOSITY, None)
