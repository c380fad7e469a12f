"""Access control of a server: a token, or an exemption that its program grants."""

from __future__ import annotations

import hmac
import os
import secrets
from typing import TYPE_CHECKING, Any, Final, Literal

from stepscope.errors import BadUsage
from stepscope.remote.transport import METADATA_KEY, bearer_value, checked_token

if TYPE_CHECKING:
    from collections.abc import Callable

#: Clients that may call a server without a token.
OpenTo = Literal["machine", "network"]
_MACHINE: Final = "machine"
_KNOWN: Final = (_MACHINE, "network")
#: Environment variable from which servers and clients read a token.
_VARIABLE: Final = "STEPSCOPE_TOKEN"
#: Error text for a client without the right token.
_REFUSAL: Final = (
    "this server requires a token. For your own programs stepscope capture finds the "
    "token itself; for other programs give it (--token, or STEPSCOPE_TOKEN). Clients "
    "of TensorFlow and XProf cannot send a token; the program has to admit them with "
    'ss.server.start(open_to="machine"), or stepscope run --serve --open machine'
)


def choose_token(
    token: str | None, open_to: str | None, *, is_local: bool, is_socket: bool
) -> str | None:
    """Return the token that clients must send; None if no token is needed.

    Args:
        token: Token given by the program; otherwise `STEPSCOPE_TOKEN`, or a new token.
        open_to: Clients that may call without a token; None for no clients.

    Raises:
        BadUsage: `open_to` is unknown or contradicts another argument, or gRPC cannot
            send the token.
    """
    if open_to is None:
        if token is None and not is_socket:
            token = os.environ.get(_VARIABLE) or secrets.token_urlsafe(16)
        return None if token is None else checked_token(token, f"token=, {_VARIABLE}")
    if open_to not in _KNOWN:
        raise BadUsage(
            f'open_to={open_to!r} is unknown; give "machine" (any user of this '
            'machine) or "network" (any client that can connect).'
        )
    if token is not None or is_socket:
        raise BadUsage(
            f"open_to={open_to!r} admits all clients, but a token or a Unix socket "
            "admits only some; give only one of them."
        )
    if open_to == _MACHINE and not is_local:
        raise BadUsage(
            'open_to="machine" is not possible if other machines can connect to the '
            'server; give open_to="network", or leave out the host.'
        )
    return None


def is_given(token: str | None) -> bool:
    """Return whether the user chose the token, which then must not be logged."""
    return token is not None or bool(os.environ.get(_VARIABLE))


def describe_callers(open_to: str, *, is_local: bool) -> str:
    """Return a sentence that states who may call an open server."""
    callers = "any user of this machine" if is_local else "any client that can connect"
    return f"{callers} can record this program, without a token (open to {open_to!r})"


class TokenCheck:
    """gRPC interceptor that refuses calls without the right token.

    A call is refused before its request is read: a client that never sends a request
    would otherwise occupy one of the few concurrent calls. The caller imports gRPC.
    """

    def __init__(self, grpc: Any, token: str) -> None:
        self._wanted = bearer_value(token).encode()

        def refuse(_requests: object, context: Any) -> None:
            context.abort(grpc.StatusCode.UNAUTHENTICATED, _REFUSAL)

        # A stream handler starts its answer before it reads a request.
        self._refusal = grpc.stream_unary_rpc_method_handler(refuse)

    def intercept_service(
        self, continuation: Callable[[Any], Any], details: Any
    ) -> Any:
        """Return the handler of a call, or the refusal if the token is wrong."""
        sent = dict(details.invocation_metadata).get(METADATA_KEY, "")
        if hmac.compare_digest(str(sent).encode(), self._wanted):
            return continuation(details)
        return self._refusal
