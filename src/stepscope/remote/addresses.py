"""Addresses of profiler servers, as a person writes them."""

from __future__ import annotations

import ipaddress
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from stepscope.errors import BadUsage

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["addresses", "file_name_of", "is_loopback"]

_SCHEMES: Final = ("grpc://", "http://")
_FILE: Final = "@"
_ADDRESS: Final = re.compile(
    r"(?P<host>\[[0-9A-Fa-f:.%\w]+\]|[^\[\]:/\s]+):(?P<port>\d{1,5})\Z"
)
_LAST_PORT: Final = 65535
_NAME: Final = re.compile(r"[A-Za-z][\w.-]*")
#: On a TPU machine: the workers of its slice, between commas.
_TPU_WORKERS: Final = "TPU_WORKER_HOSTNAMES"


def addresses(given: str | Iterable[str]) -> tuple[str, ...]:
    """Return `host:port` of each server, without doubles, in the order given.

    Args:
        given: Addresses, or texts with several between commas: `host:port`,
            `grpc://host:port`, `[::1]:port`. `@FILE` means the addresses in a file, one
            a line; what follows a `#` there is a remark.

    Raises:
        BadUsage: One is no address, a file cannot be read, or there is none.
    """
    texts = [given] if isinstance(given, str) else list(given)
    found: dict[str, None] = {}
    for text in texts:
        for part in text.split(","):
            for one in _in_file(part) if part.strip().startswith(_FILE) else [part]:
                if one.strip():
                    found[_checked(one.strip())] = None
    if not found:
        raise BadUsage(
            "no address was given; give host:port of a profiler server, or "
            "--attach PID."
        )
    return tuple(found)


def is_loopback(host: str) -> bool:
    """Return whether a host name or address can only be reached from this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def file_name_of(address: str) -> str:
    """Return the name of a server's file without the suffix: host and port."""
    return re.sub(r"[^A-Za-z0-9._-]+", "_", address).strip("_.")


def _in_file(text: str) -> list[str]:
    path = Path(text.strip().removeprefix(_FILE))
    try:
        content = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadUsage(
            f"{path}: the file of addresses cannot be read ({error}); give a text file "
            "with host:port on each line."
        ) from error
    lines = (line.partition("#")[0] for line in content.splitlines())
    return [one for line in lines for one in line.split(",")]


def _workers(name: str) -> str:
    """Return what to give instead of a name; on a TPU machine its own workers."""
    hosts = os.environ.get(_TPU_WORKERS, "").replace(" ", "").split(",")
    return " ".join(f"{host}:PORT" for host in hosts if host) or f"{name}:6009"


def _checked(text: str) -> str:
    bare = text
    for scheme in _SCHEMES:
        bare = bare.removeprefix(scheme)
    if _NAME.fullmatch(bare):
        raise BadUsage(
            f"{text!r} is no address of a profiler server: names of TPUs and machines "
            "without a port are not looked up. Give host:port of each worker, with the "
            "port of its jax.profiler.start_server or "
            f"tf.profiler.experimental.server.start: {_workers(bare)}."
        )
    found = _ADDRESS.match(bare.rstrip("/"))
    if found is None or not 0 < int(found["port"]) <= _LAST_PORT:
        raise BadUsage(
            f"{text!r} is no address of a profiler server; give host:port, such as "
            "localhost:6009."
        )
    return found.group()
