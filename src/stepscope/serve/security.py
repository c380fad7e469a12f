"""Access control, and the headers of every answer (docs/serve.md).

The server of `stepscope serve` checks its clients. Inside another server (TensorBoard),
that server decides who may read; this module then only checks changes and sets headers.
"""

from __future__ import annotations

import hmac
import ipaddress
import secrets
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlencode, urlsplit

import msgspec
from werkzeug.wrappers import Request, Response

from stepscope.serve.errors import Refused

if TYPE_CHECKING:
    from werkzeug.datastructures import Headers

#: Headers of every answer.
HEADERS: Final = (
    (
        "Content-Security-Policy",
        (
            "default-src 'self'; script-src 'self'; style-src 'self'; "
            "img-src 'self' data: blob:; object-src 'none'; base-uri 'none'; "
            "form-action 'none'; frame-ancestors 'self'"
        ),
    ),
    ("X-Content-Type-Options", "nosniff"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Referrer-Policy", "no-referrer"),
)
#: Header of requests that change something. A page of another site cannot send the
#: header: the browser first sends a preflight request, which gets no answer.
CHANGE_HEADER: Final = "X-Stepscope"

_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_TOKEN: Final = "token"  # noqa: S105 - the name of a parameter
_TOKEN_BYTES: Final = 32


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """Access rules of a `stepscope serve` server.

    Attributes:
        names: Names of the server that are accepted in a request's Host header.
        any_address: Whether the Host header may also be any IP address, which DNS
            cannot redirect.
        token: Token that a client sends once; None if only this machine can connect.
        session: Value of the cookie that a client gets for the token.
        cookie: Name of the cookie, different for each port of the machine.
    """

    names: frozenset[str]
    any_address: bool
    token: str | None
    session: str
    cookie: str


def is_loopback(host: str) -> bool:
    """Return whether an address is reachable from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def make_policy(host: str, port: int) -> Policy:
    """Return the access rules of a server that listens at this host and port."""
    is_local = is_loopback(host)
    names = set(_LOOPBACK)
    if is_local:
        names.add(host)
    else:
        names |= {host.lower(), socket.gethostname().lower(), socket.getfqdn().lower()}
    return Policy(
        names=frozenset(names),
        any_address=not is_local,
        token=None if is_local else secrets.token_urlsafe(_TOKEN_BYTES),
        session=secrets.token_urlsafe(_TOKEN_BYTES),
        cookie=f"stepscope-{port}",
    )


def admit_request(policy: Policy, request: Request) -> Response | None:
    """Accept a request (None), or answer one that exchanges a token for a session.

    Raises:
        Refused: The Host header names another server, or the client has no session.
    """
    _check_host(policy, request)
    if policy.token is None:
        return None
    token = request.args.get(_TOKEN)
    if token is not None and _equal_secrets(token, policy.token):
        other_args = [
            (name, value)
            for name, value in request.args.items(multi=True)
            if name != _TOKEN
        ]
        # A relative address works below any URL prefix, and stays on this site.
        place = quote(request.path.rsplit("/", 1)[-1])
        answer = Response(status=303)
        answer.autocorrect_location_header = False
        answer.headers["Location"] = f"./{place}" + (
            f"?{urlencode(other_args)}" if other_args else ""
        )
        answer.headers["Cache-Control"] = "no-store"
        answer.set_cookie(
            policy.cookie, policy.session, httponly=True, samesite="Strict", path="/"
        )
        return answer
    session = request.cookies.get(policy.cookie, "")
    if token is not None or not _equal_secrets(session, policy.session):
        raise Refused(
            403,
            "refused",
            "this server needs the token in the address that it printed at its start. "
            "Open that address",
        )
    return None


def check_change(request: Request) -> None:
    """Check that a change is requested by our own page or by a program.

    Raises:
        Refused: The request lacks the header, or comes from another site.
    """
    if request.headers.get(CHANGE_HEADER) != "1":
        raise Refused(403, "refused", f"give the header {CHANGE_HEADER}: 1")
    origin = request.headers.get("Origin")
    is_foreign = origin is not None and urlsplit(origin).netloc != request.host
    if is_foreign or not _is_own(request):
        raise Refused(403, "refused", "only the server's own page may change something")


def check_reader(request: Request) -> None:
    """Check that data is requested by our own page, a program or a typed address.

    Raises:
        Refused: A page of another site, or of another port of this machine, requests
            the data by a script, as a resource, in a frame, or by a link.
    """
    if not _is_own(request):
        raise Refused(
            403,
            "refused",
            "data is sent to the server's own page only. Open that page, or type "
            "the address into the browser",
        )


def add_headers(headers: Headers) -> None:
    """Add the headers that restrict what a browser may do with an answer."""
    for name, value in HEADERS:
        headers.set(name, value)


def _check_host(policy: Policy, request: Request) -> None:
    """Refuse other host names, which DNS rebinding would bring."""
    host = request.headers.get("Host", "").lower()
    name = host.partition(":")[0]
    if host.startswith("["):
        name = host[1:].partition("]")[0]
    if name in policy.names:
        return
    if policy.any_address:
        with suppress(ValueError):
            ipaddress.ip_address(name)
            return
    raise Refused(
        403,
        "refused",
        "the server's name in the request is wrong. Open the address that the server "
        "printed at its start, or one with the machine's IP address",
    )


def _is_own(request: Request) -> bool:
    """Return whether the browser reports no page of another origin as the sender."""
    return request.headers.get("Sec-Fetch-Site") in (None, "same-origin", "none")


def _equal_secrets(received: str, known: str) -> bool:
    return hmac.compare_digest(received.encode("utf-8", "replace"), known.encode())
