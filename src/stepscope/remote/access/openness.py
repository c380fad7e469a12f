"""Who may ask a server: whoever knows its token, or all whom its program let in."""

from __future__ import annotations

import os
import secrets
from typing import Final, Literal

from stepscope.errors import BadUsage

__all__ = ["REFUSAL", "OpenTo", "token_of", "who_may_ask"]

#: Whom a server without a token is open to.
OpenTo = Literal["machine", "network"]
_MACHINE: Final = "machine"
_KNOWN: Final = (_MACHINE, "network")
#: Both ends take a token from it.
_VARIABLE: Final = "STEPSCOPE_TOKEN"
#: What a client without the right token is told.
REFUSAL: Final = (
    "this server wants a token: stepscope capture takes it from the registry of the "
    "user whose program this is; others give it (--token, or STEPSCOPE_TOKEN); clients "
    "of TensorFlow and XProf can send none and need a program that lets them in: "
    'ss.server.start(open_to="machine"), or stepscope run --serve --open machine'
)


def token_of(
    token: str | None, open_to: str | None, *, is_local: bool, is_socket: bool
) -> str | None:
    """Return what clients have to send; None where they have to send nothing.

    Args:
        token: What the program gave; else `STEPSCOPE_TOKEN`, else a new one is made.
        open_to: Who may ask without one; None means nobody.
        is_local: Whether only this machine reaches the server.
        is_socket: Whether only this user does.

    Raises:
        BadUsage: `open_to` is unknown, or contradicts the rest.
    """
    if open_to is None:
        if token is not None or is_socket:
            return token
        return os.environ.get(_VARIABLE) or secrets.token_urlsafe(16)
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


def who_may_ask(open_to: str, *, is_local: bool) -> str:
    """Return a sentence about who may ask an open server."""
    who = "any user of this machine" if is_local else "whoever reaches the port"
    return f"{who} can record this program, without a token (open to {open_to!r})"
