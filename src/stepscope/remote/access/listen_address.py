"""Address of a server: a port, or a Unix socket in a private folder of its user."""

from __future__ import annotations

import errno
import os
import socket
import stat
from pathlib import Path
from typing import Final, NamedTuple

from stepscope.errors import BadUsage
from stepscope.remote.addresses import SOCKET, is_loopback

_LAST_PORT: Final = 65535
#: Maximum bytes of a Unix socket's path, without its terminating zero byte.
_MAX_PATH_BYTES: Final = 107
_OTHER_USERS_BITS: Final = stat.S_IRWXG | stat.S_IRWXO
_CANNOT: Final = (
    "the server cannot listen at {} ({}); give another port, or 0 for a free one."
)
_NO_SOCKET: Final = (
    "the server cannot listen at {} ({}); give unix:/PATH in a private folder "
    "(chmod 700) or in a folder that does not exist yet."
)


class Place(NamedTuple):
    """Address at which a server is to listen.

    Attributes:
        host: Host name or address, or `unix:/PATH`.
        port: Port number; 0 for a free port.
    """

    host: str
    port: int

    @property
    def is_socket(self) -> bool:
        """Whether the address is a Unix socket, which only this user can access."""
        return self.host.startswith(SOCKET)

    @property
    def is_local(self) -> bool:
        """Whether only this machine can connect to the address."""
        return self.is_socket or is_loopback(self.host)

    def check_place(self) -> None:
        """Create the folder of a socket, and check that a server can listen.

        Raises:
            BadUsage: The server cannot listen, or other users can access the folder.
        """
        if self.is_socket:
            path = Path(self.host.removeprefix(SOCKET))
            reason = "it has no port" if self.port else _why_no_socket(path)
            if reason:
                raise BadUsage(_NO_SOCKET.format(self.host, reason))
            return
        if not isinstance(self.port, int) or not 0 <= self.port <= _LAST_PORT:
            raise BadUsage(
                f"port={self.port!r} does not exist; give 0 to {_LAST_PORT}."
            )
        if self.port and _is_taken(self.host, self.port):
            raise self.refused_place("the port is in use")

    def refused_place(self, reason: object) -> BadUsage:
        """Return the error for an address at which a server cannot listen."""
        return BadUsage(
            (_NO_SOCKET if self.is_socket else _CANNOT).format(self.target, reason)
        )

    @property
    def target(self) -> str:
        """Address in the form that gRPC needs."""
        return self.host if self.is_socket else f"{self.host}:{self.port}"

    def bound_place(self, port: int) -> Place:
        """Return this address with the port that gRPC chose."""
        return self if self.is_socket else Place(self.host, port)


def _why_no_socket(path: Path) -> str:
    """Create the socket's folder; return why it cannot be used, or ""."""
    if not path.is_absolute():
        return "the path does not begin with /"
    if len(os.fsencode(path)) > _MAX_PATH_BYTES:
        return f"the path has more than {_MAX_PATH_BYTES} bytes"
    try:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        status = path.parent.lstat()
        if not stat.S_ISDIR(status.st_mode):
            return f"{path.parent} is not a folder but a link or a file"
        if status.st_uid != os.getuid() or status.st_mode & _OTHER_USERS_BITS:
            return f"other users can access {path.parent}"
        return _blocking_file_reason(path)
    except (OSError, ValueError) as error:
        return str(error)


def _blocking_file_reason(path: Path) -> str:
    """Return why an existing file cannot be replaced; "" for a dead server's socket."""
    if not os.path.lexists(path):
        return ""
    if not stat.S_ISSOCK(path.lstat().st_mode):
        return "a file with this name exists"
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(os.fspath(path))
        except ConnectionRefusedError:
            return ""
    return "a server uses this path"


def _is_taken(host: str, port: int) -> bool:
    """Return whether a port is in use; gRPC would only log that."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.create_server((host.strip("[]"), port), family=family).close()
    except OSError as error:
        return error.errno == errno.EADDRINUSE
    return False
