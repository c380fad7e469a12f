"""Who may ask a server: whoever knows its token, or all whom its program let in."""

from __future__ import annotations

import hmac
import os
import secrets
from typing import TYPE_CHECKING, Any, Final, Literal

from stepscope.errors import BadUsage
from stepscope.remote.transport import METADATA_KEY, bearer_value, checked_token

if TYPE_CHECKING:
    from collections.abc import Callable

#: Whom a server without a token is open to.
OpenTo = Literal["machine", "network"]
_MACHINE: Final = "machine"
_KNOWN: Final = (_MACHINE, "network")
#: Both ends take a token from it.
_VARIABLE: Final = "STEPSCOPE_TOKEN"
#: What a client without the right token is told.
_REFUSAL: Final = (
    "this server wants a token: stepscope capture takes it from the registry of the "
    "user whose program this is; others give it (--token, or STEPSCOPE_TOKEN); clients "
    "of TensorFlow and XProf can send none and need a program that lets them in: "
    'ss.server.start(open_to="machine"), or stepscope run --serve --open machine'
)


def choose_token(
    token: str | None, open_to: str | None, *, is_local: bool, is_socket: bool
) -> str | None:
    """Return what clients have to send; None where they have to send nothing.

    Args:
        token: What the program gave; else `STEPSCOPE_TOKEN`, else a new one is made.
        open_to: Who may ask without one; None means nobody.

    Raises:
        BadUsage: `open_to` is unknown, or contradicts the rest, or the token cannot be
            sent.
    """
    if open_to is None:
        if token is None and not is_socket:
            token = os.environ.get(_VARIABLE) or secrets.token_urlsafe(16)
        return None if token is None else checked_token(token, f"token=, {_VARIABLE}")
    if open_to not in _KNOWN:
        raise BadUsage(
            f'open_to={open_to!r} is unknown; give "machine" (any user of this '
            'machine) or "network" (whoever reaches the port).'
        )
    if token is not None or is_socket:
        raise BadUsage(
            f"open_to={open_to!r} lets everybody in, and a token or a Unix socket only "
            "some; give one of them."
        )
    if open_to == _MACHINE and not is_local:
        raise BadUsage(
            'open_to="machine" does not hold where other machines reach the server; '
            'give open_to="network", or leave out the host.'
        )
    return None


def is_given(token: str | None) -> bool:
    """Return whether the user chose the token, and so knows what must not be logged."""
    return token is not None or bool(os.environ.get(_VARIABLE))


def who_may_ask(open_to: str, *, is_local: bool) -> str:
    """Return a sentence about who may ask an open server."""
    who = "any user of this machine" if is_local else "whoever reaches the port"
    return f"{who} can record this program, without a token (open to {open_to!r})"


class Doorkeeper:
    """Turns calls without the right token away, before their requests are waited for.

    It is a `ServerInterceptor` of gRPC, which only its user imports. A call whose
    request never comes would keep one of the few places for as long as it likes.
    """

    def __init__(self, grpc: Any, token: str) -> None:
        self._wanted = bearer_value(token).encode()

        def refuse(_requests: object, context: Any) -> None:
            context.abort(grpc.StatusCode.UNAUTHENTICATED, _REFUSAL)

        # Of a stream nothing is read before the answer begins.
        self._refusal = grpc.stream_unary_rpc_method_handler(refuse)

    def intercept_service(
        self, continuation: Callable[[Any], Any], details: Any
    ) -> Any:
        """Return what answers the call: what was asked for, or the refusal."""
        sent = dict(details.invocation_metadata).get(METADATA_KEY, "")
        if hmac.compare_digest(str(sent).encode(), self._wanted):
            return continuation(details)
        return self._refusal
