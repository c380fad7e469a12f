"""Registry of this user's processes that run a server: one small file per process.

The files are in a folder that only its user may write to. A file contains the addresses
of a process and its start time, by which stale files and reused process ids are
recognised. A folder that another user may have created or may write to is not used, and
the user is warned.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import stat
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from stepscope.capture.temporary import started_ticks
from stepscope.errors import BadUsage
from stepscope.remote.addresses import from_this_machine
from stepscope.remote.processes import (
    begins_to_listen,
    command_line,
    process_ancestors,
    process_owner,
    user_name,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_MAX_LISTED: Final = 5
_WRITABLE_BY_OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH
#: Process id → its servers (address → token). A forked child has no entry.
_SERVERS: Final[dict[int, dict[str, str | None]]] = {}


class Listening(NamedTuple):
    """A process that runs a profiler server.

    Attributes:
        address: `host:port`, or `unix:/PATH`, for clients on this machine.
        token: Token that clients must send; None if no token is needed.
    """

    process: int
    program: str
    address: str
    token: str | None


def note_server(address: str, token: str | None) -> str | None:
    """Register a server of this process; return a one-line error, or None."""
    servers = _SERVERS.setdefault(os.getpid(), {})
    servers.pop(address, None)
    servers[address] = token
    untrusted, failed = [], []
    for folder in _registry_folders():
        try:
            folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            # Nothing is created behind a link, or in another user's folder.
            reason = _why_untrusted(folder)
            if reason is not None:
                untrusted.append(reason)
                continue
            folder.mkdir(mode=0o700, exist_ok=True)
            for path in _registry_files(folder):
                _read_servers(path)
            _write_servers(folder / f"{os.getpid()}.json", servers)
        except OSError as error:
            failed.append(str(error))
            continue
        if not untrusted:
            return None
        return f"{'; '.join(untrusted)}: this server is registered in {folder} instead."
    return (
        "stepscope capture cannot find this program automatically "
        f"({'; '.join(untrusted + failed)}): give it the address and the token "
        "(Server.token, or set STEPSCOPE_TOKEN for both programs), or set "
        "XDG_RUNTIME_DIR to a private folder."
    )


def forget_server(address: str) -> None:
    """Remove a server from this process's file; remove a file without servers."""
    servers = _SERVERS.get(os.getpid(), {})
    servers.pop(address, None)
    for folder in _registry_folders():
        path = folder / f"{os.getpid()}.json"
        with contextlib.suppress(OSError):
            if not path.exists() or _why_untrusted(folder) is not None:
                continue
            if servers:
                _write_servers(path, servers)
            else:
                path.unlink()


def server_at_address(address: str) -> Listening | None:
    """Return this user's process that listens at an address, or None."""
    # The address is compared as text: a host name may resolve to another process.
    noted = from_this_machine(address)
    return next(
        (server for server in _noted_servers() if server.address == noted), None
    )


def refused_folders() -> str:
    """Return a sentence that names unread folders and the reasons, or ""."""
    reasons = [why for folder in _registry_folders() if (why := _why_untrusted(folder))]
    return f" Not read, for safety: {'; '.join(reasons)}." if reasons else ""


def servers_of_process(pid: int) -> tuple[Listening, ...]:
    """Return the processes to record for a process id.

    The result is the process itself if it has a server. If it has none, the result is
    its nearest descendants with a server: a launcher's workers, but not their workers.

    Raises:
        BadUsage: The process does not exist or belongs to another user, or neither it
            nor a descendant has a server.
    """
    user = process_owner(pid)
    if user is None:
        raise BadUsage(f"there is no process {pid}; give the id of a running process.")
    if user != os.getuid():
        raise BadUsage(
            f"process {pid} belongs to {user_name(user)}, another user: record it as "
            "that user, or by the address of its server."
        )
    by_number = {server.process: server for server in listening_processes()}
    if pid in by_number:
        return (by_number[pid],)
    servers = []
    for server in by_number.values():
        above = process_ancestors(server.process)
        if pid in above and by_number.keys().isdisjoint(above[: above.index(pid)]):
            servers.append(server)
    if not servers:
        raise BadUsage(_no_server_reason(pid, by_number))
    return tuple(servers)


