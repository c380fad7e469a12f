"""Temporary folders, named after their process so that leftovers can be removed.

A process that creates a folder removes the folders of the user's ended processes.
"""

from __future__ import annotations

import functools
import os
import platform
import re
import shutil
import stat
import tempfile
import zlib
from pathlib import Path
from typing import Final

#: Folder in memory, to which TensorFlow's recordings are written.
_IN_MEMORY: Final = "/dev/shm"  # noqa: S108 - only stepscope's own folders are used
#: Folder name: kind, process namespace, process id, start in ticks, unique suffix.
_NAMED: Final = re.compile(r"stepscope-[a-z]+-([0-9a-f]{8})-(\d+)-(\d+)-\w+")
#: Index of the start time in /proc/PID/stat, counted after the process name.
_STARTED_TICKS: Final = 19
_ONLY_OURS: Final = 0o700
_WRITABLE_BY_OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH


def make_folder(kind: str, *, within: str | os.PathLike[str] | None = None) -> str:
    """Create a temporary folder; first remove the folders that killed programs left."""
    parent = tempfile.gettempdir() if within is None else os.fspath(within)
    for folder in {parent, _IN_MEMORY}:
        _remove_left_behind(folder)
    return tempfile.mkdtemp(prefix=folder_prefix(kind), dir=parent)


def folder_prefix(kind: str) -> str:
    """Return the prefix of the names of this process's temporary folders."""
    process = os.getpid()
    ticks = started_ticks(process) or 0
    return f"stepscope-{kind}-{_processes_here()}-{process}-{ticks}-"


@functools.cache
def _remove_left_behind(folder: str) -> None:
    """Remove folders of this user's ended processes; at most once per folder."""
    if started_ticks(os.getpid()) is None:
        return
    try:
        status = os.stat(folder)  # noqa: PTH116 - the path is a text
        is_safe = status.st_uid in {0, os.geteuid()}
        if status.st_mode & _WRITABLE_BY_OTHERS:
            is_safe = bool(status.st_mode & stat.S_ISVTX)
        if not is_safe:
            # In this directory, another user could rename this user's folder.
            return
        with os.scandir(folder) as entries:
            left = [entry.path for entry in entries if _is_left_behind(entry)]
    except OSError:
        return
    for path in left:
        # `rmtree` follows no symbolic links, if the system supports that.
        shutil.rmtree(path, ignore_errors=True)


def _is_left_behind(entry: os.DirEntry[str]) -> bool:
    named = _NAMED.fullmatch(entry.name)
    if named is None or named[1] != _processes_here():
        return False
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError:
        return False
    is_folder = stat.S_ISDIR(status.st_mode)
    is_ours = status.st_uid == os.geteuid()
    is_private = stat.S_IMODE(status.st_mode) == _ONLY_OURS
    if not (is_folder and is_ours and is_private):
        return False
    return started_ticks(int(named[2])) != int(named[3])


@functools.cache
def _processes_here() -> str:
    """Return a code that identifies the machine and the namespace of process ids.

    Containers and machines may share a temporary folder but not their processes.
    """
    try:
        numbering = os.readlink("/proc/self/ns/pid")  # noqa: PTH115 - the path is a text
    except OSError:
        numbering = ""
    return f"{zlib.crc32(f'{platform.node()} {numbering}'.encode()):08x}"


def started_ticks(process: int) -> int | None:
    """Return the start of a process in clock ticks since boot; None without /proc."""
    try:
        text = Path(f"/proc/{process}/stat").read_bytes()
        return int(text.rpartition(b")")[2].split()[_STARTED_TICKS])
    except (OSError, ValueError, IndexError):
        return None
