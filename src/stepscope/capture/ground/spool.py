"""The spool: what a kill spares. Whole fragments appended to a file, one at a time.

A fragment is a complete XSpace message, and so are several one after the other: what
is in the file at any moment can be read (`formats`), a fragment that was cut off apart.
Nothing here raises into the program: what the disk refuses stays in memory.
"""

from __future__ import annotations

import errno
import os
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

#: Bytes copied at a time where old fragments are dropped.
_COPY_BYTES: Final = 2**20
_CREATING: Final = os.O_CREAT | os.O_EXCL | os.O_TRUNC


class OwnDescriptor:
    """A descriptor of ours, in a program that may close all that there are.

    Another file of the program may have its number then, which we neither read nor
    write nor close.

    Attributes:
        unchecked: Its number when it was last asked for. Nothing is harmed where it is
            only read from a given place.
    """

    def __init__(self, number: int) -> None:
        self.unchecked = number
        self._identity = _file_identity(number)

    def number(self) -> int:
        """Return its number; OSError where it was closed."""
        if _file_identity(self.unchecked) != self._identity:
            self.unchecked = -1
            raise _closed_error()
        return self.unchecked

    def close(self) -> None:
        """Close it, unless somebody has."""
        with suppress(OSError):
            os.close(self.number())
        self.unchecked = -1


class OwnFile(OwnDescriptor):
    """A file of ours, which is opened again where the program has closed it."""

    def __init__(self, path: str | os.PathLike[str], flags: int) -> None:
        self._path = path
        self._flags = flags | os.O_CLOEXEC
        super().__init__(os.open(path, self._flags, 0o644))

    def number(self) -> int:
        """Return its number; OSError where it was closed and is not where it was."""
        with suppress(OSError):
            return super().number()
        number = os.open(self._path, self._flags & ~_CREATING)
        if _file_identity(number) != self._identity:
            os.close(number)
            raise _closed_error()
        self.unchecked = number
        return number

    def set_path(self, path: str | os.PathLike[str]) -> None:
        """Note that it was given another name."""
        self._path = path


def _closed_error() -> OSError:
    return OSError(errno.EBADF, os.strerror(errno.EBADF))


def _file_identity(number: int) -> tuple[int, int] | None:
    try:
        status = os.fstat(number)
    except OSError:
        return None
    return status.st_dev, status.st_ino


class Fragment(NamedTuple):
    """What was recorded since the last one.

    Attributes:
        xspace: A serialized XSpace; empty where there was nothing.
        begin_ns: When its first event began, of the monotonic clock; None where it
            holds no event.
    """

    xspace: bytes
    events: int
    begin_ns: int | None = None


class _Stored(NamedTuple):
    size: int
    events: int
    begin_ns: int | None


