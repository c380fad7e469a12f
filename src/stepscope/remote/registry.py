"""Which processes of this user can be recorded from outside, by a small file each.

The files lie in a folder that only its user may write to, and hold where a process
listens and since when it runs: a number that another process has got since, or a file
that a killed one left, is recognised by that. A folder that somebody else may have made
or may write to is not used, and that is said.
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

from stepscope.errors import BadUsage
from stepscope.remote.addresses import from_this_machine
from stepscope.remote.processes import (
    begins_to_listen,
    command_line,
    process_ancestors,
    process_owner,
    started_ticks,
    user_name,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: Longest list of processes in a sentence.
_LISTED: Final = 5
_WRITABLE_BY_OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH
#: Process → its servers: address → token. A forked child has none of its parent's.
_SERVERS: Final[dict[int, dict[str, str | None]]] = {}


class Listening(NamedTuple):
    """A process that listens for profiler clients.

    Attributes:
        address: `host:port`, or `unix:/PATH`, that clients of this machine reach it at.
        token: What clients have to send; None where it wants none.
    """

    process: int
    program: str
    address: str
    token: str | None


def note_server(address: str, token: str | None) -> str | None:
    """Write down where this process listens; return what went wrong, in one line."""
    servers = _SERVERS.setdefault(os.getpid(), {})
    servers.pop(address, None)
    servers[address] = token
    untrusted, failed = [], []
    for folder in _registry_folders():
        try:
            folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            # Nothing is made behind a link, or in a folder of somebody else.
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
        return f"{'; '.join(untrusted)}: this server is noted in {folder} instead."
    return (
        "stepscope capture does not find this program by itself "
        f"({'; '.join(untrusted + failed)}): give it the address, and the token that "
        "the server has (Server.token) or that STEPSCOPE_TOKEN sets for both; or set "
        "XDG_RUNTIME_DIR to a folder that is yours alone."
    )


def forget_server(address: str) -> None:
    """Take a server of this process out of its file; with the last one, the file."""
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
    """Return who of this user listens at an address; None where nobody is known to."""
    # A name may have another address, where somebody else listens.
    noted = from_this_machine(address)
    return next((one for one in _noted_servers() if one.address == noted), None)


def refused_folders() -> str:
    """Return which folders were not read, and why: a sentence, or nothing."""
    reasons = [it for folder in _registry_folders() if (it := _why_untrusted(folder))]
    return f" Not read, for safety: {'; '.join(reasons)}." if reasons else ""


def servers_of_process(process: int) -> tuple[Listening, ...]:
    """Return whom the number of a process records.

    That is the process itself; where it only started others, as a launcher does, the
    first below it that listen, and not what these started (workers that make batches).

    Raises:
        BadUsage: There is no such process, it is another user's, or neither it nor
            one that it started has a server.
    """
    user = process_owner(process)
    if user is None:
        raise BadUsage(
            f"there is no process {process}; give the number of one that runs."
        )
    if user != os.getuid():
        raise BadUsage(
            f"process {process} is another user's ({user_name(user)}): record it as "
            "that user, or by the address of its server."
        )
    by_number = {one.process: one for one in listening_processes()}
    if process in by_number:
        return (by_number[process],)
    found = []
    for one in by_number.values():
        above = process_ancestors(one.process)
        if process in above and by_number.keys().isdisjoint(
            above[: above.index(process)]
        ):
            found.append(one)
    if not found:
        raise BadUsage(_why_not(process, by_number))
    return tuple(found)


def _why_not(process: int, by_number: Mapping[int, Listening]) -> str:
    above = [by_number[it] for it in process_ancestors(process) if it in by_number]
    if above and command_line(process) == command_line(above[0].process):
        parent = _process_words(above[0])
        return (
            f"process {process} was forked from process {parent}, which listens; a "
            f"forked child has no server. Record its parent (--attach "
            f"{above[0].process}), or have the program spawn its children instead."
        )
    if begins_to_listen(process):
        return (
            f"process {process} does not listen yet: stepscope run --serve started "
            "it, and it says a line on standard error when it does, or why it cannot."
        )
    those = ", ".join(map(_process_words, list(by_number.values())[:_LISTED]))
    return (
        f"process {process} has no profiler server, or not yet: start the program with "
        "stepscope run --serve, or have it call ss.server.start()."
    ) + (f" Those that have one: {those}." if those else refused_folders())


def _process_words(one: Listening) -> str:
    return f"{one.process} ({one.program})"


def listening_processes() -> tuple[Listening, ...]:
    """Return the processes of this user that listen, by their numbers.

    Of one with several servers it is the last that was started.
    """
    found = {one.process: one for one in _noted_servers()}
    return tuple(found[process] for process in sorted(found))


def _noted_servers() -> Iterator[Listening]:
    for folder in _registry_folders():
        if _why_untrusted(folder) is None:
            for path in _registry_files(folder):
                yield from _read_servers(path)


def _registry_folders() -> Iterator[Path]:
    """Where the files are, best place first.

    A program that was started by a service or in a container may have no
    XDG_RUNTIME_DIR where the shell of its user has one.
    """
    given = os.environ.get("XDG_RUNTIME_DIR")
    roots = [Path(given)] if given else []
    roots += [
        Path(f"/run/user/{os.getuid()}"),
        Path(tempfile.gettempdir()) / f"run-{os.getuid()}",
    ]
    for root in dict.fromkeys(roots):
        # Nobody else's folder is made: only the last one may be missing as a whole.
        if root == roots[-1] or root.is_dir() or (given and root == roots[0]):
            yield root / "stepscope"


def _registry_files(folder: Path) -> list[Path]:
    try:
        return [it for it in folder.iterdir() if it.suffix == ".json"]
    except OSError:
        return []


def _read_servers(path: Path) -> tuple[Listening, ...]:
    """Return what a file says of a process that still runs; remove a stale one."""
    try:
        process = int(path.stem)
        if path.is_symlink():
            return ()
        fields: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        program, since = str(fields["program"]), fields["started_ticks"]
        found = tuple(
            Listening(process, program, address, token)
            for address, token in fields["servers"].items()
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return ()
    if process_owner(process) != os.getuid() or started_ticks(process) != since:
        with contextlib.suppress(OSError):
            path.unlink()
        return ()
    return found


def _write_servers(path: Path, servers: Mapping[str, str | None]) -> None:
    """Write a file that only its user may read, whole or not at all."""
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
    """Return why a folder may hold what others put there; None where it cannot.

    In a temporary directory somebody else may have made the folders before.
    """
    for one in (folder.parent, folder):
        try:
            status = one.lstat()
        except OSError:
            # Nobody has made it yet.
            return None
        if not stat.S_ISDIR(status.st_mode):
            return f"{one} is not a folder but a link or a file"
        if status.st_uid != os.getuid():
            return f"{one} is another user's ({user_name(status.st_uid)})"
        if status.st_mode & _WRITABLE_BY_OTHERS:
            return f"others may write to {one} (chmod 700 forbids it)"
    return None