def _no_server_reason(process: int, by_number: Mapping[int, Listening]) -> str:
    above = [by_number[pid] for pid in process_ancestors(process) if pid in by_number]
    if above and command_line(process) == command_line(above[0].process):
        parent = _process_text(above[0])
        return (
            f"process {process} was forked from process {parent}, which listens; a "
            f"forked child has no server. Record its parent (--attach "
            f"{above[0].process}), or have the program spawn its children instead."
        )
    if begins_to_listen(process):
        return (
            f"process {process} does not listen yet: stepscope run --serve started "
            "it, and it prints a line on standard error when it listens or fails."
        )
    listed = ", ".join(map(_process_text, list(by_number.values())[:_MAX_LISTED]))
    return (
        f"process {process} has no profiler server, or not yet: start the program with "
        "stepscope run --serve, or have it call ss.server.start()."
    ) + (f" Processes with a server: {listed}." if listed else refused_folders())


def _process_text(server: Listening) -> str:
    return f"{server.process} ({server.program})"


def listening_processes() -> tuple[Listening, ...]:
    """Return the processes of this user that have a server, by process id.

    For a process with several servers, the most recent one is returned.
    """
    servers = {server.process: server for server in _noted_servers()}
    return tuple(servers[process] for process in sorted(servers))


def _noted_servers() -> Iterator[Listening]:
    for folder in _registry_folders():
        if _why_untrusted(folder) is None:
            for path in _registry_files(folder):
                yield from _read_servers(path)


def _registry_folders() -> Iterator[Path]:
    """Yield the folders of the registry, best first.

    A program that runs as a service or in a container may lack XDG_RUNTIME_DIR, while
    the shell of its user has it.
    """
    # Windows has no users with a number, and no program that notes its servers.
    if not hasattr(os, "getuid"):
        return
    runtime_dir = os.environ.get("XDG_RUNTIME_DIR")
    roots = [Path(runtime_dir)] if runtime_dir else []
    roots += [
        Path(f"/run/user/{os.getuid()}"),
        Path(tempfile.gettempdir()) / f"run-{os.getuid()}",
    ]
    for root in dict.fromkeys(roots):
        # The temporary folder and XDG_RUNTIME_DIR may be created, not `/run/user`.
        if root == roots[-1] or root.is_dir() or (runtime_dir and root == roots[0]):
            yield root / "stepscope"


def _registry_files(folder: Path) -> list[Path]:
    try:
        return [path for path in folder.iterdir() if path.suffix == ".json"]
    except OSError:
        return []


def _read_servers(path: Path) -> tuple[Listening, ...]:
    """Return the servers of a process that still runs; remove a stale file."""
    try:
        process = int(path.stem)
        if path.is_symlink():
            return ()
        fields: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        program, since = str(fields["program"]), fields["started_ticks"]
        servers = tuple(
            Listening(process, program, address, token)
            for address, token in fields["servers"].items()
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return ()
    if process_owner(process) != os.getuid() or started_ticks(process) != since:
        with contextlib.suppress(OSError):
            path.unlink()
        return ()
    return servers


def _write_servers(path: Path, servers: Mapping[str, str | None]) -> None:
    fields = {
        "servers": servers,
        "program": sys.argv[0] or sys.executable,
        "started_ticks": started_ticks(os.getpid()),
    }
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(fields, file)
        part.replace(path)
    except OSError:
        part.unlink(missing_ok=True)
        raise


def _why_untrusted(folder: Path) -> str | None:
    """Return why other users could change a folder; None if they cannot.

    In a temporary directory another user may have created the folders earlier.
    """
    for path in (folder.parent, folder):
        try:
            status = path.lstat()
        except OSError:
            return None
        if not stat.S_ISDIR(status.st_mode):
            return f"{path} is not a folder but a link or a file"
        if status.st_uid != os.getuid():
            return f"{path} is another user's ({user_name(status.st_uid)})"
        if status.st_mode & _WRITABLE_BY_OTHERS:
            return f"other users may write to {path} (chmod 700 prevents it)"
    return None