class Spool:
    """Fragments of one recording, in a file as far as the disk takes them."""

    def __init__(self, path: Path | None, *, head: bytes, max_bytes: int) -> None:
        """Begin a spool.

        Args:
            path: The file, which must not exist; None keeps all in memory.
            head: The first fragment, which is never dropped: it says when recording
                began.
            max_bytes: Most bytes of all fragments together; the oldest give way.

        Raises:
            OSError: The file cannot be made.
        """
        self.path = path
        self.dropped_events = 0
        self.refused: OSError | None = None
        self._head = head
        self._max_bytes = max_bytes
        self._file: OwnFile | None = None
        #: Where the oldest fragment that still counts begins in the file.
        self._begin = len(head)
        self._stored: deque[_Stored] = deque()
        self._stored_bytes = 0
        self._kept: deque[Fragment] = deque()
        self._kept_bytes = 0
        if path is not None:
            self._file = OwnFile(path, os.O_CREAT | os.O_EXCL | os.O_RDWR)
            if not self._write_fragment(self._file, head, at=0):
                self.leave_file()

    def append_fragment(self, fragment: Fragment) -> None:
        """Store a fragment; where the disk refuses it, in memory."""
        body, events = fragment.xspace, fragment.events
        if not body:
            return
        at = self._begin + self._stored_bytes
        if self._file is not None and self._write_fragment(self._file, body, at=at):
            self._stored.append(_Stored(len(body), events, fragment.begin_ns))
            self._stored_bytes += len(body)
        else:
            self._kept.append(fragment)
            self._kept_bytes += len(body)
        if self._stored_bytes + self._kept_bytes > self._max_bytes:
            self._drop_oldest(newest=len(body))

    def read_content(self) -> bytes:
        """Return all fragments one after the other, the head first."""
        parts = [self._head]
        if self._file is not None:
            stored = _read_bytes(self._file, self._begin, self._stored_bytes)
            parts.append(stored)
        parts += [fragment.xspace for fragment in self._kept]
        return b"".join(parts)

    def oldest_ns(self) -> int | None:
        """Return when the first event began of all that it holds."""
        begins = [it.begin_ns for it in self._stored]
        begins += [it.begin_ns for it in self._kept]
        return min((it for it in begins if it is not None), default=None)

    def remove_file(self) -> None:
        """Remove the file: what it held is stored elsewhere."""
        self.leave_file()
        if self.path is not None:
            self._unlink_file(self.path)

    def leave_file(self) -> None:
        """Leave the file as it is, for whoever reads it."""
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def _unlink_file(self, path: Path) -> None:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            # It stays, and may be read.
            self.refused = error

    def _write_fragment(self, file: OwnFile, body: bytes, *, at: int) -> bool:
        try:
            _write_bytes(file, body, at)
        except OSError as error:
            self.refused = error
        else:
            return True
        try:
            os.ftruncate(file.number(), at)
        except OSError as error:
            # A reader stops at the torn fragment even so.
            self.refused = error
        return False

    def _drop_oldest(self, *, newest: int) -> None:
        """Let go of the oldest half, so that it does not have to be done soon again.

        The newest fragment stays if the budget has room for it, however large it is.
        """
        room = self._max_bytes // 2
        if room < newest <= self._max_bytes:
            room = newest
        while self._stored and self._stored_bytes + self._kept_bytes > room:
            oldest = self._stored.popleft()
            self._stored_bytes -= oldest.size
            self._begin += oldest.size
            self.dropped_events += oldest.events
        while self._kept and self._stored_bytes + self._kept_bytes > room:
            fragment = self._kept.popleft()
            self._kept_bytes -= len(fragment.xspace)
            self.dropped_events += fragment.events
        if self._file is not None and self._begin > len(self._head):
            self._shorten_file(self._file)

    def _shorten_file(self, old: OwnFile) -> None:
        """Make a file of the head and of what still counts, and go on with that one.

        The old file stays whole until the new one is: a kill in between loses nothing.
        Where there is no room for a second file, the old one stays, longer than asked.
        """
        if self.path is None:
            return
        fresh = self.path.with_name(f".{self.path.name}.{os.getpid()}.unfinished")
        new = None
        try:
            new = OwnFile(fresh, os.O_CREAT | os.O_TRUNC | os.O_RDWR)
            _write_bytes(new, self._head, 0)
            for done in range(0, self._stored_bytes, _COPY_BYTES):
                size = min(_COPY_BYTES, self._stored_bytes - done)
                part = _read_bytes(old, self._begin + done, size)
                _write_bytes(new, part, len(self._head) + done)
            fresh.replace(self.path)
            new.set_path(self.path)
        except OSError as error:
            self.refused = error
            if new is not None:
                new.close()
            self._unlink_file(fresh)
            return
        self.leave_file()
        self._file, self._begin = new, len(self._head)


def _write_bytes(file: OwnFile, body: bytes, at: int) -> None:
    done = 0
    view = memoryview(body)
    while done < len(body):
        done += os.pwrite(file.number(), view[done:], at + done)


def _read_bytes(file: OwnFile, at: int, size: int) -> bytes:
    parts = []
    while size > 0:
        part = os.pread(file.number(), size, at)
        if not part:
            break
        parts.append(part)
        at += len(part)
        size -= len(part)
    return b"".join(parts)
