"""gRPC as both ends use it: names of services, limits, and who may call."""

from __future__ import annotations

from typing import Any, Final

from stepscope.capture.grpc_import import ForkedSince, import_grpc
from stepscope.errors import BadUsage

__all__ = ["ANALYSIS", "METADATA_KEY", "SERVICE", "UNLIMITED", "bearer", "grpc_module"]

SERVICE: Final = "tensorflow.ProfilerService"
ANALYSIS: Final = "tensorflow.ProfileAnalysis"
#: gRPC refuses messages beyond 4 MB by default, and a profile is one message.
UNLIMITED: Final = (
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
)
#: Where a call carries the token.
METADATA_KEY: Final = "authorization"


def bearer(token: str) -> str:
    """Return the value of a call's `authorization`."""
    return f"Bearer {token}"


def grpc_module() -> Any:
    """Import gRPC.

    Raises:
        BadUsage: It is not installed, or does not work in this process.
    """
    try:
        return import_grpc()
    except ForkedSince as error:
        raise BadUsage(f"recording from outside cannot begin here: {error}.") from error
    except ImportError as error:
        raise BadUsage(
            f"recording from outside needs gRPC, which cannot be imported ({error}); "
            "pip install grpcio"
        ) from error
